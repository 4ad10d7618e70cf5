/**
 * Markdown to a flat list of blocks, for text that a model wrote and that may end anywhere. Only
 * what chat answers use: paragraphs, headings, lists, quotes, code, rules. No HTML is ever read.
 *
 * @typedef {{kind: 'paragraph' | 'code' | 'quote' | 'rule' | 'list' | 'heading', source: string,
 *   text: string, language?: string, level?: number, ordered?: boolean, start?: number, items?: string[]}} Block
 */

const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const RULE = /^\s{0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
const QUOTE = /^\s{0,3}>\s?/;
const BULLET = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+/;

/** @param {string} text @returns {Block[]} */
export function blocks(text) {
  const lines = text.split('\n');
  /** @type {Block[]} */
  const found = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, length] = blockAt(lines, at);
    found.push({ ...block, source: lines.slice(at, at + length).join('\n') });
    at += length;
  }
  return found;
}

/** @param {string[]} lines @param {number} at @returns {[Omit<Block, 'source'>, number]} */
function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: 'heading', level: heading[1].length, text: heading[2] }, 1];
  if (RULE.test(line)) return [{ kind: 'rule', text: '' }, 1];
  if (QUOTE.test(line)) {
    const end = runOf(lines, at, (next) => QUOTE.test(next));
    return [
      {
        kind: 'quote',
        text: lines
          .slice(at, end)
          .map((quoted) => quoted.replace(QUOTE, ''))
          .join('\n'),
      },
      end - at,
    ];
  }
  if (BULLET.test(line)) return listAt(lines, at);
  const end = runOf(lines, at, (next, index) => index === at || (next.trim() !== '' && !startsBlock(next)));
  return [{ kind: 'paragraph', text: lines.slice(at, end).join('\n') }, end - at];
}

/** @param {string[]} lines @param {number} at @param {RegExpExecArray} fence @returns {[Omit<Block, 'source'>, number]} */
function codeAt(lines, at, fence) {
  const [, mark, language] = fence;
  const isEnd = (/** @type {string} */ line) => line.trim().startsWith(mark) && !line.trim().slice(mark.length).trim();
  const end = runOf(lines, at + 1, (line) => !isEnd(line));
  // A fence without an end is still being written.
  return [{ kind: 'code', language, text: lines.slice(at + 1, end).join('\n') }, Math.min(end + 1, lines.length) - at];
}

/** @param {string[]} lines @param {number} at @returns {[Omit<Block, 'source'>, number]} */
function listAt(lines, at) {
  const [, indent, number] = /** @type {RegExpExecArray} */ (BULLET.exec(lines[at]));
  /** @type {string[]} */
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const bullet = BULLET.exec(line);
    const isDeeper = line.startsWith(`${indent}  `) && line.trim() !== '';
    if (bullet && bullet[1].length <= indent.length && !!bullet[2] === !!number)
      items.push(line.slice(bullet[0].length));
    else if (isDeeper && items.length) items[items.length - 1] += `\n${line.slice(indent.length + 2)}`;
    else if (line.trim() || !continuesAfterBlank(lines, end, indent, !!number)) break;
  }
  return [{ kind: 'list', ordered: !!number, start: Number(number ?? 1), items, text: '' }, end - at];
}

/** @param {string[]} lines @param {number} at @param {string} indent @param {boolean} ordered */
function continuesAfterBlank(lines, at, indent, ordered) {
  const next = lines[at + 1] ?? '';
  const bullet = BULLET.exec(next);
  return (bullet && bullet[1].length <= indent.length && !!bullet[2] === ordered) || /^\s{2,}\S/.test(next);
}

/** @param {string} line */
const startsBlock = (line) => [FENCE, HEADING, RULE, QUOTE, BULLET].some((start) => start.test(line));

/** @param {string[]} lines @param {number} at @param {(line: string, index: number) => boolean} belongs */
function runOf(lines, at, belongs) {
  let end = at;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return end;
}
