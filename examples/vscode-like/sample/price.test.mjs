import assert from 'node:assert/strict';
import { test } from 'node:test';
import { discounted } from './price.mjs';

test('a discount makes things cheaper', () => {
  assert.equal(discounted(200, 10), 180);
});
