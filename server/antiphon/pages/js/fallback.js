/**
 * The response over HTTP, for runs that cannot be attached to and for times without a socket.
 */
import { adoptResponse, isOver, lose } from './turn.js';

/** @typedef {import('./types.js').Turn} Turn */

const AGAIN_MS = 1_000;
/** Answers that will not change: there is nothing to wait for. */
const FINAL = [401, 403, 404, 410];
const GONE = 'The server no longer has this answer.';

export class Fallback {
  /**
   * @param {{
   *   fetchResponse: typeof import('./api.js').fetchResponse, later: (run: () => void, ms: number) => void,
   *   isFollowing: (turn: Turn) => boolean, onEnd: (turn: Turn) => void,
   * }} owner
   */
  constructor(owner) {
    this.owner = owner;
  }

  /** Takes the response if it has ended meanwhile. @param {Turn} turn */
  async look(turn) {
    await this.#read(turn);
  }

  /** Nothing else is going to tell how the run ends: asks until it has ended or is gone. @param {Turn} turn */
  async insist(turn) {
    const status = await this.#read(turn);
    if (isOver(turn) || !this.owner.isFollowing(turn)) return;
    if (FINAL.includes(status)) {
      lose(turn, GONE);
      this.owner.onEnd(turn);
    } else this.owner.later(() => void this.insist(turn), AGAIN_MS);
  }

  /** @param {Turn} turn @returns {Promise<number>} the HTTP status */
  async #read(turn) {
    const { response, status } = await this.owner.fetchResponse(String(turn.responseId));
    const isCurrent = !isOver(turn) && this.owner.isFollowing(turn);
    if (isCurrent && response && !['queued', 'in_progress'].includes(response.status)) {
      adoptResponse(turn, response);
      this.owner.onEnd(turn);
    }
    return status;
  }
}
