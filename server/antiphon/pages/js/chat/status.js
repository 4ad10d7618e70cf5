/** What a conversation is doing and how an answer ended, in words that a person can act on. */
import { nameOf } from './people.js';
import { isOver, openQuestions } from './turns.js';

/** @typedef {import('./types.js').Turn} Turn */

/**
 * What the conversation is doing; null when there is nothing to say.
 * @param {Turn | undefined} turn the last one
 * @param {boolean} isConnected
 * @returns {{isBusy: boolean, text: string} | null}
 */
export function activityWords(turn, isConnected) {
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
  ['steered', 'It went on with what was said then.'],
  ['tool_deadline', 'Nobody answered in time what the model had asked.'],
  ['quota_exceeded', 'The quota of this tenant is used up.'],
  ['budget_exceeded', 'The budget of this tenant is used up.'],
]);

/** What can be done about a problem, where the server's sentence does not say. */
const ADVICE = new Map([
  ['model_not_found', 'Choose another model above.'],
  ['model_required', 'Choose a model above.'],
  ['model_not_allowed', 'Choose another model above.'],
  ['agent_not_found', 'Choose another agent above.'],
  ['forbidden', 'Your key may read here, but not write. Ask for another one.'],
  ['tenant_paused', 'Try again when an operator has ended the pause.'],
  ['emergency_stop', 'Try again when an operator has ended the stop.'],
  ['too_many_runs', 'Stop another answer, or try again when one has ended.'],
  ['rate_limited', 'Wait a moment, then try again.'],
  ['quota_exceeded', 'Ask whoever runs this server for more, or wait for the next period.'],
  ['budget_exceeded', 'Ask whoever runs this server for more, or wait for the next period.'],
  ['context_length_exceeded', 'Start a new conversation, or choose a model that reads more.'],
  ['payload_too_large', 'Send less at once.'],
  ['upstream_unavailable', 'Try again, or choose another model.'],
  ['upstream_timeout', 'Try again, or choose another model.'],
  ['response_not_found', 'Ask again.'],
]);

/**
 * How an end that is not a plain answer is explained; null for a plain one.
 * @param {Turn} turn
 * @returns {{tone: 'quiet' | 'bad', text: string, code: string | null} | null}
 */
export function outcomeWords(turn) {
  if (turn.status === 'cancelled') return { tone: 'quiet', text: stopWords(turn), code: null };
  if (turn.status === 'incomplete') {
    const text = REASONS.get(turn.reason ?? '') ?? 'The answer ended before it was complete.';
    return { tone: 'quiet', text, code: REASONS.has(turn.reason ?? '') ? null : turn.reason };
  }
  if (!turn.problem) return null;
  const { message, code } = turn.problem;
  const advice = ADVICE.get(code);
  return { tone: 'bad', text: advice ? `${message} ${advice}` : message, code };
}

/** Somebody else's stop is theirs. @param {Turn} turn */
function stopWords({ stoppedBy, author }) {
  if (!stoppedBy || stoppedBy === author) return 'This answer was stopped.';
  if (stoppedBy.startsWith('system:')) return 'The server stopped this answer.';
  return `This answer was stopped by ${nameOf(stoppedBy)}.`;
}
