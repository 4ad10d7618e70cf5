import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Answers } from '../../server/antiphon/pages/js/chat/answers.js';
import { FakeRun, aTurn } from './support.mjs';

const ME = { id: 'user:anna', role: 'driver', instance: 'tab-1' };

function anAnswering(refusal) {
  const notices = [];
  const run = new FakeRun();
  if (refusal) run.answer = () => Promise.reject(Object.assign(new Error(refusal.message), refusal));
  const answers = new Answers({
    me: () => ME,
    connection: () => 'c1',
    onChange: () => {},
    onNotice: (message) => notices.push(message),
  });
  const give = () => answers.give(aTurn(), run, { callId: 'call_1', output: 'x' });
  return { answers, run, give, notices, view: () => answers.view(aTurn(), 'call_1') };
}

test('an answer is given once, however often a person presses', async () => {
  const { run, give, view } = anAnswering();
  const first = give();
  assert.equal(view().isGiven, true);
  await Promise.all([first, give(), give()]);
  assert.deepEqual(run.answers, [['call_1', 'x']]);
  assert.equal(view().isGiven, false);
});

test('who was faster is named, and nobody is alarmed', async () => {
  const { give, view, notices } = anAnswering({ code: 'already_resolved', message: 'no', winner: { by: 'key:bob' } });
  await give();
  assert.equal(view().late, 'bob was faster.');
  assert.deepEqual(notices, []);
});

test('after a refusal that passes the person can answer again', async () => {
  const { run, give, view, notices } = anAnswering({ code: 'claim_held', message: 'no', holder: 'key:bob' });
  await give();
  assert.equal(view().late, 'bob is at it just now.');
  run.answer = undefined;
  await give();
  assert.deepEqual([run.answers.length, view().late, notices], [2, '', []]);
});

test('other refusals are said in the words of the server', async () => {
  const { give, notices, view } = anAnswering({ code: 'forbidden', message: 'You may not.' });
  await give();
  assert.deepEqual([notices, view().isGiven], [['You may not.'], false]);
  const late = anAnswering({ code: 'response_already_completed', message: 'no' });
  await late.give();
  assert.equal(late.view().late, 'The answer came too late.');
});
