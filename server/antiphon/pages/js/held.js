/**
 * Calls of running answers that wait for a client (PROTOCOL 7.4): the page answers those of its own
 * tools by itself and the others when a person says what. Whoever is first counts, in any tab or program.
 */
import { runTool, runsHere } from './tools.js';
import { isOver } from './turn.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./types.js').Frame} Frame
 * @typedef {import('./types.js').Answer} Answer
 * @typedef {import('./types.js').HeldCall} HeldCall
 * @typedef {{turn: Turn, item: Answer, isSent: boolean, wasSent: boolean, isSettled: boolean}} Given
 *   `isSent`: on this connection; `wasSent`: on any; `isSettled`: the call waits no more
 */

const FASTER = 'Somebody else was faster.';
/** Refusals that say that the call needs no answer any more. */
const TOO_LATE = new Map([
  ['already_resolved', FASTER],
  ['response_already_completed', 'The answer came too late.'],
  ['unknown_call', 'The answer came too late.'],
]);

export class Held {
  /** Answers of this tab, by call. @type {Map<string, Given>} */ #given = new Map();
  /** Why an answer of this tab did not count, by call. @type {Map<string, string>} */ #late = new Map();

  /**
   * @param {{isOpen: boolean, connectionId: string, send: (frame: object) => boolean}} connection
   * @param {{now: () => number, onChange: (turn: Turn) => void, onNotice: (message: string) => void}} owner
   */
  constructor(connection, owner) {
    this.connection = connection;
    this.owner = owner;
  }

  /** What is said to a person about a call that waits. @param {string} callId @returns {HeldCall} */
  view(callId) {
    return { isGiven: this.#given.get(callId)?.isSettled === false, late: this.#late.get(callId) ?? '' };
  }

  /** What a person, or a tool of the page, says to a call. @param {Turn} turn @param {Answer} item */
  answer(turn, item) {
    const callId = callOf(item);
    if (this.#given.has(callId)) return;
    this.#given.set(callId, { turn, item, isSent: false, wasSent: false, isSettled: false });
    this.#sendTo(turn);
    this.owner.onChange(turn);
  }

  /** Something about the turn is new: perhaps a call can be answered, or an answer was taken. @param {Turn} turn */
  consider(turn) {
    this.#settle(turn);
    if (isOver(turn) || !turn.pending.length) return;
    this.#sendTo(turn);
    const now = new Date(this.owner.now());
    for (const { call_id: callId, eligible } of turn.pending) {
      const call = turn.items.find((item) => item?.call_id === callId && item.status === 'completed');
      if (!call || !runsHere(call) || !eligible.includes(this.connection.connectionId)) continue;
      this.answer(turn, { type: 'function_call_output', call_id: callId, output: runTool(call, now) });
    }
  }

  /** On a new connection everything that was not confirmed is said again; the server knows a repeat. */
  onOpen() {
    for (const given of this.#given.values()) given.isSent = false;
  }

  /** @param {Frame} frame `response.inject.created` or `.failed` */
  onReply(frame) {
    if (frame.type !== 'response.inject.failed') return;
    for (const item of frame.input ?? []) {
      const callId = callOf(item);
      const given = this.#given.get(callId);
      if (!given) continue;
      this.#given.delete(callId);
      const late = TOO_LATE.get(frame.error?.code);
      if (late) this.#late.set(callId, late);
      else this.owner.onNotice(frame.error?.message ?? 'The server did not take the answer.');
      this.owner.onChange(given.turn);
    }
  }

  /** @param {Turn} turn */
  #sendTo(turn) {
    const waits = new Set(turn.pending.map((call) => call.call_id));
    for (const [callId, given] of this.#given) {
      if (given.turn.key !== turn.key || given.isSent || !waits.has(callId)) continue;
      const frame = { type: 'response.inject', response_id: turn.responseId, input: [given.item] };
      given.isSent = this.connection.send(frame);
      given.wasSent ||= given.isSent;
    }
  }

  /** A call that waits no more has its answer: this one, or one that came while this tab was away. @param {Turn} turn */
  #settle(turn) {
    const waits = new Set(turn.pending.map((call) => call.call_id));
    for (const [callId, given] of this.#given) {
      if (given.turn.key !== turn.key || given.isSettled || waits.has(callId)) continue;
      given.isSettled = true;
      if (!given.wasSent) this.#late.set(callId, FASTER);
    }
  }
}

/** @param {any} item an answer to a call or to a request for approval */
const callOf = (item) => String(item.call_id ?? item.approval_request_id);
