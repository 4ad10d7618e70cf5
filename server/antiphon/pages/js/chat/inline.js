/**
 * Markdown inside a line: code, bold, italic, links. A hand-written scanner, because a pattern that
 * looks for a closing mark from every opening one takes quadratic time on hostile text.
 *
 * @typedef {string | {kind: 'code' | 'strong' | 'em', children: Inline[]}
 *   | {kind: 'link', href: string, children: Inline[]}} Inline
 * @typedef {{node: Inline, length: number} | null} Span
 */

const LINK = /\[([^[\]\n]{1,500})\]\(([^()\s]{1,2000})\)/y;
const URL_TEXT = /https?:\/\/[^\s<>"'`()[\]*]{1,2000}/y;
const WORD = /[\p{L}\p{N}_]/u;
const ESCAPABLE = /[\\`*_{}[\]()#+\-.!>~|]/;

/** @param {string} text @returns {Inline[]} */
export function inlines(text) {
  /** @type {Inline[]} */
  const found = [];
  let plain = '';
  for (let at = 0; at < text.length;) {
    const span = spanAt(text, at);
    if (!span) {
      plain += text[at];
      at += 1;
    } else {
      if (typeof span.node === 'string') plain += span.node;
      else found.push(...(plain ? [plain] : []), span.node);
      if (typeof span.node !== 'string') plain = '';
      at += span.length;
    }
  }
  return plain ? [...found, plain] : found;
}

/** @type {Record<string, (text: string, at: number) => Span>} */
const SCANNERS = { '\\': escaped, '`': code, '*': stars, _: underscore, '[': link, h: bareUrl };

/** @param {string} text @param {number} at @returns {Span} */
function spanAt(text, at) {
  return SCANNERS[text[at]]?.(text, at) ?? null;
}

/** @param {string} text @param {number} at @returns {Span} */
function escaped(text, at) {
  return ESCAPABLE.test(text[at + 1] ?? '') ? { node: text[at + 1], length: 2 } : null;
}

/** @param {string} text @param {number} at @returns {Span} */
function code(text, at) {
  let width = 1;
  while (text[at + width] === '`') width += 1;
  const mark = '`'.repeat(width);
  const end = text.indexOf(mark, at + width);
  // An unclosed mark is text, all of it: half of it must not open a shorter span.
  if (end < 0) return { node: mark, length: width };
  return { node: { kind: 'code', children: [text.slice(at + width, end)] }, length: end + width - at };
}

/** @param {string} text @param {number} at @returns {Span} */
function stars(text, at) {
  const mark = text[at + 1] === '*' ? '**' : '*';
  const from = at + mark.length;
  const end = text.indexOf(mark, from);
  const inner = text.slice(from, end);
  if (end <= from || /^\s|\s$/.test(inner) || inner.includes('\n\n')) return { node: mark, length: mark.length };
  const kind = mark === '**' ? 'strong' : 'em';
  return { node: { kind, children: inlines(inner) }, length: end + mark.length - at };
}

/** Only around words: snake_case_names stay as they are. @param {string} text @param {number} at @returns {Span} */
function underscore(text, at) {
  const end = text.indexOf('_', at + 1);
  const inner = text.slice(at + 1, end);
  if (end <= at + 1 || WORD.test(text[at - 1] ?? '') || WORD.test(text[end + 1] ?? '')) return null;
  if (/^\s|\s$|\n/.test(inner)) return null;
  return { node: { kind: 'em', children: inlines(inner) }, length: end + 1 - at };
}

/** @param {string} text @param {number} at @returns {Span} */
function link(text, at) {
  LINK.lastIndex = at;
  const match = LINK.exec(text);
  const href = match && safeHref(match[2]);
  return match && href ? { node: { kind: 'link', href, children: inlines(match[1]) }, length: match[0].length } : null;
}

/** @param {string} text @param {number} at @returns {Span} */
function bareUrl(text, at) {
  URL_TEXT.lastIndex = at;
  const written = WORD.test(text[at - 1] ?? '') ? null : URL_TEXT.exec(text)?.[0].replace(/[.,;:!?]+$/, '');
  const href = written && safeHref(written);
  return written && href ? { node: { kind: 'link', href, children: [written] }, length: written.length } : null;
}

/** What a link may do is open a page or a mail; never run a script. @param {string} href @returns {string | null} */
export function safeHref(href) {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(href).protocol) ? href : null;
  } catch {
    return null;
  }
}
