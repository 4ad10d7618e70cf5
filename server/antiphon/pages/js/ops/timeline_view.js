/** The moments of a run, one line each, with the time since its start. */
import { el } from '../shared/dom.js';
import { timeOfDay } from './words.js';

/** @typedef {import('./types.js').Moment} Moment */

/** What a line says beside its event, in this order, where it has it. */
const SHOWN = [
  'step',
  'model',
  'fallback_to',
  'name',
  'owner',
  'by',
  'ok',
  'duration_ms',
  'stage',
  'code',
  'action',
  'total',
  'cost',
];

export class TimelineView {
  #said = 0;
  #last = '';

  constructor() {
    this.list = el('ol', { class: 'timeline' });
    this.note = el('p', { class: 'muted' });
    this.element = el('div', {}, this.note, this.list);
  }

  /** @param {readonly Moment[]} timeline @param {number} start Unix seconds @param {boolean} hasTimeline */
  update(timeline, start, hasTimeline) {
    this.note.textContent = noteOf(timeline, hasTimeline);
    this.note.hidden = !this.note.textContent;
    const last = timeline.length ? JSON.stringify(timeline.at(-1)) : '';
    if (timeline.length === this.#said && last === this.#last) return;
    this.#said = timeline.length;
    this.#last = last;
    this.list.replaceChildren(...withoutRepeats(timeline).map(({ moment, times }) => line(moment, times, start)));
  }
}

/** @param {readonly Moment[]} timeline @param {boolean} hasTimeline */
function noteOf(timeline, hasTimeline) {
  if (!hasTimeline) return 'The feed no longer tells of this run. Its log is under Stream.';
  return timeline.length ? '' : 'Nothing yet.';
}

/**
 * Changes without a name, of which a run that many watch has plenty, stand in one line.
 * @param {readonly Moment[]} timeline
 */
export function withoutRepeats(timeline) {
  /** @type {{moment: Moment, times: number}[]} */
  const lines = [];
  for (const moment of timeline) {
    const last = lines.at(-1);
    if (last && moment.event === 'run.updated' && last.moment.event === moment.event) last.times += 1;
    else lines.push({ moment, times: 1 });
  }
  return lines;
}

/** @param {Moment} moment @param {number} times @param {number} start */
function line({ event, at, data }, times, start) {
  const told = SHOWN.filter((name) => data?.[name] !== undefined && data[name] !== null);
  const words = told.map((name) => `${name.replaceAll('_', ' ')} ${String(data[name])}`).join(', ');
  return el(
    'li',
    {},
    el(
      'time',
      { title: timeOfDay(at), dateTime: new Date(at * 1_000).toISOString() },
      `+${Math.max(0, at - start).toFixed(2)} s`,
    ),
    el('span', { class: 'moment' }, event.replace(/^run\./, '').replaceAll(/[._]/g, ' '), times > 1 && ` ×${times}`),
    el('span', { class: 'muted' }, words),
  );
}
