/**
 * What a person says to calls that wait (PROTOCOL 7.4). Whoever is first counts, in any tab or program; the others
 * are told who it was.
 */
import { resultText } from './items.js';
import { answeredBy, whoIs, workingOn } from './people.js';
import { resultsByCall } from './turns.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Run} Run
 * @typedef {import('./types.js').Answer} Answer
 * @typedef {import('./types.js').HeldCall} HeldCall
 */

/** Refusals that say that the call needs no answer any more. */
const TOO_LATE = new Set(['response_already_completed', 'unknown_call', 'response_not_found']);
const EARLIER = 'An earlier answer from this tab counts.';
/** The call was read from the history, and its run is not followed here. */
const NOT_YET = 'This page does not follow the answer yet. Try again in a moment.';

export class Answers {
  /**
   * Calls that this tab has answered: whether the server has taken it, and what shows that it counted.
   * @type {Map<string, {isTaken: boolean, result: string}>}
   */
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
    const given = this.#given.get(callId);
    const counted = given?.isTaken ? resultsByCall([turn]).get(callId) : undefined;
    // For the server a repeat of the same tab, of its copy or of what it was before a reload (PROTOCOL 7.4.6).
    const isOther = counted !== undefined && counted !== given?.result;
    const resolved = turn.resolved.find((one) => one.call_id === callId);
    return {
      isGiven: given !== undefined,
      isTaken: given?.isTaken ?? false,
      late: this.#late.get(callId) ?? (isOther ? EARLIER : ''),
      by: resolved ? answeredBy(resolved, me) : '',
      working: call ? workingOn(turn, call, me, this.owner.connection()) : '',
    };
  }

  /**
   * The client keeps it until there is a connection.
   * @param {Turn} turn @param {Run | null} run @param {Answer} answer
   */
  async give(turn, run, { callId, output }) {
    if (this.#given.has(callId)) return;
    this.#late.delete(callId);
    const given = { isTaken: false, result: resultText(output) };
    if (run) this.#given.set(callId, given);
    else this.#late.set(callId, NOT_YET);
    this.owner.onChange(turn);
    if (!run) return;
    try {
      await run.respond(callId, output);
      given.isTaken = true;
    } catch (error) {
      this.#refused(callId, /** @type {any} */ (error));
    }
    this.owner.onChange(turn);
  }

  /** @param {string} callId @param {any} error */
  #refused(callId, error) {
    const { code } = error;
    if (code !== 'already_resolved') this.#given.delete(callId);
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
