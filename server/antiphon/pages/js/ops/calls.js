/** The tool calls of a run, from its log, its state and its timeline together. */

/**
 * @typedef {import('./types.js').RunState} RunState
 * @typedef {import('./types.js').Moment} Moment
 *
 * @typedef {object} Call
 * @property {string} id
 * @property {string} name
 * @property {'waiting' | 'busy' | 'done' | 'failed'} stage
 * @property {string} given its arguments as the model wrote them
 * @property {string} output empty while there is none
 * @property {string} owner who runs the tool: the server or a client
 * @property {string} by who answered, or holds it
 * @property {number | null} deadline Unix seconds
 * @property {number | null} durationMs
 */

/** @type {Record<string, string>} */
const NAMED_BY_TYPE = {
  web_search_call: 'web_search',
  computer_call: 'computer',
  local_shell_call: 'local_shell',
  shell_call: 'shell',
  apply_patch_call: 'apply_patch',
  mcp_approval_request: 'approval',
};

/**
 * @param {readonly any[]} output items of the response
 * @param {RunState | null} run
 * @param {readonly Moment[]} timeline
 * @returns {Call[]} in their order
 */
export function callsOf(output, run, timeline) {
  /** @type {Map<string, Call>} */
  const calls = new Map();
  for (const item of output) {
    if (!item) continue;
    if (typeof item.type === 'string' && item.type.endsWith('_output')) answered(calls, item);
    else if (isCall(item)) calls.set(item.call_id ?? item.id, callOf(item));
  }
  for (const { event, data } of timeline) timed(calls, event, data);
  for (const pending of run?.pending_calls ?? []) {
    const call = calls.get(pending.call_id);
    if (!call) continue;
    Object.assign(call, { stage: 'waiting', deadline: pending.deadline ?? null, by: pending.claim?.holder ?? '' });
  }
  for (const { call_id: id, by } of run?.resolved_calls ?? []) {
    const call = calls.get(id);
    if (call && by) call.by = by;
  }
  return [...calls.values()];
}

/** @param {any} item */
export const isCall = (item) => item.type?.endsWith('_call') || item.type === 'mcp_approval_request';

/** @param {any} item @returns {string} */
export const nameOf = (item) => item.name ?? NAMED_BY_TYPE[item.type] ?? item.type;

/** @param {any} item @returns {Call} */
function callOf(item) {
  const failed = Boolean(item.error) || item.status === 'failed' || item.status === 'incomplete';
  const isDone = item.output !== undefined && item.output !== null;
  return {
    id: item.call_id ?? item.id,
    name: nameOf(item),
    stage: failed ? 'failed' : isDone ? 'done' : 'busy',
    given: textOf(item.arguments ?? item.input ?? item.action),
    output: textOf(item.error ?? item.output),
    owner: '',
    by: '',
    deadline: null,
    durationMs: null,
  };
}

/** @param {Map<string, Call>} calls @param {any} item */
function answered(calls, item) {
  const call = calls.get(item.call_id);
  if (call) Object.assign(call, { stage: 'done', output: textOf(item.output) });
}

/** @param {Map<string, Call>} calls @param {string} event @param {Record<string, any>} data */
function timed(calls, event, data) {
  const call = calls.get(String(data?.call_id));
  if (!call || !event.startsWith('run.tool.')) return;
  if (data.owner) call.owner = String(data.owner);
  if (event !== 'run.tool.resolved') return;
  if (typeof data.duration_ms === 'number') call.durationMs = data.duration_ms;
  if (data.by) call.by = String(data.by);
  call.stage = data.ok === false ? 'failed' : 'done';
}

/** @param {unknown} value */
export function textOf(value) {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}
