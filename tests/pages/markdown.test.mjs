import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inlines, safeHref } from '../../server/antiphon/pages/js/chat/inline.js';
import { blocks } from '../../server/antiphon/pages/js/chat/markdown.js';

const kinds = (text) => blocks(text).map(({ kind }) => kind);

test('paragraphs, headings, lists, quotes, code and rules are told apart', () => {
  const text = '# Title\nfirst line\nsecond line\n\n- a\n- b\n\n1. c\n2. d\n\n> said\n\n---\n\n```js\nlet x;\n```\nend';
  assert.deepEqual(kinds(text), ['heading', 'paragraph', 'list', 'list', 'quote', 'rule', 'code', 'paragraph']);
  assert.equal(blocks(text)[1].text, 'first line\nsecond line');
});

test('a fence that is still being written is code already', () => {
  assert.deepEqual(
    blocks('```py\nx = 1\n').map(({ kind, text, language }) => [kind, text, language]),
    [['code', 'x = 1\n', 'py']],
  );
  assert.deepEqual(kinds('```'), ['code']);
});

test('code keeps blank lines and marks, and ends at its own fence only', () => {
  const [block] = blocks('````\n```\n# no heading\n\n- no list\n```\n````');
  assert.equal(block.text, '```\n# no heading\n\n- no list\n```');
});

test('nested and spaced lists stay one list', () => {
  const [list, ...rest] = blocks('3. three\n   more\n   - inner\n\n4. four');
  assert.deepEqual([list.kind, list.ordered, list.start], ['list', true, 3]);
  assert.deepEqual(list.items, ['three\n more\n - inner', 'four']);
  assert.deepEqual(rest, []);
});

test('every character of a growing text is in some block, whatever it ends with', () => {
  const text = '# A\n\n- x\n  - y\n\n```\ncode\n```\n> q\n1. z\n***\n_end_ of `it`';
  for (let length = 1; length <= text.length; length += 1) {
    const part = text.slice(0, length);
    const kept = blocks(part)
      .map(({ source }) => source)
      .join('')
      .replace(/\s/g, '');
    assert.equal(kept, part.replace(/\s/g, ''), `first ${length} characters`);
  }
});

test('code, bold, italic and links are found inside a line', () => {
  assert.deepEqual(inlines('a **b *c*** `d*` [e](https://e.org/) _f_'), [
    'a ',
    { kind: 'strong', children: ['b *c'] },
    '* ',
    { kind: 'code', children: ['d*'] },
    ' ',
    { kind: 'link', href: 'https://e.org/', children: ['e'] },
    ' ',
    { kind: 'em', children: ['f'] },
  ]);
});

test('what only looks like a mark stays text', () => {
  for (const text of [
    '2 * 3 * 4',
    'snake_case_name',
    'a ** b',
    '`open',
    '**open',
    '[x](',
    '<b>x</b>',
    'http',
    '\\',
    '*',
  ]) {
    assert.deepEqual(inlines(text), [text]);
  }
  assert.deepEqual(inlines('\\*not\\*'), ['*not*']);
});

test('a link can open a page or a mail and nothing else', () => {
  for (const href of [
    'javascript:alert(1)',
    'JAVASCRIPT:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    '/local',
    'file:///etc/passwd',
  ]) {
    assert.equal(safeHref(href), null);
    assert.ok(inlines(`[x](${href})`).every((part) => typeof part === 'string'));
  }
  assert.equal(safeHref('mailto:a@b.org'), 'mailto:a@b.org');
  assert.deepEqual(inlines('see https://a.org/x.'), [
    'see ',
    { kind: 'link', href: 'https://a.org/x', children: ['https://a.org/x'] },
    '.',
  ]);
});

test('hostile text is read in a moment', { timeout: 5_000 }, () => {
  for (const mark of ['*', '**a', '`', '` ``', '[', '[a](', '_', '_a', '> ', '- ', '#', '~~~\n', 'http://', '\\']) {
    const text = mark.repeat(20_000);
    inlines(text);
    blocks(text);
  }
});
