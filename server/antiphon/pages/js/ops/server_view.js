/** Nodes, upstreams, bus and store, as the server says it. */
import { el, setText } from '../shared/dom.js';
import { count, milliseconds, span } from './words.js';

/** @typedef {import('./types.js').ServerStatus} ServerStatus */

const BREAKERS = /** @type {Record<string, string>} */ ({ closed: 'Closed', open: 'Open', half_open: 'Half open' });
const NODES = /** @type {Record<string, string>} */ ({
  ready: 'Ready',
  draining: 'Draining',
  suspended: 'Suspended',
  silent: 'Silent',
});

/**
 * One line about everything.
 * @param {ServerStatus | null} status @param {number} silent seconds since the last answer
 * @returns {{tone: 'good' | 'busy' | 'bad', text: string}}
 */
export function healthWords(status, silent) {
  if (!status) return { tone: 'busy', text: 'Server' };
  if (silent > 10) return { tone: 'bad', text: `Server silent for ${span(silent)}` };
  if (!status.store.healthy) return { tone: 'bad', text: 'Store is away' };
  if (!status.bus.healthy) return { tone: 'bad', text: 'Bus is away' };
  const open = status.upstreams.filter(({ breaker }) => breaker !== 'closed');
  if (open.length) return { tone: 'bad', text: `${plural(open.length, 'breaker')} open` };
  const away = status.nodes.filter(({ state }) => state !== 'ready');
  if (away.length) return { tone: 'busy', text: `${plural(away.length, 'node')} not ready` };
  return { tone: 'good', text: `${plural(status.nodes.length, 'node')} ready` };
}

/** @param {number} number @param {string} noun */
const plural = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

export class ServerView {
  /** @param {() => void} onClose */
  constructor(onClose) {
    this.close = el('button', { class: 'plain', type: 'button' }, 'Close');
    this.close.addEventListener('click', onClose);
    this.note = el('p', { class: 'note' });
    this.nodes = el('ul', { class: 'facts-list' });
    this.upstreams = el('ul', { class: 'facts-list' });
    this.builtIn = el('p', { class: 'muted', hidden: true }, 'None is configured; only the built-in models answer.');
    this.parts = el('ul', { class: 'facts-list' });
    const title = el('h2', { id: 'panel-title', tabIndex: -1 }, 'Server');
    this.title = title;
    this.element = el(
      'div',
      { class: 'panel-body' },
      el('header', { class: 'panel-head' }, title, this.close),
      this.note,
      el('section', {}, el('h3', {}, 'Nodes'), this.nodes),
      el('section', {}, el('h3', {}, 'Upstreams'), this.builtIn, this.upstreams),
      el('section', {}, el('h3', {}, 'Bus and store'), this.parts),
    );
  }

  /** @param {ServerStatus | null} status @param {number} now Unix seconds @param {number} silent seconds */
  update(status, now, silent) {
    setText(this.note, noteOf(status, silent));
    if (!status) return;
    show(
      this.nodes,
      status.nodes.map((node) => ({
        name: node.id,
        more: node.self ? 'this one' : '',
        word: NODES[node.state] ?? node.state,
        tone: node.state === 'ready' ? 'good' : 'busy',
        facts: [
          ['Runs', known(node.live_runs, count)],
          ['Sockets', known(node.sockets, count)],
          ['Loop lag', known(node.loop_lag_ms, milliseconds)],
          ['Lease', known(node.lease, ({ expires_at: end }) => (end > now ? `${span(end - now)} left` : 'run out'))],
          ['Up', known(node.started_at, (at) => span(now - at))],
          ['Version', known(node.version, String)],
        ],
      })),
    );
    this.builtIn.hidden = status.upstreams.length > 0;
    show(
      this.upstreams,
      status.upstreams.map((upstream) => ({
        name: upstream.name,
        more: '',
        word: `${BREAKERS[upstream.breaker] ?? upstream.breaker}${upstream.open_until ? `, tried again in ${span(upstream.open_until - now)}` : ''}`,
        tone: upstream.breaker === 'closed' ? 'good' : upstream.breaker === 'open' ? 'bad' : 'busy',
        facts: [
          ['Calls', count(upstream.calls)],
          ['Failures', count(upstream.failures)],
          ['p50', upstream.latency_ms ? milliseconds(upstream.latency_ms.p50) : '–'],
          ['p99', upstream.latency_ms ? milliseconds(upstream.latency_ms.p99) : '–'],
        ],
      })),
    );
    show(this.parts, [
      part('Bus', status.bus.kind, status.bus.healthy, status.bus.detail),
      part('Store', status.store.kind, status.store.healthy),
    ]);
  }
}

/** @param {ServerStatus | null} status @param {number} silent */
export function noteOf(status, silent) {
  if (!status) return 'Asking the server…';
  if (silent > 10) return `No answer for ${span(silent)}; this is what it last said.`;
  const sums = status.totals;
  const since = sums ? ` ${count(sums.runs_started)} runs and ${count(sums.events)} events since the start.` : '';
  return `Version ${status.version}.${since}`;
}

/**
 * A node that does not answer says nothing of itself, and one alone needs no lease.
 * @template T @param {T | null} value @param {(value: T) => string} words
 */
const known = (value, words) => (value === null ? '–' : words(value));

/** @param {string} name @param {string} kind @param {boolean} healthy @param {string | null} [detail] */
const part = (name, kind, healthy, detail) => ({
  name,
  more: kind,
  word: healthy ? 'Healthy' : 'Away',
  tone: healthy ? 'good' : 'bad',
  facts: detail ? [['', detail]] : [],
});

/**
 * Written anew only where something is another: what somebody has selected stays selected.
 * @param {HTMLElement} list
 * @param {{name: string, more: string, word: string, tone: string, facts: string[][]}[]} entries
 */
function show(list, entries) {
  while (list.children.length > entries.length) list.lastElementChild?.remove();
  for (const [index, entry] of entries.entries()) {
    const said = JSON.stringify(entry);
    const old = list.children[index];
    if (old instanceof HTMLElement && old.dataset.said === said) continue;
    const line = entryLine(entry);
    line.dataset.said = said;
    if (old) old.replaceWith(line);
    else list.append(line);
  }
}

/** @param {{name: string, more: string, word: string, tone: string, facts: string[][]}} entry */
function entryLine({ name, more, word, tone, facts }) {
  const state = el('span', { class: 'standing', 'data-tone': tone }, el('span', { class: 'dot' }), word);
  const pairs = facts.map(([what, value]) => el('div', {}, what && el('dt', {}, what), el('dd', {}, value)));
  return el(
    'li',
    {},
    el('p', { class: 'fact-name' }, el('strong', {}, name), more && el('span', { class: 'muted' }, more), state),
    facts.length > 0 && el('dl', { class: 'facts' }, ...pairs),
  );
}
