/** What the server did by itself, as one quiet line that can be unfolded: its tools' calls, and the tools it listed. */
import { el, icon, setText } from '../shared/dom.js';
import { errorText, outputText } from './items.js';

/** @typedef {import('./types.js').Item} Item */

/** @returns {import('./item_view.js').ItemView} */
export function lineView() {
  const words = el('span', { class: 'line-words' });
  const state = el('span', { class: 'line-state' });
  const more = el('pre', { tabIndex: 0 });
  const element = el('details', { class: 'line' }, el('summary', {}, icon('server'), words, state), more);
  return {
    element,
    update(item, { isOver }) {
      const { text, detail } = WORDS[item.type](item);
      const how = stateOf(item, isOver);
      setText(words, text);
      setText(state, how.text);
      setText(more, detail);
      element.dataset.state = how.state;
    },
  };
}

/** @type {Record<string, (item: Item) => {text: string, detail: string}>} */
const WORDS = {
  mcp_call: (item) => ({
    text: `${item.name ?? 'A tool'} of ${item.server_label ?? 'the server'}`,
    detail: lines(item.arguments, item.error ? errorText(item.error) : outputText(item.output)),
  }),
  web_search_call: (item) => ({
    text: item.action?.query ? `Web search for “${item.action.query}”` : 'Web search',
    detail: outputText(item.action),
  }),
  mcp_list_tools: (item) => ({
    text: `${counted(item.tools?.length ?? 0)} of ${item.server_label ?? 'the server'}`,
    detail: item.error ? errorText(item.error) : (item.tools ?? []).map(({ name }) => name).join('\n'),
  }),
};

/** @param {Item} item @param {boolean} isOver */
function stateOf(item, isOver) {
  if (item.error || item.status === 'failed') return { state: 'failed', text: 'failed' };
  // A list of tools has no status of its own once it is complete.
  const isDone = item.status === 'completed' || (item.type === 'mcp_list_tools' && item.status === undefined);
  if (isDone) return { state: 'done', text: '' };
  if (isOver) return { state: 'failed', text: 'not finished' };
  return { state: 'busy', text: 'running…' };
}

/** @param {...(string | undefined)} parts */
const lines = (...parts) => parts.filter(Boolean).join('\n');

/** @param {number} count */
const counted = (count) => (count === 1 ? '1 tool' : `${count} tools`);
