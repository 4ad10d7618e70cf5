import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runTool } from '../../server/antiphon/pages/js/tools.js';

const NOON = new Date('2026-11-30T12:00:00Z');
const time = (given) => JSON.parse(runTool({ type: 'function_call', name: 'get_local_time', arguments: given }, NOON));

test('the local time is told for the zone that was named', () => {
  const { local_time, timezone } = time('{"timezone":"Asia/Tokyo"}');
  // Punctuation differs between versions of the locale data.
  assert.match(local_time, /^Monday,? 30 November 2026\b.*\b21:00:00 GMT\+9$/);
  assert.equal(timezone, 'Asia/Tokyo');
});

test('without a zone it is the time where the person is', () => {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const given of ['', '{}', '{"timezone":null}', '{"timezone":""}']) assert.equal(time(given).timezone, here);
});

test('a call that cannot be served still gets a result that says so', () => {
  for (const given of ['{', '[1', 'null', '"x"', '{"timezone":"Nowhere/Land"}']) assert.match(time(given).error, /./);
  assert.match(runTool({ type: 'function_call', name: 'launch', arguments: '{}' }, NOON), /no tool named launch/);
});
