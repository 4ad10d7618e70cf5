/**
 * Turns as plain data: built from the server's history, kept up to date by a run, read by the views. No I/O.
 *
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./types.js').WireResponse} WireResponse
 */
import { errorText, isClientCall, outputText, resultText, textOf } from './items.js';
import { ASK_PERSON, READ_SELECTION, questionOf } from './tools.js';

const OVER = new Set(['completed', 'incomplete', 'cancelled', 'failed', 'refused']);
/** A response with one of these states can be continued; the others never became history. */
const CONTINUABLE = new Set(['completed', 'incomplete', 'cancelled']);
const TITLE_CHARS = 60;
/** What is looked at for a title: a text may be long, and made to be searched for long. */
const TITLE_FROM_CHARS = 1_000;
/** The words of a link or a picture; its address may have parentheses of its own. */
const LINK = /!?\[([^\]]*)\]\((?:[^()]|\([^()]*\))*\)/g;

/** @param {Partial<Turn> & {key: string, createdAt: number}} given @returns {Turn} */
export function newTurn(given) {
  return {
    runId: null,
    author: null,
    model: '',
    input: [],
    asked: '',
    carried: 0,
    previousResponseId: null,
    said: [],
    status: 'sending',
    items: [],
    waiting: false,
    pending: [],
    resolved: [],
    participants: [],
    stopping: false,
    stoppedBy: null,
    reason: null,
    problem: null,
    ...given,
  };
}

/** @param {Turn} turn */
export const isOver = (turn) => OVER.has(turn.status);

/** What came in with a create: what was asked, and what was only sent along. @param {Turn} turn @param {Item[]} input */
export function takeInput(turn, input) {
  turn.input = input;
  const messages = input.filter((item) => item.type === 'message');
  const last = messages.findLastIndex((item) => item.role !== 'user');
  turn.asked = messages
    .slice(last + 1)
    .map(textOf)
    .join('\n\n');
  turn.carried = last + 1;
}

/** What is true about a run and not in its log. @param {Turn} turn @param {any} state a RunState */
export function describe(turn, state) {
  turn.author = state.principal;
  turn.createdAt = state.created_at * 1000;
  turn.resolved = state.resolved_calls ?? [];
  turn.stoppedBy = state.terminal?.by ?? null;
  if (isOver(turn)) return;
  if (turn.status === 'sending') turn.status = 'running';
  turn.waiting = state.state === 'waiting_for_tool';
  turn.pending = state.pending_calls ?? [];
  turn.participants = Array.isArray(state.participants) ? state.participants : [];
}

/** The response so far, or as it ended. @param {Turn} turn @param {WireResponse} response */
export function show(turn, response) {
  turn.runId = response.id;
  turn.model = response.model ?? turn.model;
  turn.previousResponseId = response.previous_response_id ?? null;
  const isEnd = OVER.has(response.status);
  // A failed response may come without the output that was shown; what was read stays readable.
  if (!isEnd || response.output?.length) turn.items = response.output ?? [];
  if (!isEnd) {
    if (!isOver(turn)) turn.status = 'running';
    return;
  }
  turn.status = /** @type {Turn['status']} */ (response.status);
  turn.waiting = turn.stopping = false;
  turn.pending = [];
  turn.participants = [];
  turn.said = [];
  turn.reason = response.incomplete_details?.reason ?? null;
  if (turn.status !== 'failed') return;
  turn.problem = {
    code: response.error?.code ?? 'server_error',
    message: response.error?.message || 'The answer failed without a reason.',
  };
}

/**
 * A turn of the server's history. `response` is null where the server has it no more.
 * @param {Turn} turn @param {{state: any, input: Item[], response: WireResponse | null}} past
 */
export function recall(turn, { state, input, response }) {
  turn.runId = state.response_id;
  if (input.length) takeInput(turn, input);
  describe(turn, state);
  if (response) show(turn, response);
  else if (state.terminal && !isOver(turn)) {
    turn.status = state.terminal.status;
    turn.pending = [];
    turn.waiting = false;
  }
}

/** As it can be sent again: names that the server gave to the items are of the old response. @param {Item[]} input */
export const sendable = (input) => input.map(({ id: _, status: __, ...item }) => /** @type {Item} */ (item));

/**
 * There is no run, or nobody can say any more what became of it.
 * @param {Turn} turn @param {{code: string, message: string}} problem
 */
