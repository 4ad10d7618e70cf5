import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Answers } from '../../server/antiphon/pages/js/chat/answers.js';
import { FakeRun, aTurn } from './support.mjs';

const NOT_YET = 'This page does not follow the answer yet. Try again in a moment.';
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
  assert.deepEqual([view().isGiven, view().isTaken], [true, true]);
});

test('an answer that the server takes for a repeat of another one is told not to count', async () => {
  const { answers, give } = anAnswering();
  await give();
  const turn = (output) => aTurn({ items: [{ type: 'function_call_output', call_id: 'call_1', output }] });
  assert.equal(answers.view(turn('x'), 'call_1').late, '');
  assert.equal(answers.view(turn('y'), 'call_1').late, 'An earlier answer from this tab counts.');
});

test('an answer to a run that is not followed yet is not swallowed', async () => {
  const { answers, run, give, view } = anAnswering();
  await answers.give(aTurn(), null, { callId: 'call_1', output: 'x' });
  assert.deepEqual([view().isGiven, view().late], [false, NOT_YET]);
  await give();
  assert.deepEqual([run.answers.length, view().late], [1, '']);
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
