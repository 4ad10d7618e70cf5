import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryArea } from '../../server/antiphon/pages/js/shared/areas.js';
import { Unlock } from '../../server/antiphon/pages/js/shared/unlock.js';

/** An element that only remembers. */
class Part {
  value = '';
  textContent = '';
  hidden = true;
  focused = 0;
  #listeners = {};

  addEventListener(kind, listener) {
    this.#listeners[kind] = listener;
  }

  fire(kind) {
    let prevented = false;
    this.#listeners[kind]({ preventDefault: () => (prevented = true) });
    return prevented;
  }

  focus() {
    this.focused += 1;
  }
}

function anUnlock() {
  const parts = { form: new Part(), field: new Part(), hint: new Part(), forget: new Part() };
  const area = memoryArea();
  const changes = [];
  const unlock = new Unlock(parts, area, () => changes.push(unlock.key));
  const enter = (text) => {
    parts.field.value = text;
    return parts.form.fire('submit');
  };
  return { unlock, parts, area, changes, enter };
}

test('a key is kept in the area of the tab, trimmed, and the field is empty again', () => {
  const { unlock, parts, area, changes, enter } = anUnlock();
  assert.equal(unlock.key, '');
  assert.equal(enter('  ak_secret \n'), true, 'the form is not sent');
  assert.deepEqual(changes, ['ak_secret']);
  assert.equal(area.getItem('antiphon.key'), 'ak_secret');
  assert.equal(parts.field.value, '');
});

test('what no header can hold is refused without asking the server', () => {
  const { unlock, parts, changes, enter } = anUnlock();
  for (const text of ['', 'two words', 'schlüssel', 'a\nb', 'x'.repeat(16_385)]) enter(text);
  assert.deepEqual(changes, []);
  assert.equal(unlock.key, '');
  assert.match(parts.hint.textContent, /does not accept/);
});

test('the form is there while the page is locked and takes the focus once', () => {
  const { unlock, parts } = anUnlock();
  for (const isLocked of [true, true, false]) unlock.update(isLocked);
  assert.equal(parts.form.hidden, true);
  assert.equal(parts.field.focused, 1);
  assert.match(parts.hint.textContent, /this tab/);
});

test('a key that the server refuses is forgotten, and the person is told that it was refused', () => {
  const { unlock, parts, enter } = anUnlock();
  unlock.refused();
  unlock.update(true);
  assert.match(parts.hint.textContent, /this tab/, 'there was none to refuse');
  enter('ak_wrong');
  unlock.refused();
  unlock.update(true);
  assert.equal(unlock.key, '');
  assert.match(parts.hint.textContent, /does not accept/);
});

test('a key can be forgotten, and that is offered only where there is one', () => {
  const { unlock, parts, changes, enter } = anUnlock();
  unlock.update(false);
  assert.equal(parts.forget.hidden, true);
  enter('ak_secret');
  unlock.update(false);
  assert.equal(parts.forget.hidden, false);
  parts.forget.fire('click');
  assert.deepEqual(changes, ['ak_secret', '']);
});
