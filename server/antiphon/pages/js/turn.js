/**
 * One turn: a create and what came back, as plain data that can be stored. An event is applied only
 * if it is the next number of its run, so that replay, a second lane or a second tab can repeat
 * events without doubling a character, and a missing one is noticed (PROTOCOL section 1).
 */
import { applyItemEvent } from './items.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Frame} Frame
 * @typedef {import('./types.js').WireResponse} WireResponse
 * @typedef {import('./types.js').TurnStatus} TurnStatus
 */

const OVER = new Set(['completed', 'incomplete', 'cancelled', 'failed', 'refused', 'lost']);
export const TERMINAL_EVENTS = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/**
 * @param {Pick<Turn, 'key' | 'owner' | 'createdAt' | 'model' | 'input' | 'previousResponseId'>
 *   & {context?: Turn['context']}} start
 * @returns {Turn}
 */
export function newTurn(start) {
  return {
    context: [],
    ...start,
    sent: false,
    responseId: null,
    epoch: null,
    sequence: -1,
    status: 'sending',
    waiting: false,
    pending: [],
    stopping: false,
    replaced: false,
    reason: null,
    problem: null,
    items: [],
  };
}

/** @param {Turn} turn */
export const isOver = (turn) => OVER.has(turn.status);

/**
 * @param {Turn} turn
 * @param {Frame} event
 * @returns {'applied' | 'duplicate' | 'gap' | 'foreign'}
 */
export function applyEvent(turn, event) {
  const number = event.sequence_number;
  if (!Number.isInteger(number)) return 'foreign';
  if (event.response?.id && turn.responseId && event.response.id !== turn.responseId) return 'foreign';
  if (Number(number) <= turn.sequence) return 'duplicate';
  if (number !== turn.sequence + 1) return 'gap';
  turn.sequence += 1;
  if (event.response?.id && !turn.responseId) turn.responseId = event.response.id;
  if (TERMINAL_EVENTS.has(event.type)) finish(turn, event.response);
  else {
    if (turn.status === 'sending') turn.status = 'running';
    applyItemEvent(turn.items, event);
  }
  return 'applied';
}

/**
 * The whole response instead of events: a snapshot, the answer to an attach after the end, or GET.
 * @param {Turn} turn
 * @param {WireResponse} response
 * @param {number} [head] number of the last event that the response contains
 */
export function adoptResponse(turn, response, head) {
  turn.responseId = response.id;
  if (head !== undefined) turn.sequence = head;
  if (response.status === 'queued' || response.status === 'in_progress') {
    turn.status = 'running';
    turn.items = response.output ?? [];
  } else finish(turn, response);
}

/** @param {Turn} turn @param {WireResponse} response */
function finish(turn, response) {
  turn.status = /** @type {TurnStatus} */ (OVER.has(response.status) ? response.status : 'failed');
  turn.waiting = false;
  turn.pending = [];
  turn.stopping = false;
  turn.reason = response.incomplete_details?.reason ?? null;
  // A failed response may come without the output that was shown; what was read stays readable.
  if (response.output?.length) turn.items = response.output;
  if (turn.status === 'failed') {
    turn.problem = {
      code: response.error?.code ?? 'server_error',
      message: response.error?.message || 'The answer failed without a reason.',
    };
  }
}

/** The create was answered by an `error`: there is no run. @param {Turn} turn @param {Frame} frame */
export function refuse(turn, frame) {
  const error = frame.error ?? frame;
  turn.status = 'refused';
  turn.stopping = false;
  turn.problem = { code: error.code ?? 'error', message: error.message ?? 'The server refused the request.' };
}

/** The person changed their mind before the server heard of it. @param {Turn} turn */
export function withdraw(turn) {
  turn.status = 'cancelled';
  turn.stopping = false;
}

/** Nobody can say any more how the run went on. @param {Turn} turn @param {string} message */
export function lose(turn, message) {
  turn.status = 'lost';
  turn.pending = [];
  turn.stopping = false;
  turn.problem = { code: 'response_not_found', message };
}

/** Back to the start: the log goes on in another epoch and is read again. @param {Turn} turn */
export function rewind(turn) {
  turn.sequence = -1;
  turn.items = [];
  turn.status = 'running';
}

/**
 * Whether `theirs`, written by another tab, knows more about the same turn than `ours`.
 * @param {Turn} theirs
 * @param {Turn} ours
 */
export function isAhead(theirs, ours) {
  if (isOver(theirs) !== isOver(ours)) return isOver(theirs);
  if (theirs.replaced !== ours.replaced) return theirs.replaced;
  if (theirs.stopping !== ours.stopping && !isOver(ours)) return theirs.stopping;
  return theirs.sequence > ours.sequence;
}
