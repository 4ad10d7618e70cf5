/**
 * A conversation is a list of turns, each asked by a person. What its calls were answered is part of
 * the turn, because the page holds its calls (PROTOCOL 7.4).
 */
import { isClientCall, textOf } from './items.js';
import { ASK_PERSON, questionOf } from './tools.js';
import { isOver } from './turn.js';

/**
 * @typedef {import('./types.js').Conversation} Conversation
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./types.js').Input} Input
 */

const TITLE_CHARS = 60;

/** A response with one of these states can be continued; the others never became history. */
const CONTINUABLE = new Set(['completed', 'incomplete', 'cancelled']);

/** @param {string} id @param {string} model @param {number} now @returns {Conversation} */
export function newConversation(id, model, now) {
  return { id, title: '', model, createdAt: now, updatedAt: now, turns: [] };
}

/** @param {Conversation} conversation @param {Turn} turn */
export function addTurn(conversation, turn) {
  if (conversation.turns.some(({ key }) => key === turn.key)) return;
  conversation.turns.push(turn);
  conversation.turns.sort((a, b) => a.createdAt - b.createdAt);
  conversation.updatedAt = Math.max(conversation.updatedAt, turn.createdAt);
  const asked = askedText(turn);
  if (!conversation.title && asked) conversation.title = titleFrom(asked);
}

/** @param {string} text */
export function titleFrom(text) {
  const line = text.trim().replace(/\s+/g, ' ');
  const chars = [...line];
  return chars.length > TITLE_CHARS
    ? `${chars
        .slice(0, TITLE_CHARS - 1)
        .join('')
        .trimEnd()}…`
    : line;
}

/** @param {Turn} turn what the person wrote */
export function askedText(turn) {
  return turn.input.map((part) => (part.type === 'message' ? part.content : '')).join('');
}

/** @param {Turn} turn */
export function answerText(turn) {
  return turn.items
    .filter((item) => item?.type === 'message')
    .map(textOf)
    .filter(Boolean)
    .join('\n\n');
}

/** Turns that were not replaced by a retry. @param {Conversation} conversation */
export const liveTurns = (conversation) => conversation.turns.filter((turn) => !turn.replaced);

/** @param {Conversation} conversation @returns {Turn | undefined} */
export const lastTurn = (conversation) => liveTurns(conversation).at(-1);

/** @param {Conversation} conversation */
export const isBusy = (conversation) => liveTurns(conversation).some((turn) => !isOver(turn));

/** The turn that the next create continues. @param {Conversation} conversation @returns {Turn | undefined} */
export function parentTurn(conversation) {
  return liveTurns(conversation).findLast((turn) => turn.responseId && CONTINUABLE.has(turn.status));
}

/** Every result that was given, by call. @param {Conversation} conversation @returns {Map<string, string>} */
export function resultsByCall(conversation) {
  const results = new Map();
  for (const turn of conversation.turns) {
    for (const part of [...turn.context, ...turn.input]) {
      if (part.type !== 'message') results.set(part.call_id, part.output);
    }
    for (const item of turn.items) {
      if (/_call_output$/.test(item?.type)) results.set(item.call_id, outputText(item.output));
      if (item?.approval_request_id) results.set(item.approval_request_id, isDenied(item) ? 'Not allowed' : 'Allowed');
    }
  }
  return results;
}

/** The call follows its request for approval either way. @param {Item} call */
const isDenied = (call) => call.type === 'mcp_call' && errorText(call.error).includes('not approved');

/** @param {unknown} output */
export function outputText(output) {
  if (output === undefined || output === null) return '';
  return typeof output === 'string' ? output : JSON.stringify(output, null, 2);
}

/**
 * What the error of a tool call says: the texts of its content, or the whole of it.
 * @param {unknown} error
 */
export function errorText(error) {
  const content = /** @type {{content?: unknown} | null | undefined} */ (error)?.content;
  const texts = Array.isArray(content) ? content.map((part) => part?.text).filter((text) => typeof text === 'string') : [];
  return texts.length ? texts.join('\n') : outputText(error);
}

/**
 * Calls of an ended turn that nobody answered. A turn that was stopped keeps none, one that ended early
 * only those that were written to their end.
 * @param {Turn} turn @returns {Item[]}
 */
export function openCalls(turn) {
  if (turn.status !== 'completed' && turn.status !== 'incomplete') return [];

  const answered = new Set(turn.items.filter((item) => /_call_output$/.test(item?.type)).map((item) => item.call_id));
  return turn.items.filter(
    (item) =>
      item &&
      isClientCall(item) &&
      !answered.has(item.call_id) &&
      (turn.status === 'completed' || item.status === 'completed'),
  );
}

/**
 * What a run asks the person now: questions of the model, and calls that want to be allowed.
 * @param {Turn} turn @returns {{id: string, words: string}[]}
 */
export function openQuestions(turn) {
  const waits = new Set(turn.pending.map((call) => call.call_id));
  const found = [];
  for (const item of turn.items) {
    const isQuestion = item?.type === 'function_call' && item.name === ASK_PERSON && item.status === 'completed';
    if (isQuestion && waits.has(item.call_id ?? '')) found.push({ id: String(item.call_id), words: questionOf(item).question });
    else if (item?.type === 'mcp_approval_request' && waits.has(item.id ?? ''))
      found.push({ id: String(item.id), words: `May ${item.name} be called?` });
  }
  return found;
}

/** @param {Item} call @param {string} output @returns {Input} */
export function resultOf(call, output) {
  const type = call.type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output';
  return { type, call_id: String(call.call_id), output };
}

/**
 * What was said so far as input for a new chain, for when the server no longer has the old one.
 * @param {Conversation} conversation
 * @returns {Input[]}
 */
export function transcript(conversation) {
  /** @type {Input[]} */
  const said = [];
  for (const turn of liveTurns(conversation)) {
    if (!turn.responseId) continue;
    said.push(...turn.context.filter((part) => part.type === 'message'));
    const asked = askedText(turn);
    const answer = answerText(turn);
    if (asked) said.push({ type: 'message', role: 'user', content: asked });
    if (answer) said.push({ type: 'message', role: 'assistant', content: answer });
  }
  return said;
}
