/** Links to the run that one continues, and to those that continue it. */
import { el } from '../shared/dom.js';
import { shortId } from './words.js';

export class ChainView {
  #said = '';

  /** @param {{open: (run: string) => void, addressOf: (run: string) => string}} does */
  constructor(does) {
    this.does = does;
    this.element = el('nav', { class: 'chain', 'aria-label': 'Runs before and after this one' });
  }

  /**
   * @param {string | null} before the run it continues
   * @param {readonly string[]} after runs that continue it
   * @param {string} successor the one of them that the server began, because something was said to this run
   */
  update(before, after, successor) {
    const said = JSON.stringify([before, after, successor, this.does.addressOf('')]);
    if (said === this.#said) return;
    this.#said = said;
    const lines = after.map((id) =>
      this.#line(id === successor ? 'Goes on, as it was steered, in' : 'Continued by', id),
    );
    if (before) lines.unshift(this.#line('Continues', before));
    this.element.replaceChildren(...lines);
    this.element.hidden = lines.length === 0;
  }

  /** @param {string} words @param {string} id */
  #line(words, id) {
    const link = el('a', { href: this.does.addressOf(id), title: id }, shortId(id));
    link.addEventListener('click', (event) => {
      // Another tab or window is the browser's own business.
      if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.does.open(id);
    });
    return el('p', {}, `${words} `, link);
  }
}