export function refuse(turn, { code, message }) {
  turn.status = 'refused';
  turn.stopping = turn.waiting = false;
  turn.pending = [];
  turn.problem = { code, message };
}

/**
 * Oldest first, without those that were asked again: a question is shown once, unless it was answered or continued.
 * @param {Iterable<Turn>} turns @returns {Turn[]}
 */
export function notAskedAgain(turns) {
  const sorted = [...turns].sort((a, b) => a.createdAt - b.createdAt);
  const isContinued = (/** @type {Turn} */ { runId }) =>
    runId !== null && sorted.some(({ previousResponseId }) => previousResponseId === runId);
  return sorted.filter(
    (turn, index) =>
      !isOver(turn) ||
      turn.status === 'completed' ||
      isContinued(turn) ||
      !sorted
        .slice(index + 1)
        .some((later) => later.asked === turn.asked && later.previousResponseId === turn.previousResponseId),
  );
}

/** It goes on, or can be continued: it begins or continues a branch. @param {Turn} turn */
export const canGoOn = (turn) => !isOver(turn) || (turn.runId !== null && CONTINUABLE.has(turn.status));

/** The turn that the next create continues. @param {Turn[]} turns @returns {Turn | undefined} */
export const parentOf = (turns) => turns.findLast((turn) => turn.runId && CONTINUABLE.has(turn.status));

/** @param {Turn} turn */
export function answerText(turn) {
  return turn.items
    .filter((item) => item?.type === 'message')
    .map(textOf)
    .filter(Boolean)
    .join('\n\n');
}

/** Every result that was given, by call. @param {Iterable<Turn>} turns @returns {Map<string, string>} */
export function resultsByCall(turns) {
  const results = new Map();
  for (const turn of turns) {
    for (const item of [...turn.input, ...turn.items]) {
      if (/_call_output$/.test(item?.type)) results.set(item.call_id, outputText(item.output));
      if (item?.type === 'mcp_call' && item.approval_request_id)
        results.set(item.approval_request_id, resultText(!isDenied(item)));
    }
  }
  return results;
}

/** The call follows its request for approval either way. @param {Item} call */
const isDenied = (call) => errorText(call.error).includes('not approved');

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
 * What a run asks the person now: questions of the model, and things that want to be allowed.
 * @param {Turn} turn @returns {{id: string, words: string}[]}
 */
export function openQuestions(turn) {
  const waits = new Set(turn.pending.map((call) => call.call_id));
  const found = [];
  for (const item of turn.items) {
    const isCall = item?.type === 'function_call' && waits.has(item.call_id ?? '') && item.status === 'completed';
    if (isCall && (item.name === ASK_PERSON || item.name === READ_SELECTION))
      found.push({ id: String(item.call_id), words: questionOf(item).question });
    else if (item?.type === 'mcp_approval_request' && waits.has(item.id ?? ''))
      found.push({ id: String(item.id), words: `May ${item.name} be called?` });
  }
  return found;
}

/** @param {Item} call @param {string} output @returns {Item} */
export function resultOf(call, output) {
  const type = call.type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output';
  return { type, call_id: String(call.call_id), output };
}

/**
 * What was said so far as input for a new chain, for when the server no longer has the old one.
 * @param {Turn[]} turns @returns {Item[]}
 */
export function transcript(turns) {
  /** @type {Item[]} */
  const said = [];
  for (const turn of turns) {
    if (!turn.runId) continue;
    const answer = answerText(turn);
    if (turn.asked) said.push({ type: 'message', role: 'user', content: turn.asked });
    if (answer) said.push({ type: 'message', role: 'assistant', content: answer });
  }
  return said;
}

/** A line without the marks of Markdown. @param {string} text */
export function titleFrom(text) {
  const begin = text.trimStart().slice(0, TITLE_FROM_CHARS);
  const plain = begin
    .replace(/^[#>*\s-]+/, '')
    .replace(/[`*]/g, '')
    .replace(LINK, '$1');
  const line = (plain.trim() || begin.trim()).replace(/\s+/g, ' ');
  const chars = [...line];
  return chars.length > TITLE_CHARS
    ? `${chars
        .slice(0, TITLE_CHARS - 1)
        .join('')
        .trimEnd()}…`
    : line;
}
