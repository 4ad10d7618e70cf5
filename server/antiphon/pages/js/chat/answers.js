/**
 * What a person says to calls that wait (PROTOCOL 7.4). Whoever is first counts, in any tab or program; the others
 * are told who it was.
 */
import { answeredBy, whoIs, workingOn } from './people.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Run} Run
 * @typedef {import('./types.js').Answer} Answer
 * @typedef {import('./types.js').HeldCall} HeldCall
 */

/** Refusals that say that the call needs no answer any more. */
const TOO_LATE = new Set(['response_already_completed', 'unknown_call', 'response_not_found']);

export class Answers {
  /** Calls that this tab has answered, and whether the server has said something to it. @type {Map<string, boolean>} */
  #given = new Map();
  /** Why an answer of this tab did not count, by call. @type {Map<string, string>} */ #late = new Map();

  /**
   * @param {{
   *   me: () => import('./types.js').Me, connection: () => string, onChange: (turn: Turn) => void,
   *   onNotice: (message: string) => void,
   * }} owner
   */
  constructor(owner) {
    this.owner = owner;
  }

  /**
   * What is said about a call beside what stands in it.
   * @param {Turn} turn @param {string} callId @returns {HeldCall}
   */
  view(turn, callId) {
    const me = this.owner.me();
    const call = turn.pending.find((one) => one.call_id === callId);
    const resolved = turn.resolved.find((one) => one.call_id === callId);
    return {
      isGiven: this.#given.get(callId) === false,
      late: this.#late.get(callId) ?? '',
      by: resolved ? answeredBy(resolved, me) : '',
      working: call ? workingOn(turn, call, me, this.owner.connection()) : '',
    };
  }

  /**
   * The client keeps it until there is a connection.
   * @param {Turn} turn @param {Run | null} run @param {Answer} answer
   */
  async give(turn, run, { callId, output }) {
    if (this.#given.has(callId) || !run) return;
    this.#given.set(callId, false);
    this.#late.delete(callId);
    this.owner.onChange(turn);
    try {
      await run.respond(callId, output);
      this.#given.set(callId, true);
    } catch (error) {
      this.#refused(callId, /** @type {any} */ (error));
    }
    this.owner.onChange(turn);
  }

  /** @param {string} callId @param {any} error */
  #refused(callId, error) {
    const { code } = error;
    if (code === 'already_resolved') this.#given.set(callId, true);
    else this.#given.delete(callId);
    if (code === 'already_resolved') this.#late.set(callId, faster(error.winner, this.owner.me()));
    else if (code === 'claim_held')
      this.#late.set(callId, `${whoIs(error.holder, this.owner.me())} is at it just now.`);
    else if (TOO_LATE.has(code)) this.#late.set(callId, 'The answer came too late.');
    else if (code !== 'closed') this.owner.onNotice(error.message);
  }
}

/** @param {{by: string} | undefined} winner @param {import('./types.js').Me} me */
function faster(winner, me) {
  if (!winner || winner.by === me.id) return 'Somebody else was faster.';
  return `${whoIs(winner.by, me)} was faster.`;
}
