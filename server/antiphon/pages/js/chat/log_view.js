/** The turns of the current conversation, and the scrolling that follows them unless somebody reads. */
import { TurnView } from './turn_view.js';
import { resultsByCall } from './turns.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./turn_view.js').Actions} Actions
 */

/** Closer than this to the end counts as being at the end: half a line of text. */
const AT_END_PX = 12;

export class LogView {
  /** @type {Map<string, TurnView>} */ #views = new Map();
  #follows = true;
  #top = 0;
  /** The turn that begins the branch that was chosen a moment ago. */
  #chosen = '';

  /**
   * @param {{
   *   scroller: HTMLElement, turns: HTMLElement, empty: HTMLElement, latest: HTMLElement, older: HTMLElement,
   * }} parts
   * @param {Actions} actions
   */
  constructor(parts, actions) {
    this.parts = parts;
    this.actions = actions;
    parts.scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    parts.scroller.addEventListener('wheel', (event) => this.#follow(this.#follows && event.deltaY >= 0), {
      passive: true,
    });
    parts.latest.addEventListener('click', () => this.toEnd());
    new ResizeObserver(() => this.#keepUp()).observe(parts.scroller);
  }

  /**
   * @param {Turn[]} turns
   * @param {{
   *   isEmpty: boolean, hasMore: boolean, author: (turn: Turn) => string,
   *   fork: (turn: Turn) => import('./fork_view.js').Fork | null,
   * }} state `isEmpty`: nothing was said yet, surely
   */
  update(turns, { isEmpty, hasMore, author, fork }) {
    const { empty, older, scroller } = this.parts;
    const isEmptied = empty.hidden && isEmpty;
    const fromEnd = scroller.scrollHeight - scroller.scrollTop;
    const first = this.#views.keys().next().value;
    empty.hidden = !isEmpty;
    older.hidden = !hasMore;
    this.#place(turns);
    const results = resultsByCall(turns);
    for (const turn of turns) {
      const around = { results, isLast: turn === turns.at(-1), author: author(turn), fork: fork(turn) };
      this.#views.get(turn.key)?.update(around);
    }
    if (isEmptied) scroller.scrollTop = 0;
    // Older turns came in above: who reads stays where they are.
    else if (!this.#follows && first !== undefined && first !== turns[0]?.key)
      scroller.scrollTop = scroller.scrollHeight - fromEnd;
    this.#keepUp();
    this.#views.get(this.#chosen)?.fork.focus();
    this.#chosen = '';
  }

  /** Another branch is on the page with the next update: who chose it reads on where it begins. @param {string} key */
  chosen(key) {
    this.#chosen = key;
    this.#follow(false);
  }

  toEnd() {
    this.#follow(true);
    this.#keepUp();
  }

  /** One view for each turn, in their order; what stays is not touched. @param {Turn[]} turns */
  #place(turns) {
    const old = this.#views;
    this.#views = new Map();
    for (const turn of turns) {
      const known = old.get(turn.key);
      this.#views.set(turn.key, known?.turn === turn ? known : new TurnView(turn, this.actions));
    }
    for (const [key, view] of old) if (this.#views.get(key) !== view) view.element.remove();
    /** @type {Element | null} */
    let next = this.parts.turns.firstElementChild;
    for (const { element } of this.#views.values()) {
      if (element === next) next = next.nextElementSibling;
      else this.parts.turns.insertBefore(element, next);
    }
  }

  #keepUp() {
    const { scroller, latest } = this.parts;
    // An empty page is read from its top.
    if (this.#follows && this.#views.size) scroller.scrollTop = scroller.scrollHeight;
    latest.hidden = this.#follows || !this.#views.size;
  }

  /** Going up means reading; only arriving at the end means following again. */
  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.parts.scroller;
    const isUp = scrollTop < this.#top;
    const isAtEnd = scrollHeight - scrollTop - clientHeight <= AT_END_PX;
    this.#top = scrollTop;
    if (isAtEnd && !isUp) this.#follow(true);
    else if (isUp && !isAtEnd) this.#follow(false);
  }

  /** @param {boolean} follows */
  #follow(follows) {
    const { scrollHeight, clientHeight } = this.parts.scroller;
    this.#follows = follows || scrollHeight <= clientHeight;
    this.parts.latest.hidden = this.#follows || !this.#views.size;
  }
}
