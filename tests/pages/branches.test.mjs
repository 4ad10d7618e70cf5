import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Branches } from '../../server/antiphon/pages/js/chat/branches.js';
import { forkWords } from '../../server/antiphon/pages/js/chat/people.js';
import { aTurn, asking } from './support.mjs';

/** A turn whose name is that of its run. */
const said = (runId, previousResponseId, more = {}) =>
  aTurn({ runId, previousResponseId, input: asking(runId), status: 'completed', ...more });

function branches(turns, kept = null) {
  const place = { kept, get: () => place.kept, keep: (runId) => (place.kept = runId) };
  return { turns, place, it: new Branches(() => turns, place) };
}
const names = (turns) => turns.map(({ runId, asked }) => runId ?? asked);

/** One answer that two people answered, and what became of the first branch. */
function forked(kept) {
  const one = said('one', null);
  const left = said('left', 'one');
  const right = said('right', 'one');
  const more = said('more', 'left');
  return { one, left, right, more, ...branches([one, left, right, more], kept) };
}

test('of two answers to one turn a branch is shown, first the one in which somebody wrote last', () => {
  const { it, one, left, right } = forked();
  assert.deepEqual(names(it.shown), ['one', 'left', 'more']);
  assert.deepEqual([...it.forks], [[left, [left, right]]]);
  it.show(right);
  assert.deepEqual(names(it.shown), ['one', 'right']);
  assert.deepEqual([...it.forks], [[right, [left, right]]]);
  it.show(left);
  assert.deepEqual(names(it.shown), ['one', 'left', 'more'], 'to its end');
  assert.deepEqual([...branches([one, left]).it.forks], [], 'a plain conversation has none');
});

test('the branch that was chosen is kept, and what others write elsewhere does not change it', () => {
  const { it, place, turns, right } = forked();
  it.show(right);
  assert.equal(place.kept, 'right');
  turns.push(said('later', 'more'));
  it.settle();
  assert.deepEqual(names(it.shown), ['one', 'right']);
  assert.deepEqual(names(branches(turns, place.kept).it.shown), ['one', 'right'], 'after a reload');
  turns.push(said('here', 'right'));
  it.settle();
  assert.deepEqual([names(it.shown), place.kept], [['one', 'right', 'here'], 'here']);
});

test('whoever only watches stays with the one that came first', () => {
  const { it, turns } = branches([said('one', null)]);
  it.settle();
  turns.push(said('first', 'one'));
  it.settle();
  turns.push(said('second', 'one'));
  it.settle();
  assert.deepEqual(names(it.shown), ['one', 'first']);
});

test('what failed or was refused is no branch, and is shown beside what went on', () => {
  const one = said('one', null);
  const refused = aTurn({ previousResponseId: 'one', input: asking('no'), status: 'refused' });
  const { it } = branches([one, refused, said('two', 'one'), said('bad', 'two', { status: 'failed' })]);
  assert.deepEqual(names(it.shown), ['one', 'no', 'two', 'bad']);
  assert.equal(it.forks.size, 0);
  const first = branches([aTurn({ input: asking('no'), status: 'refused' })]);
  assert.deepEqual(names(first.it.shown), ['no'], 'also at the very beginning');
});

test('a run of which nobody knows yet what it continues is shown at the end, unless that could be wrong', () => {
  const unplaced = { previousResponseId: undefined, status: 'running' };
  const plain = branches([said('one', null), said('new', undefined, unplaced)]);
  assert.deepEqual(names(plain.it.shown), ['one', 'new']);
  const mine = [said('one', null), said('mine', 'one', { status: 'running' })];
  const busy = branches([...mine, said('new', undefined, unplaced)]);
  assert.deepEqual(names(busy.it.shown), ['one', 'mine']);
  const two = forked();
  two.turns.push(said('new', undefined, unplaced));
  assert.deepEqual(names(two.it.shown), ['one', 'left', 'more']);
});

test('a deleted turn, a lost response and a conversation that a client made leave one line', () => {
  const deleted = branches([said('one', null), said('three', 'two'), said('four', 'three')]);
  assert.deepEqual(names(deleted.it.shown), ['one', 'three', 'four']);
  const lost = branches([said('one', null), said('two', undefined), said('three', 'two')]);
  assert.deepEqual(names(lost.it.shown), ['one', 'two', 'three']);
  const made = branches([said('one', null), said('two', null), said('three', null)]);
  assert.deepEqual(names(made.it.shown), ['one', 'two', 'three']);
  for (const { it } of [deleted, lost, made]) assert.equal(it.forks.size, 0);
});

test('older turns are needed where branches part further up, or the kept one is not here', () => {
  const parts = [said('left', 'unread'), said('right', 'read-neither')];
  assert.equal(branches(parts).it.isWhole, false);
  assert.equal(branches(parts.slice(0, 1)).it.isWhole, true);
  assert.equal(branches(parts.slice(0, 1), 'elsewhere').it.isWhole, false);
});

test('a fork says who else wrote, and when that was at the same moment', () => {
  const me = { id: 'key:me', role: 'driver', instance: 'tab1' };
  const mine = said('one', null, { author: null, createdAt: 0, input: asking('What about **me**?') });
  const ann = said('two', null, { author: 'user:Ann', createdAt: 900, input: asking('And I?') });
  assert.deepEqual(forkWords(mine, [mine, ann], me), {
    words: 'Ann also wrote here at the same moment. You see one branch; what you write goes on from it.',
    ways: [
      { key: mine.key, label: 'You: What about me?', isShown: true },
      { key: ann.key, label: 'Ann: And I?', isShown: false },
    ],
  });
  const later = { ...ann, author: 'key:bob', createdAt: 60_000 };
  assert.match(forkWords(mine, [mine, ann, later], me).words, /^Ann and bob also wrote here\. /);
  const nameless = forkWords(mine, [mine, { ...ann, author: 'user:local' }], { ...me, id: 'user:local' });
  assert.match(nameless.words, /^Somebody also wrote here/);
  assert.equal(nameless.ways[1].label, 'And I?');
});
