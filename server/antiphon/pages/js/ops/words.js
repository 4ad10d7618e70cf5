/** Numbers, times and states as a person reads them. Nothing here knows the page. */

/** @typedef {import('./types.js').State} State */

/** @type {Record<State, string>} */
export const STATES = {
  queued: 'Queued',
  running: 'Running',
  waiting_for_tool: 'Waiting',
  completed: 'Completed',
  incomplete: 'Incomplete',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

/** @type {ReadonlySet<string>} */
export const ENDED = new Set(['completed', 'incomplete', 'failed', 'cancelled']);

/** @param {string} state */
export const stateWord = (state) => STATES[/** @type {State} */ (state)] ?? state;

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** @param {number} value at most six signs wide */
export const count = (value) => (value < 100_000 ? WHOLE.format(value) : SHORT.format(value));

/** @param {number} value per second */
export const rate = (value) => (value < 9.95 ? value.toFixed(1) : count(value));

/** @param {number | null | undefined} cost in the currency of the configured prices */
export function money(cost) {
  if (cost === null || cost === undefined) return '';
  return cost < 100 ? cost.toFixed(4) : WHOLE.format(cost);
}

/** @param {number} ms */
export function milliseconds(ms) {
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${WHOLE.format(ms)} ms`;
  return ms < 100_000 ? `${(ms / 1_000).toFixed(1)} s` : `${WHOLE.format(ms / 1_000)} s`;
}

/** @param {number} seconds a span, of which only whole units count: `8 s`, `12:40`, `2 h 05`, `3 d 04 h` */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)} h ${two(Math.floor((whole % 3_600) / 60))}`;
  return `${Math.floor(whole / 86_400)} d ${two(Math.floor((whole % 86_400) / 3_600))} h`;
}

/** @param {number} value */
const two = (value) => String(value).padStart(2, '0');

/** @param {number} deadline Unix seconds @param {number} now */
export function untilDeadline(deadline, now) {
  const left = deadline - now;
  return left > 0 ? `${span(left)} left` : 'overdue';
}

/** @param {number} at Unix seconds @returns {string} the time of day, where the reader is */
export const timeOfDay = (at) => new Date(at * 1_000).toLocaleTimeString('en-GB');

/** @param {number} at Unix seconds */
export const minuteOfDay = (at) => timeOfDay(at).slice(0, 5);

/** The end of an id is what tells two of one moment apart. @param {string} id */
export const shortId = (id) => (id.length > 14 ? `…${id.slice(-8)}` : id);

/**
 * How far what is shown can be believed.
 * @param {'connecting' | 'live' | 'stale' | 'reset'} status
 * @param {number} seconds since it is so
 * @returns {{tone: 'good' | 'busy' | 'bad', text: string}}
 */
export function feedWords(status, seconds) {
  if (status === 'live') return { tone: 'good', text: 'Live' };
  if (status === 'stale') return { tone: 'bad', text: `Stale since ${span(seconds)}` };
  if (status === 'reset') return { tone: 'busy', text: `Began anew ${span(seconds)} ago` };
  return { tone: 'busy', text: 'Connecting…' };
}
