/** Where several people wrote to the same answer: who, what, and which of it is shown. */
import { el } from '../shared/dom.js';

/**
 * @typedef {{words: string, ways: {key: string, label: string, isShown: boolean}[]}} Fork `ways`: a branch each, by
 *   the key of the turn that it begins with
 */

export class ForkView {
  #shown = '';

  /** @param {(key: string) => void} goTo */
  constructor(goTo) {
    this.goTo = goTo;
    this.words = el('p');
    this.ways = el('div', { class: 'fork-ways', role: 'group', 'aria-label': 'Branches of the conversation' });
    this.element = el('div', { class: 'fork', hidden: true }, this.words, this.ways);
  }

  /** Built again only when it says something else, so that a focused button stays. @param {Fork | null} fork */
  update(fork) {
    const shown = JSON.stringify(fork);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const focused = this.element.contains(document.activeElement);
    this.element.hidden = !fork;
    this.words.textContent = fork?.words ?? '';
    this.ways.replaceChildren(...(fork?.ways ?? []).map((way) => this.#button(way)));
    if (focused) this.focus();
  }

  /** On the branch that is shown. */
  focus() {
    /** @type {HTMLElement | null} */ (this.ways.querySelector('[aria-pressed="true"]'))?.focus();
  }

  /** @param {Fork['ways'][number]} way */
  #button({ key, label, isShown }) {
    const button = el('button', { type: 'button', title: label, 'aria-pressed': String(isShown) }, label);
    button.addEventListener('click', () => this.goTo(key));
    return button;
  }
}
