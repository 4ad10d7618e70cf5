/** The turns of the current conversation, and the scrolling that follows them unless somebody reads. */
import { liveTurns, resultsByCall } from './conversation.js';
import { TurnView } from './turn_view.js';

/**
 * @typedef {import('./types.js').Conversation} Conversation
 * @typedef {import('./turn_view.js').Actions} Actions
 */

/** Closer than this to the end counts as being at the end: half a line of text. */
const AT_END_PX = 12;

export class LogView {
  /** @type {TurnView[]} */ #views = [];
  #follows = true;
  #top = 0;

  /**
   * @param {{scroller: HTMLElement, turns: HTMLElement, empty: HTMLElement, latest: HTMLElement}} parts
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

  /** @param {Conversation} conversation */
  update(conversation) {
    const turns = liveTurns(conversation);
    const results = resultsByCall(conversation);
    const { empty, scroller } = this.parts;
    const isEmptied = empty.hidden && !turns.length;
    empty.hidden = turns.length > 0;
    for (const [index, turn] of turns.entries()) {
      if (this.#views[index]?.turn !== turn) this.#replace(index, new TurnView(turn, this.actions));
      this.#views[index].update({ results, isLast: index === turns.length - 1 });
    }
    for (const view of this.#views.splice(turns.length)) view.element.remove();
    if (isEmptied) scroller.scrollTop = 0;
    this.#keepUp();
  }

  toEnd() {
    this.#follow(true);
    this.#keepUp();
  }

  /** @param {number} index @param {TurnView} view */
  #replace(index, view) {
    for (const old of this.#views.splice(index)) old.element.remove();
    this.#views.push(view);
    this.parts.turns.append(view.element);
  }

  #keepUp() {
    const { scroller, latest } = this.parts;
    // An empty page is read from its top.
    if (this.#follows && this.#views.length) scroller.scrollTop = scroller.scrollHeight;
    latest.hidden = this.#follows || !this.#views.length;
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
    this.parts.latest.hidden = this.#follows || !this.#views.length;
  }
}
