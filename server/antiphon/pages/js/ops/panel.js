/** The room beside the table, for one run or for the server. On narrow screens it lies over everything else. */

export class Panel {
  #isOver = matchMedia('(max-width: 64rem)');

  /** @param {HTMLElement} place @param {readonly Element[]} others what cannot be reached while it lies over it */
  constructor(place, others) {
    this.place = place;
    this.others = others;
    this.#isOver.addEventListener('change', () => this.#cover());
  }

  get isOpen() {
    return !this.place.hidden;
  }

  /** @param {HTMLElement} content @param {HTMLElement | null} title gets the focus */
  show(content, title) {
    if (this.place.firstElementChild !== content) this.place.replaceChildren(content);
    this.place.hidden = false;
    this.#cover();
    title?.focus({ preventScroll: true });
  }

  hide() {
    this.place.hidden = true;
    this.place.replaceChildren();
    this.#cover();
  }

  #cover() {
    const isCovered = this.isOpen && this.#isOver.matches;
    for (const other of this.others) other.toggleAttribute('inert', isCovered);
  }
}
