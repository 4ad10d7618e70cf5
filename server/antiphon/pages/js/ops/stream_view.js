/** What a run has said so far: texts, thoughts and calls, as they come. Texts stay texts. */
import { el, setText } from '../shared/dom.js';
import { isCall, nameOf, textOf } from './calls.js';

/** More of one item than this is cut in the panel; the log has it all. */
const LONGEST = 50_000;

export class StreamView {
  /** @type {ItemView[]} */
  #items = [];

  constructor() {
    this.list = el('div', { class: 'stream' });
    this.nothing = el('p', { class: 'muted' }, 'Nothing yet.');
    this.element = el('div', {}, this.nothing, this.list);
  }

  /** @param {readonly any[]} output items of the response */
  update(output) {
    this.nothing.hidden = output.length > 0;
    while (this.#items.length > output.length) this.#items.pop()?.element.remove();
    for (const [index, item] of output.entries()) {
      if (!item) continue;
      const old = this.#items[index];
      if (old && old.type === item.type) old.update(item);
      else this.#replace(index, item);
    }
  }

  /** @param {number} index @param {any} item */
  #replace(index, item) {
    const view = new ItemView(item);
    const old = this.#items[index];
    if (old) old.element.replaceWith(view.element);
    else this.list.append(view.element);
    this.#items[index] = view;
  }
}

class ItemView {
  /** @type {unknown} */
  #shown = null;

  /** @param {any} item */
  constructor(item) {
    this.type = item.type;
    this.words = el(isText(item) ? 'div' : 'pre', { class: 'stream-words' });
    this.output = el('pre', { class: 'stream-words stream-output', hidden: true });
    this.element = el('div', { class: `stream-item stream-${isText(item) ? 'text' : 'data'}` });
    const title = titleOf(item);
    if (title) this.element.append(el('p', { class: 'stream-title' }, title));
    this.element.append(this.words, this.output);
    this.update(item);
  }

  /** @param {any} item snapshots are never changed, so the same one says the same */
  update(item) {
    if (item === this.#shown) return;
    this.#shown = item;
    setText(this.words, cut(wordsOf(item)));
    const output = isCall(item) ? textOf(item.error ?? item.output) : '';
    this.output.hidden = !output;
    setText(this.output, cut(output));
  }
}

/** @param {any} item */
const isText = (item) => item.type === 'message' || item.type === 'reasoning';

/** @param {any} item */
function titleOf(item) {
  if (item.type === 'message') return '';
  if (item.type === 'reasoning') return 'Thoughts';
  if (isCall(item)) return `Calls ${nameOf(item)}`;
  if (String(item.type).endsWith('_output')) return 'Answer of the tool';
  return String(item.type);
}

/** @param {any} item */
function wordsOf(item) {
  if (isText(item)) {
    const parts = [...(item.summary ?? []), ...(item.content ?? [])];
    return parts.map((part) => part?.text ?? part?.refusal ?? '').join('\n\n');
  }
  if (isCall(item)) return textOf(item.arguments ?? item.input ?? item.action);
  if (String(item.type).endsWith('_output')) return textOf(item.output);
  return textOf(item);
}

/** @param {string} text */
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
