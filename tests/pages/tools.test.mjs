import assert from 'node:assert/strict';
import { test } from 'node:test';
import { questionOf, runTool, runsHere } from '../../server/antiphon/pages/js/tools.js';

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

test('a question is read with its choices, each once, and shown as it came if it cannot be read', () => {
  const read = (given) => questionOf({ type: 'function_call', name: 'ask_person', arguments: given });
  assert.deepEqual(read('{"question":"Tea?","choices":["Yes","No","Yes","",7]}'), {
    question: 'Tea?',
    choices: ['Yes', 'No'],
  });
  assert.deepEqual(read('{"question":"Tea?"}'), { question: 'Tea?', choices: [] });
  assert.deepEqual(read('{"choices":"Yes"}'), { question: '{"choices":"Yes"}', choices: [] });
  assert.deepEqual(read('{broken'), { question: '{broken', choices: [] });
});

test('the page answers its clock by itself and leaves questions to the person', () => {
  const call = (name, type = 'function_call') => runsHere({ type, name });
  assert.deepEqual([call('get_local_time'), call('ask_person'), call('get_local_time', 'mcp_call')], [true, false, false]);
});
