/** Shows a growing Markdown text: blocks that did not change keep their nodes, and with them a selection. */
import { copyButton, el } from '../shared/dom.js';
import { inlines } from './inline.js';
import { blocks } from './markdown.js';

/**
 * @typedef {import('./markdown.js').Block} Block
 * @typedef {import('./inline.js').Inline} Inline
 */

export class MarkdownView {
  /** @type {{source: string, kind: string, node: Node}[]} */ #shown = [];
  #text = '';

  constructor() {
    this.element = el('div', { class: 'markdown' });
  }

  /** @param {string} text */
  update(text) {
    if (text === this.#text) return;
    this.#text = text;
    const wanted = blocks(text);
    let same = 0;
    while (same < wanted.length && this.#isShown(same, wanted[same])) same += 1;
    for (const { node } of this.#shown.splice(same)) node.parentNode?.removeChild(node);
    for (const block of wanted.slice(same)) {
      const node = nodeOf(block, 0);
      this.element.append(node);
      this.#shown.push({ source: block.source, kind: block.kind, node });
    }
  }

  /** @param {number} index @param {Block} block */
  #isShown(index, block) {
    const shown = this.#shown[index];
    return shown?.source === block.source && shown.kind === block.kind;
  }
}

/** Quotes and lists within each other; deeper than this they are shown as written. */
const MAX_DEPTH = 8;

/** @param {Block} block @param {number} depth @returns {HTMLElement} */
function nodeOf(block, depth) {
  if (block.kind === 'code') return codeNode(block);
  if (block.kind === 'rule') return el('hr');
  if (block.kind === 'quote') return el('blockquote', {}, ...inner(block.text, depth));
  if (block.kind === 'list') return listNode(block, depth);
  // The page has its own h1 and h2; a model's headings come below them.
  if (block.kind === 'heading') return el(block.level === 1 ? 'h3' : 'h4', {}, ...inlines(block.text).map(inlineNode));
  return el('p', {}, ...inlines(block.text).map(inlineNode));
}

/** @param {Block} block @param {number} depth */
function listNode(block, depth) {
  const items = (block.items ?? []).map((item) => el('li', {}, ...inner(item, depth)));
  return block.ordered ? el('ol', { start: block.start }, ...items) : el('ul', {}, ...items);
}

/** @param {string} text @param {number} depth @returns {Node[]} */
function inner(text, depth) {
  if (depth >= MAX_DEPTH) return [document.createTextNode(text)];
  const found = blocks(text);
  const [first, ...rest] = found;
  // The first line of a list item is no paragraph of its own.
  if (first?.kind !== 'paragraph') return found.map((block) => nodeOf(block, depth + 1));
  return [...inlines(first.text).map(inlineNode), ...rest.map((block) => nodeOf(block, depth + 1))];
}

/** @param {Block} block */
function codeNode({ text, language }) {
  const bar = el(
    'div',
    { class: 'code-bar' },
    el('span', {}, language || 'code'),
    copyButton('Copy', () => text),
  );
  const code = el('pre', { tabIndex: 0 }, el('code', {}, text));
  return el('div', { class: 'code' }, bar, code);
}

/** @param {Inline} inline @returns {Node} */
function inlineNode(inline) {
  if (typeof inline === 'string') return document.createTextNode(inline);
  const children = inline.children.map(inlineNode);
  if (inline.kind !== 'link') return el(inline.kind, {}, ...children);
  return el('a', { href: inline.href, target: '_blank', rel: 'noopener noreferrer' }, ...children);
}
