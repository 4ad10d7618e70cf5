import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Held } from '../../server/antiphon/pages/js/held.js';
import { FakeConnection, aTurn } from './support.mjs';

const CLOCK = { type: 'function_call', name: 'get_local_time', call_id: 'call_1', arguments: '{}', status: 'completed' };
const QUESTION = { ...CLOCK, name: 'ask_person', arguments: '{"question":"Why?"}' };
const said = (output = 'Because.', callId = 'call_1') => ({ type: 'function_call_output', call_id: callId, output });

function aTab(...items) {
  const connection = new FakeConnection();
  const notices = [];
  const held = new Held(connection, { now: () => 0, onChange: () => {}, onNotice: (message) => notices.push(message) });
  const turn = aTurn({ status: 'running', responseId: 'resp_1', items });
  const waits = (...callIds) => {
    turn.pending = callIds.map((callId) => ({ call_id: callId, eligible: ['conn_me'], deadline: 1 }));
    held.consider(turn);
  };
  const injected = () => connection.sent.map(({ input }) => input[0].output);
  const fails = (code, input = [said()]) =>
    held.onReply({ type: 'response.inject.failed', response_id: 'resp_1', input, error: { code, message: 'So it is.' } });
  return { connection, notices, held, turn, waits, injected, fails };
}

test('a person answers a question once, however often they press', () => {
  const { held, turn, waits, connection } = aTab(QUESTION);
  waits('call_1');
  assert.equal(connection.sent.length, 0);
  for (const _ of [1, 2]) held.answer(turn, said());
  assert.deepEqual(connection.sent, [{ type: 'response.inject', response_id: 'resp_1', input: [said()] }]);
  assert.ok(held.view('call_1').isGiven);
  waits();
  assert.ok(!held.view('call_1').isGiven);
});

test('a tool of the page is answered once, by a tab that is asked', () => {
  const asked = aTab(CLOCK);
  for (const _ of [1, 2]) asked.waits('call_1');
  assert.equal(asked.connection.sent.length, 1);
  const other = aTab(CLOCK);
  other.turn.pending = [{ call_id: 'call_1', eligible: ['conn_of_another'], deadline: 1 }];
  other.held.consider(other.turn);
  assert.equal(other.connection.sent.length, 0);
});

test('a call that is still being written is not answered', () => {
  const { waits, connection } = aTab({ ...CLOCK, status: 'in_progress' });
  waits('call_1');
  assert.equal(connection.sent.length, 0);
});

test('an answer that was never confirmed is sent again on the next connection', () => {
  const { held, turn, waits, injected } = aTab(QUESTION);
  waits('call_1');
  held.answer(turn, said());
  held.onOpen();
  waits('call_1');
  assert.deepEqual(injected(), ['Because.', 'Because.']);
});

test('an answer that was taken just before the connection was lost is not called late', () => {
  const { held, turn, waits } = aTab(QUESTION);
  waits('call_1');
  held.answer(turn, said());
  held.onOpen();
  waits();
  assert.equal(held.view('call_1').late, '');
});

test('an answer given without a connection is sent when there is one', () => {
  const { held, turn, waits, connection, injected } = aTab(QUESTION);
  waits('call_1');
  connection.isOpen = false;
  held.answer(turn, said());
  assert.deepEqual(injected(), []);
  connection.isOpen = true;
  held.onOpen();
  waits('call_1');
  assert.deepEqual(injected(), ['Because.']);
});

test('who was slower is told so beside the question, and nothing alarming', () => {
  for (const code of ['already_resolved', 'response_already_completed', 'unknown_call']) {
    const { held, turn, waits, fails, notices } = aTab(QUESTION);
    waits('call_1');
    held.answer(turn, said());
    fails(code);
    assert.deepEqual(notices, []);
    assert.match(held.view('call_1').late, /faster|late/);
    assert.ok(!held.view('call_1').isGiven);
  }
});

test('an answer given while away, to a call that somebody answered meanwhile, came too late', () => {
  const { held, turn, waits, connection } = aTab(QUESTION);
  waits('call_1');
  connection.isOpen = false;
  held.answer(turn, said());
  waits();
  assert.match(held.view('call_1').late, /faster/);
});

test('an answer that was refused for another reason can be given again', () => {
  const { held, turn, waits, fails, notices, injected } = aTab(QUESTION);
  waits('call_1');
  held.answer(turn, said());
  fails('storage_unavailable');
  assert.deepEqual(notices, ['So it is.']);
  held.answer(turn, said('Now.'));
  assert.deepEqual(injected(), ['Because.', 'Now.']);
});

test('an approval is answered under the id of its request', () => {
  const { held, turn, waits, connection } = aTab({ type: 'mcp_approval_request', id: 'mcpr_1', name: 'pay' });
  waits('mcpr_1');
  const answer = { type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true };
  held.answer(turn, answer);
  assert.deepEqual(connection.sent[0].input, [answer]);
  held.onReply({ type: 'response.inject.failed', input: [answer], error: { code: 'already_resolved' } });
  assert.match(held.view('mcpr_1').late, /faster/);
});
