import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addTurn, newConversation } from '../../server/antiphon/pages/js/conversation.js';
import { Storage, areaOr, memoryArea } from '../../server/antiphon/pages/js/storage.js';
import { aTurn } from './support.mjs';

function kept(storage, id, updatedAt) {
  const conversation = { ...newConversation(id, 'antiphon/demo', updatedAt), title: id };
  const turn = aTurn();
  addTurn(conversation, turn);
  conversation.updatedAt = updatedAt;
  storage.saveHead(conversation);
  storage.saveTurn(id, turn);
  return conversation;
}

test('what was saved is loaded again, newest conversation first', () => {
  const storage = new Storage(memoryArea());
  const first = kept(storage, 'a', 1);
  const second = kept(storage, 'b', 2);
  assert.deepEqual(
    storage.heads().map(({ id }) => id),
    ['b', 'a'],
  );
  assert.deepEqual([storage.load('a'), storage.load('b')], [first, second]);
  assert.equal(storage.load('c'), null);
});

test('a removed conversation leaves nothing behind', () => {
  const area = memoryArea();
  const storage = new Storage(area);
  kept(storage, 'a', 1);
  storage.remove('a');
  assert.equal(area.length, 0);
});

test('entries that cannot be read are passed over', () => {
  const area = memoryArea();
  const storage = new Storage(area);
  kept(storage, 'a', 1);
  area.setItem('antiphon.1.head.b', '{');
  area.setItem('antiphon.1.turn.a.x', 'null');
  area.setItem('somebody.else', 'x');
  assert.equal(storage.heads().length, 1);
  assert.equal(storage.load('a').turns.length, 1);
});

test('only the newest fifty conversations are kept', () => {
  const storage = new Storage(memoryArea());
  for (let number = 1; number <= 52; number += 1) kept(storage, `c${number}`, number);
  assert.deepEqual([storage.heads().length, storage.load('c2')], [50, null]);
});

test('a full browser gives up the oldest conversation for the newest', () => {
  const area = memoryArea();
  const storage = new Storage(area);
  kept(storage, 'old', 1);
  kept(storage, 'new', 2);
  const { setItem } = area;
  area.setItem = (key, value) => {
    if (area.getItem('antiphon.1.head.old')) throw new Error('QuotaExceededError');
    setItem(key, value);
  };
  const turn = aTurn();
  storage.saveTurn('new', turn);
  assert.equal(storage.load('old'), null);
  assert.ok(storage.load('new').turns.some(({ key }) => key === turn.key));
});

test('a browser that stores nothing does not break the page', () => {
  const area = memoryArea();
  area.setItem = () => {
    throw new Error('SecurityError');
  };
  new Storage(area).saveTurn('a', aTurn());
  const none = areaOr(() => {
    throw new Error('SecurityError');
  });
  none.setItem('x', '1');
  assert.equal(none.getItem('x'), '1');
});

test('what another tab wrote or removed is understood', () => {
  const storage = new Storage(memoryArea());
  const turn = aTurn();
  assert.deepEqual(storage.read({ key: `antiphon.1.turn.a.${turn.key}`, newValue: JSON.stringify(turn) }), {
    kind: 'turn',
    id: 'a',
    turn,
  });
  assert.deepEqual(storage.read({ key: 'antiphon.1.head.a', newValue: null }), { kind: 'head', id: 'a', head: null });
  assert.equal(storage.read({ key: 'antiphon.1.model', newValue: '"x"' }), null);
  assert.equal(storage.read({ key: null, newValue: null }), null);
});
