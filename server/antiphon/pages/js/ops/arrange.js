/** Which runs are shown, in which order, and what else there is to choose from. */
import { ENDED } from './words.js';

/**
 * @typedef {import('./types.js').Row} Row
 * @typedef {import('./address.js').View} View
 * @typedef {import('./address.js').SortKey} SortKey
 */

/** @param {Pick<Row, 'run'>} row @returns {number} connections that are attached to it */
export function clients({ run }) {
  let sum = 0;
  for (const participant of run.participants ?? []) sum += 'count' in participant ? participant.count : 1;
  return sum;
}

/** @param {Pick<Row, 'run'>} row @returns {number} Unix seconds of the first deadline of its held calls, or infinity */
export function firstDeadline({ run }) {
  let first = Infinity;
  for (const { deadline } of run.pending_calls ?? [])
    if (typeof deadline === 'number') first = Math.min(first, deadline);
  return first;
}

/** How long it has gone on, or how long it took. @param {Pick<Row, 'run'>} row @param {number} now Unix seconds */
export const age = ({ run }, now) => (ENDED.has(run.state) ? run.updated_at : now) - run.created_at;

/** What asks for a person comes first. */
const RANK = ['waiting_for_tool', 'running', 'queued', 'failed', 'incomplete', 'cancelled', 'completed'];

/** @type {Record<SortKey, (row: Row, now: number) => number | string>} */
const VALUES = {
  created: ({ run }) => run.created_at,
  state: ({ run }) => RANK.indexOf(run.state),
  agent: ({ run }) => run.agent ?? '',
  model: ({ run }) => run.model,
  tenant: ({ run }) => run.tenant,
  step: ({ run }) => run.step ?? 0,
  tool: ({ run }) => run.current_tool ?? '',
  age: (row, now) => age(row, now),
  tokens: (row) => row.outputTokens,
  rate: (row) => row.tokensPerS,
  cost: ({ run }) => run.cost ?? -1,
  clients,
  pending: firstDeadline,
};

/** Columns whose numbers move by themselves: their order is renewed now and then, not with every number. */
export const MOVING = new Set(['tokens', 'rate', 'cost']);

/** @param {Iterable<Row>} rows @param {View} view @param {number} now Unix seconds @returns {Row[]} */
export function arrange(rows, view, now) {
  const shown = [];
  const text = view.text.trim().toLowerCase();
  for (const row of rows) if (matches(row, view, text)) shown.push(row);
  const value = VALUES[view.sort];
  const sign = view.descending ? -1 : 1;
  // Equal ones stand in the order of their making, newest first, so that lines keep their places.
  return shown.sort(
    (a, b) =>
      sign * compare(value(a, now), value(b, now)) ||
      compare(b.run.created_at, a.run.created_at) ||
      compare(b.id, a.id),
  );
}

/** @param {Row} row @param {View} view @param {string} text in small letters */
function matches({ run }, view, text) {
  if (view.state.length && !view.state.includes(run.state)) return false;
  if (view.agent && run.agent !== view.agent) return false;
  if (view.model && run.model !== view.model) return false;
  if (view.principal && run.principal !== view.principal) return false;
  return !text || searched(run).includes(text);
}

/** @param {import('./types.js').RunState} run */
function searched(run) {
  const labels = Object.entries(run.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const parts = [
    run.response_id,
    run.conversation_id,
    run.agent,
    run.model,
    run.principal,
    run.current_tool,
    run.upstream,
  ];
  return [...parts, ...labels].filter(Boolean).join('\n').toLowerCase();
}

/** @param {number | string} a @param {number | string} b */
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/**
 * What can be chosen, with how many runs have it.
 * @param {Iterable<Row>} rows
 */
export function choices(rows) {
  const found = {
    state: /** @type {Map<string, number>} */ (new Map()),
    agent: /** @type {Map<string, number>} */ (new Map()),
    model: /** @type {Map<string, number>} */ (new Map()),
    principal: /** @type {Map<string, number>} */ (new Map()),
  };
  for (const { run } of rows) {
    add(found.state, run.state);
    if (run.agent) add(found.agent, run.agent);
    add(found.model, run.model);
    add(found.principal, run.principal);
  }
  return found;
}

/** @param {Map<string, number>} counts @param {string} name */
const add = (counts, name) => counts.set(name, (counts.get(name) ?? 0) + 1);

/** @param {Iterable<Row>} rows @returns {{live: number, waiting: number, queued: number, ended: number, cost: number | null}} */
export function totals(rows) {
  const sums = { live: 0, waiting: 0, queued: 0, ended: 0, cost: /** @type {number | null} */ (null) };
  for (const { run } of rows) {
    if (ENDED.has(run.state)) sums.ended += 1;
    else sums.live += 1;
    if (run.state === 'waiting_for_tool') sums.waiting += 1;
    if (run.state === 'queued') sums.queued += 1;
    if (typeof run.cost === 'number') sums.cost = (sums.cost ?? 0) + run.cost;
  }
  return sums;
}
