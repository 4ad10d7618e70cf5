import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answeredBy, nameOf, people, typingWords, workingOn } from '../../server/antiphon/pages/js/chat/people.js';
import { aTurn } from './support.mjs';

const ME = { id: 'user:anna', role: 'driver', instance: 'tab-1' };
const one = (connection, principal, state = 'watching', label = null) => ({
  connection,
  principal,
  role: 'driver',
  state,
  label,
});

test('everybody is one name, with what they do elsewhere, the person here first', () => {
  const here = [
    one('c3', 'key:bob', 'typing'),
    one('c1', 'user:anna', 'typing'),
    one('c2', 'user:anna'),
    one('c4', 'key:bob'),
  ];
  assert.deepEqual(people(here, ME, 'c1'), [
    { principal: 'user:anna', name: 'You', isMe: true, state: 'watching', count: 2 },
    { principal: 'key:bob', name: 'bob', isMe: false, state: 'typing', count: 2 },
  ]);
});

test('where everybody has one name, they are counted', () => {
  const anybody = { ...ME, id: 'user:local' };
  const [all] = people([one('c1', 'user:local'), one('c2', 'user:local', 'typing')], anybody, 'c1');
  assert.deepEqual([all.name, all.count, all.state], ['You and 1 more', 1, 'typing']);
});

test('a name is what stands behind its kind, and nobody’s where all have one', () => {
  assert.deepEqual(['key:a:b', 'user:<b>', 'plain', 'user:local'].map(nameOf), ['a:b', '<b>', 'plain', 'Somebody']);
});

test('others who type are named, oneself is not, and many are counted', () => {
  const typing = (...principals) => principals.map((principal, n) => one(`c${n}`, principal, 'typing'));
  assert.equal(typingWords(typing('user:anna'), ME, 'c0'), '');
  assert.equal(typingWords(typing('user:anna'), ME, 'c9'), 'Another tab of yours is typing');
  assert.equal(typingWords(typing('key:bob', 'key:eve'), ME, 'c9'), 'bob and eve are typing');
  assert.equal(typingWords(typing('key:b', 'key:c', 'key:d'), ME, 'c9'), '3 people are typing');
  assert.equal(
    typingWords([one('c2', 'key:bob', 'typing', 'call_1')], ME, 'c1'),
    '',
    'an answer to a call is told there',
  );
});

test('who is at a call is who claimed it, or who writes an answer to it', () => {
  const call = { call_id: 'call_1', claim: null };
  const claim = { holder: 'key:bob', instance: 'x', expires_at: 9 };
  const turn = aTurn({ participants: [one('c2', 'key:eve', 'typing', 'call_1')] });
  assert.equal(workingOn(turn, call, ME, 'c1'), 'eve');
  assert.equal(workingOn(turn, call, ME, 'c2'), '');
  assert.equal(workingOn(turn, { ...call, claim }, ME, 'c1'), 'bob');
  assert.equal(workingOn(turn, { ...call, claim: { ...claim, holder: ME.id, instance: ME.instance } }, ME, 'c1'), '');
});

test('who answered is told, unless it was this tab', () => {
  const by = (principal, instance) => answeredBy({ call_id: 'c', by: principal, instance, at: 0 }, ME);
  assert.equal(by('key:bob'), 'Answered by bob');
  assert.equal(by('user:anna', 'tab-1'), '');
  assert.equal(by('user:anna', 'tab-2'), 'Answered in another tab or program');
  assert.equal(by('system:deadline'), 'Nobody answered in time');
});
