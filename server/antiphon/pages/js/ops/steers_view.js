/** What was said to a run: one line each, with what became of it. */
import { el, setText } from '../shared/dom.js';

/** @typedef {import('./steers.js').Steer} Steer */

const STAGES = {
  sending: { word: 'Sending', tone: 'busy' },
  accepted: { word: 'Queued', tone: 'busy' },
  pending: { word: 'Waits for the next run', tone: 'busy' },
  applied: { word: 'Delivered', tone: 'good' },
  failed: { word: 'Failed', tone: 'bad' },
  refused: { word: 'Refused', tone: 'bad' },
};
/** More of one message than this is cut; the run that hears it has it all. */
const LONGEST = 300;

export class SteersView {
  /** @type {SteerView[]} */
  #views = [];

  constructor() {
    this.list = el('ul', { class: 'facts-list' });
    // What becomes of a steer comes by itself, while somebody may look elsewhere.
    this.element = el(
      'section',
      { class: 'steers', 'aria-live': 'polite' },
      el('h3', {}, 'Said to this run'),
      this.list,
    );
  }

  /** @param {readonly Steer[]} steers */
  update(steers) {
    this.element.hidden = steers.length === 0;
    while (this.#views.length > steers.length) this.#views.pop()?.element.remove();
    for (const [index, steer] of steers.entries()) {
      let view = this.#views[index];
      if (!view) {
        view = new SteerView();
        this.#views.push(view);
        this.list.append(view.element);
      }
      view.update(steer);
    }
  }
}

class SteerView {
  constructor() {
    this.text = el('strong');
    this.by = el('span', { class: 'muted' });
    this.word = el('span');
    this.standing = el('span', { class: 'standing' }, el('span', { class: 'dot' }), this.word);
    this.more = el('p', { class: 'muted' });
    this.element = el('li', {}, el('p', { class: 'fact-name' }, this.text, this.by, this.standing), this.more);
  }

  /** @param {Steer} steer */
  update({ text, by, stage, more }) {
    const { word, tone } = STAGES[stage];
    setText(this.text, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text || 'A message');
    setText(this.by, by && `by ${by}`);
    setText(this.word, word);
    this.standing.dataset.tone = tone;
    setText(this.more, more);
    this.more.hidden = !more;
  }
}
