/** What a screen reader is told of a conversation: how answers end, what is asked, where it parts. */
import { setText } from '../shared/dom.js';
import { outcomeWords } from './status.js';
import { answerText, isOver, openQuestions } from './turns.js';

/** @typedef {import('./types.js').Turn} Turn */

export class Spoken {
  /** Calls and forks that were told. @type {Set<string>} */ #told = new Set();

  /** @param {HTMLElement} region a live one */
  constructor(region) {
    this.region = region;
  }

  /** @param {Turn} turn */
  turn(turn) {
    if (isOver(turn)) setText(this.region, outcomeWords(turn)?.text ?? answerText(turn));
    for (const { id, words } of openQuestions(turn)) this.#once(id, words);
  }

  /** @param {Turn} turn one of several to what it continues @param {string} words */
  fork(turn, words) {
    this.#once(`fork ${turn.previousResponseId}`, words);
  }

  /** @param {string} id @param {string} words */
  #once(id, words) {
    if (!this.#told.has(id)) setText(this.region, words);
    this.#told.add(id);
  }
}
