/**
 * Output items built from their events. Events arrive gapless and in order (turn.js sees to that),
 * so a delta can simply be appended; the `done` event that follows states the whole again.
 *
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./types.js').Part} Part
 * @typedef {import('./types.js').Frame} Frame
 * @typedef {(items: Item[], event: Frame) => void} Handler
 */

/** @param {Item[]} items @param {Frame} event @returns {Item} */
function itemOf(items, event) {
  const index = event.output_index ?? 0;
  return (items[index] ??= { id: event.item_id, type: 'message', content: [] });
}

/** @type {Handler} */
function placeItem(items, event) {
  items[event.output_index ?? 0] = event.item;
}

/** @param {'content' | 'summary'} list @param {string} indexField @param {string} type */
function parts(list, indexField, type) {
  /** @param {Item[]} items @param {Frame} event @returns {[Part[], number]} */
  const locate = (items, event) => [(itemOf(items, event)[list] ??= []), event[indexField] ?? 0];
  /** @type {Handler} */
  const place = (items, event) => {
    const [found, index] = locate(items, event);
    found[index] = event.part;
  };
  /** @param {'text' | 'refusal'} field @returns {Handler} */
  const append = (field) => (items, event) => {
    const [found, index] = locate(items, event);
    const part = (found[index] ??= { type });
    part[field] = (part[field] ?? '') + event.delta;
  };
  /** @param {'text' | 'refusal'} field @returns {Handler} */
  const settle = (field) => (items, event) => {
    const [found, index] = locate(items, event);
    (found[index] ??= { type })[field] = event[field];
  };
  return { place, append, settle };
}

/** @param {'arguments' | 'input'} field @returns {[Handler, Handler]} append and settle */
function callField(field) {
  return [
    (items, event) => {
      const item = itemOf(items, event);
      item[field] = (item[field] ?? '') + event.delta;
    },
    (items, event) => {
      itemOf(items, event)[field] = event[field];
    },
  ];
}

const text = parts('content', 'content_index', 'output_text');
const refusal = parts('content', 'content_index', 'refusal');
const reasoning = parts('content', 'content_index', 'reasoning_text');
const summary = parts('summary', 'summary_index', 'summary_text');
const [appendArguments, settleArguments] = callField('arguments');
const [appendInput, settleInput] = callField('input');

/** @type {Map<string, Handler>} */
const HANDLERS = new Map([
  ['response.output_item.added', placeItem],
  ['response.output_item.done', placeItem],
  ['response.content_part.added', text.place],
  ['response.content_part.done', text.place],
  ['response.output_text.delta', text.append('text')],
  ['response.output_text.done', text.settle('text')],
  ['response.refusal.delta', refusal.append('refusal')],
  ['response.refusal.done', refusal.settle('refusal')],
  ['response.reasoning_text.delta', reasoning.append('text')],
  ['response.reasoning_text.done', reasoning.settle('text')],
  ['response.reasoning_summary_part.added', summary.place],
  ['response.reasoning_summary_part.done', summary.place],
  ['response.reasoning_summary_text.delta', summary.append('text')],
  ['response.reasoning_summary_text.done', summary.settle('text')],
  ['response.function_call_arguments.delta', appendArguments],
  ['response.function_call_arguments.done', settleArguments],
  ['response.mcp_call_arguments.delta', appendArguments],
  ['response.mcp_call_arguments.done', settleArguments],
  ['response.custom_tool_call_input.delta', appendInput],
  ['response.custom_tool_call_input.done', settleInput],
]);

/** Progress of hosted tools: `response.web_search_call.searching` and its relatives. */
const PROGRESS = /^response\.(?:\w+_call|mcp_list_tools)\.(\w+)$/;

/**
 * Applies one event to the items in place. Events that concern no item are left alone.
 * @type {Handler}
 */
export function applyItemEvent(items, event) {
  const handler = HANDLERS.get(event.type);
  if (handler) {
    handler(items, event);
    return;
  }
  const progress = PROGRESS.exec(event.type);
  if (progress && items[event.output_index ?? -1]) itemOf(items, event).status = progress[1];
}

/** The text that a person reads in an item. @param {Item} item */
export function textOf(item) {
  return (item.content ?? []).map((part) => part?.text ?? part?.refusal ?? '').join('');
}

/** @param {Item} item */
export function reasoningOf(item) {
  const written = (item.summary ?? []).map((part) => part?.text ?? '').filter(Boolean);
  return written.length ? written.join('\n\n') : textOf(item);
}

/** A call that this page (or another client) has to answer. @param {Item} item */
export function isClientCall(item) {
  return item.type === 'function_call' || item.type === 'custom_tool_call';
}
