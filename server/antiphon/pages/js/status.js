/** What the page is doing, in words. */
import { lastTurn, openQuestions } from './conversation.js';
import { isOver } from './turn.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Conversation} Conversation
 * @typedef {import('./types.js').ConnectionState} ConnectionState
 */

export const LOCKED = 'This server asks for an API key.';

/**
 * @param {ConnectionState} state
 * @param {boolean} isOnline
 * @param {number} now
 * @returns {{tone: 'good' | 'busy' | 'bad', text: string}}
 */
export function connectionWords({ phase, retryAt }, isOnline, now) {
  if (phase === 'open') return { tone: 'good', text: 'Connected' };
  if (phase === 'locked') return { tone: 'bad', text: 'Key needed' };
  if (phase === 'refused') return { tone: 'bad', text: 'Not connected' };
  if (!isOnline) return { tone: 'bad', text: 'Offline' };
  if (phase === 'connecting') return { tone: 'busy', text: 'Connecting…' };
  const seconds = Math.max(1, Math.ceil(((retryAt ?? now) - now) / 1000));
  return { tone: 'busy', text: `Reconnecting in ${seconds} s` };
}

/**
 * What the conversation is doing; null when there is nothing to say.
 * @param {Conversation} conversation
 * @param {boolean} isConnected
 * @returns {{isBusy: boolean, text: string} | null}
 */
export function activityWords(conversation, isConnected) {
  const turn = lastTurn(conversation);
  if (!turn) return null;
  if (isOver(turn)) return endWords(turn);
  if (turn.stopping) return { isBusy: true, text: 'Stopping…' };
  if (!isConnected) return { isBusy: true, text: 'Waiting for the connection…' };
  if (openQuestions(turn).length) return { isBusy: true, text: 'Waiting for your answer' };
  if (turn.waiting) return { isBusy: true, text: 'Waiting for a tool…' };
  return { isBusy: true, text: runWords(turn) };
}

/** @param {Turn} turn */
function runWords(turn) {
  if (turn.status === 'sending') return 'Sending…';
  const item = turn.items.at(-1);
  if (item?.type === 'message') return 'Writing…';
  if (item && item.type !== 'reasoning') return `Calling ${item.name ?? 'a tool'}…`;
  return 'Thinking…';
}

/** @param {Turn} turn */
function endWords(turn) {
  if (turn.status === 'completed') return null;
  if (turn.status === 'cancelled') return { isBusy: false, text: 'Stopped' };
  if (turn.status === 'incomplete') return { isBusy: false, text: 'Ended early' };
  return { isBusy: false, text: 'Not answered' };
}

const REASONS = new Map([
  ['max_output_tokens', 'The answer reached the limit of its length.'],
  ['content_filter', 'The answer was cut by a content filter.'],
  ['max_tool_rounds', 'The model called tools so often that the server stopped it.'],
  ['steered', 'The answer was cut short by a new instruction.'],
]);

/**
 * How an end that is not a plain answer is explained; null for a plain one.
 * @param {Turn} turn
 * @returns {{tone: 'quiet' | 'bad', text: string, code: string | null} | null}
 */
export function outcomeWords(turn) {
  if (turn.status === 'cancelled') return { tone: 'quiet', text: 'This answer was stopped.', code: null };
  if (turn.status === 'incomplete') {
    const text = REASONS.get(turn.reason ?? '') ?? 'The answer ended before it was complete.';
    return { tone: 'quiet', text, code: REASONS.has(turn.reason ?? '') ? null : turn.reason };
  }
  return turn.problem && { tone: 'bad', text: turn.problem.message, code: turn.problem.code };
}
