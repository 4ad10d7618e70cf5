import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localTime, questionOf } from '../../server/antiphon/pages/js/chat/tools.js';

const NOON = new Date('2026-11-30T12:00:00Z');
const time = (given) => localTime(given, NOON);

test('the local time is told for the zone that was named', () => {
  const { local_time, timezone } = time({ timezone: 'Asia/Tokyo' });
  // Punctuation differs between versions of the locale data.
  assert.match(local_time, /^Monday,? 30 November 2026\b.*\b21:00:00 GMT\+9$/);
  assert.equal(timezone, 'Asia/Tokyo');
  assert.throws(() => time({ timezone: 'Nowhere/Land' }), RangeError);
});

test('without a zone it is the time where the person is', () => {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const given of [{}, null, 'x', { timezone: null }, { timezone: '' }]) assert.equal(time(given).timezone, here);
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

test('the text of a person is asked for with the reason of the model, if it has one', () => {
  const read = (given) => questionOf({ type: 'function_call', name: 'read_selection', arguments: given }).question;
  assert.equal(read('{"reason":"To explain it."}'), 'May I read a text that you select or paste? To explain it.');
  for (const given of ['{}', '', '[1]', '{broken'])
    assert.equal(read(given), 'May I read a text that you select or paste?');
});
