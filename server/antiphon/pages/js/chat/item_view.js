/** One output item: a text, a collapsed line of thought, the card of a call, a question, or a line about the server. */
import { el, icon, setText } from '../shared/dom.js';
import { errorText, isClientCall, outputText, reasoningOf, textOf } from './items.js';
import { lineView } from './line_view.js';
import { MarkdownView } from './markdown_view.js';
import { approvalView, questionView, selectionView } from './question_view.js';
import { ASK_PERSON, READ_SELECTION } from './tools.js';

/**
 * @typedef {import('./types.js').Item} Item
 * @typedef {{
 *   isOver: boolean, isLast: boolean, results: Map<string, string>,
 *   pending: Map<string, import('./types.js').Pending>, held: (callId: string) => import('./types.js').HeldCall,
 * }} Around what an item cannot know by itself
 * @typedef {{
 *   answer: (answer: import('./types.js').Answer) => void, takeFocus: (field: HTMLElement) => void,
 *   giveFocusBack: () => void, writing: (callId: string) => void, selection: () => string,
 * }} Asking what a question needs. `writing`: the person writes an answer; `selection`: what is selected in the page
 * @typedef {{element: HTMLElement, update: (item: Item, around: Around) => void}} ItemView
 */

const LINES = new Set(['mcp_call', 'web_search_call', 'mcp_list_tools']);

/** @param {Item} item @param {Asking} asking @returns {ItemView} */
export function itemView(item, asking) {
  if (item.type === 'message') return messageView();
  if (item.type === 'reasoning') return reasoningView();
  if (LINES.has(item.type)) return lineView();
  if (item.type === 'mcp_approval_request') return approvalView(asking);
  if (item.type === 'function_call' && item.name === ASK_PERSON) return questionView(asking);
  if (item.type === 'function_call' && item.name === READ_SELECTION) return selectionView(asking);
  return cardView();
}

/** @returns {ItemView} */
function messageView() {
  const view = new MarkdownView();
  view.element.classList.add('answer');
  return { element: view.element, update: (item) => view.update(textOf(item)) };
}

/** @returns {ItemView} */
function reasoningView() {
  const view = new MarkdownView();
  const label = el('span');
  const element = el('details', { class: 'reasoning' }, el('summary', {}, label), view.element);
  return {
    element,
    update(item, { isOver, isLast }) {
      const text = reasoningOf(item);
      const isThinking = !isOver && isLast;
      label.textContent = isThinking ? 'Thinking…' : 'Thoughts';
      element.classList.toggle('is-live', isThinking);
      // A model may think without saying what: then there is nothing to unfold.
      element.hidden = !text && !isThinking;
      view.update(text);
    },
  };
}

/** @returns {ItemView} */
function cardView() {
  const name = el('code', { class: 'card-name' });
  const state = el('span', { class: 'card-state' });
  const asked = section('Arguments');
  const given = section('Result');
  const element = el(
    'section',
    { class: 'card', 'aria-label': 'Tool call' },
    el('header', {}, icon('tool'), name, state),
    asked.element,
    given.element,
  );
  return {
    element,
    update(item, { isOver, results, held }) {
      const result = results.get(item.call_id ?? '') ?? (item.error ? errorText(item.error) : outputText(item.output));
      const words = stateOf(item, result, isOver);
      const { by, working } = held(item.call_id ?? '');
      setText(name, item.name ?? item.type.replaceAll('_', ' '));
      setText(state, by || (working && !result && !isOver ? `${working} is at it` : words.text));
      element.dataset.state = words.state;
      asked.show(item.arguments ?? item.input ?? '');
      given.show(result);
    },
  };
}

/** @param {string} title */
function section(title) {
  const text = el('pre', { tabIndex: 0 });
  const element = el('div', { class: 'card-part', hidden: true }, el('h3', {}, title), text);
  return {
    element,
    /** @param {string} wanted */
    show(wanted) {
      // Shown as it came: parsing and printing again would round large numbers.
      if (text.textContent !== wanted) text.textContent = wanted;
      element.hidden = wanted === '';
    },
  };
}

/** @param {Item} item @param {string} result @param {boolean} isOver */
function stateOf(item, result, isOver) {
  if (item.status === 'failed' || item.error || isFailure(result)) return { state: 'failed', text: 'Failed' };
  if (result) return { state: 'done', text: 'Done' };
  if (isClientCall(item) && !isOver && item.status === 'completed')
    return { state: 'busy', text: 'Waiting for the result' };
  if (isOver && isClientCall(item)) return { state: 'failed', text: 'Not answered' };
  if (item.status === 'completed') return { state: 'done', text: 'Done' };
  if (isOver) return { state: 'failed', text: 'Not finished' };
  return { state: 'busy', text: item.status === 'in_progress' ? 'Writing the call' : 'Running' };
}

/** Tools say that they failed in their result; the page's own do it like this. @param {string} result */
function isFailure(result) {
  return /^\s*\{\s*"error"\s*:/.test(result);
}
