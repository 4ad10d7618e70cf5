import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Shelf } from '../../server/antiphon/pages/js/chat/shelf.js';
import { areaOr, memoryArea } from '../../server/antiphon/pages/js/shared/areas.js';

const aHead = (id, updatedAt = 0) => ({ id, title: id, model: 'm', createdAt: 0, updatedAt });
const anUnsent = (key, conversation, createdAt = 0) => ({
  key,
  conversation,
  createdAt,
  model: 'm',
  input: [],
  previousResponseId: null,
  problem: null,
});

test('conversations are listed newest first, and the oldest make room', () => {
  const shelf = new Shelf(memoryArea());
  for (let at = 0; at < 120; at += 1) shelf.save(aHead(`conv_${at}`, at));
  const ids = shelf.heads().map(({ id }) => id);
  assert.deepEqual([ids.length, ids[0], ids.at(-1)], [100, 'conv_119', 'conv_20']);
});

test('what was not confirmed moves along when the server names the conversation', () => {
  const shelf = new Shelf(memoryArea());
  const head = aHead('new_1');
  shelf.save(head);
  shelf.keep(anUnsent('b', 'new_1', 2));
  shelf.keep(anUnsent('a', 'new_1', 1));
  assert.deepEqual(shelf.rename(head, 'conv_1'), { ...head, id: 'conv_1', was: 'new_1' });
  assert.deepEqual(
    shelf.heads().map(({ id }) => id),
    ['conv_1'],
  );
  assert.equal(shelf.find('new_1').id, 'conv_1', 'a tab that was reloaded in this moment finds it');
  assert.deepEqual(
    shelf.unsent('conv_1').map(({ key }) => key),
    ['a', 'b'],
  );
  shelf.drop('a');
  shelf.remove('conv_1');
  assert.equal(shelf.area.length, 0);
});

test('what another program or version wrote is passed over', () => {
  const area = memoryArea();
  area.setItem('antiphon.2.head.x', '{broken');
  area.setItem('antiphon.2.head.y', '7');
  area.setItem('antiphon.1.head.z', JSON.stringify(aHead('z')));
  const shelf = new Shelf(area);
  assert.deepEqual(shelf.heads(), []);
  assert.equal(shelf.changed({ key: 'antiphon.2.head.conv_1' }), 'conv_1');
  assert.equal(shelf.changed({ key: 'antiphon.1.head.z' }), null);
  assert.equal(shelf.changed({ key: null }), null);
});

test('a full area forgets the oldest conversation, and one that takes nothing is no error', () => {
  const area = memoryArea();
  const { setItem } = area;
  const shelf = new Shelf(area);
  shelf.save(aHead('conv_old', 1));
  area.setItem = (key, value) => {
    if (area.length > 0) throw new Error('full');
    setItem(key, value);
  };
  shelf.save(aHead('conv_new', 2));
  assert.deepEqual(
    shelf.heads().map(({ id }) => id),
    ['conv_new'],
  );
  area.setItem = () => {
    throw new Error('forbidden');
  };
  shelf.saveSetting('model', 'm');
  assert.equal(
    areaOr(() => {
      throw new Error('no storage');
    }).length,
    0,
  );
});
