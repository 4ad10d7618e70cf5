/** The state of a run as a shape, a colour and a word. */
import { el, setText } from '../shared/dom.js';
import { stateWord } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

/** On a grid of 12; every state has a shape of its own, for eyes that see no colours. @type {Record<string, string>} */
const SHAPES = {
  queued: 'M6 2.25a3.75 3.75 0 1 0 0 7.5a3.75 3.75 0 0 0 0-7.5',
  running: 'M3.5 2.2v7.6L9.8 6z',
  waiting_for_tool: 'M3.6 2.5v7M8.4 2.5v7',
  completed: 'M2.2 6.4l2.7 2.7L9.8 3.2',
  incomplete: 'M2 6h2M5 6h2M8 6h2',
  failed: 'M2.8 2.8l6.4 6.4M9.2 2.8L2.8 9.2',
  cancelled: 'M2.8 2.8h6.4v6.4H2.8z',
};

export class StateMark {
  #state = '';

  constructor() {
    this.path = document.createElementNS(SVG, 'path');
    const shape = document.createElementNS(SVG, 'svg');
    shape.setAttribute('viewBox', '0 0 12 12');
    shape.setAttribute('class', 'mark-shape');
    shape.setAttribute('aria-hidden', 'true');
    shape.append(this.path);
    this.word = el('span', { class: 'mark-word' });
    this.element = el('span', { class: 'mark' }, shape, this.word);
  }

  /** @param {string} state */
  update(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.element.dataset.state = state;
    this.path.setAttribute('d', SHAPES[state] ?? SHAPES.queued);
    setText(this.word, stateWord(state));
  }
}
