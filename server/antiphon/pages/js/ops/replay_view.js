/** Live, or from the start at a speed; and how far it has come. */
import { el, setText } from '../shared/dom.js';
import { count, span } from './words.js';

/** @typedef {import('./open_run.js').OpenRun} OpenRun */

/** @type {readonly {title: string, label: string, speed: number | null}[]} */
const SPEEDS = [
  { title: 'Now', label: 'As it is now', speed: null },
  { title: '1×', label: 'From the start, as long as it took', speed: 1 },
  { title: '4×', label: 'From the start, four times as fast', speed: 4 },
  { title: 'Instant', label: 'From the start, at once', speed: Infinity },
];

export class ReplayView {
  /** @param {() => OpenRun | null} open */
  constructor(open) {
    this.buttons = SPEEDS.map(({ title, label, speed }) => {
      const button = el('button', { type: 'button', 'aria-pressed': 'false', title: label }, title);
      button.addEventListener('click', () => open()?.play(speed));
      return button;
    });
    this.bar = el('progress', { class: 'played', max: 1, value: 1, 'aria-label': 'How far it is shown' });
    this.words = el('p', { class: 'played-words' });
    const group = el('div', { class: 'speeds', role: 'group', 'aria-label': 'Replay' }, ...this.buttons);
    this.element = el('div', { class: 'replay' }, group, this.bar, this.words);
  }

  /** @param {OpenRun} open @param {boolean} isLive whether the run goes on */
  update(open, isLive) {
    const speed = open.replay?.speed ?? null;
    for (const [index, button] of this.buttons.entries()) {
      button.setAttribute('aria-pressed', String(SPEEDS[index].speed === speed));
    }
    setText(this.buttons[0], isLive ? 'Live' : 'Whole');
    const all = open.replay?.events ?? open.events;
    const position = open.position;
    this.bar.max = Math.max(all, 1);
    this.bar.value = position;
    const where = `${count(position)} of ${count(all)} events`;
    setText(
      this.words,
      open.replay && open.replay.seconds ? `${where}, spread evenly over ${span(open.lasted)}` : where,
    );
    this.words.title = open.replay ? 'The log keeps no times of its events.' : '';
  }
}
