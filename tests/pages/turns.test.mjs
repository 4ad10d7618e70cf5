import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  describe,
  notAskedAgain,
  openCalls,
  openQuestions,
  parentOf,
  recall,
  resultsByCall,
  sendable,
  show,
  takeInput,
  titleFrom,
  transcript,
} from '../../server/antiphon/pages/js/chat/turns.js';
import { aResponse, aState, aTurn, asking, message } from './support.mjs';

test('of what a create brought, the last messages of people are the question', () => {
  const turn = aTurn();
  takeInput(turn, [
    { type: 'function_call_output', call_id: 'call_1', output: 'noon' },
    { type: 'message', role: 'user', content: 'long ago' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'indeed' }] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'one' }] },
    { type: 'message', role: 'user', content: 'two' },
  ]);
  assert.deepEqual([turn.asked, turn.carried], ['one\n\ntwo', 2]);
});

test('a run fills its turn and ends it, and a failure keeps what was read', () => {
  const turn = aTurn();
  describe(turn, aState('resp_1', { pending_calls: [{ call_id: 'call_1' }], state: 'waiting_for_tool' }));
  assert.deepEqual([turn.author, turn.status, turn.waiting], ['user:local', 'running', true]);
  show(turn, aResponse('resp_1', 'in_progress', [message('half')]));
  show(turn, aResponse('resp_1', 'failed', [], { error: { code: 'server_lost', message: 'Gone.' } }));
  assert.deepEqual([turn.status, turn.pending, turn.items.length], ['failed', [], 1]);
  assert.deepEqual(turn.problem, { code: 'server_lost', message: 'Gone.' });
  describe(turn, aState('resp_1', { pending_calls: [{ call_id: 'call_1' }] }));
  assert.deepEqual([turn.status, turn.pending], ['failed', []], 'a late state does not bring it back');
});

test('a turn of the history is as it ended, also where its response is gone', () => {
  const whole = aTurn();
  recall(whole, {
    state: aState('resp_1'),
    input: asking('Why?'),
    response: aResponse('resp_1', 'completed', [message('So.')]),
  });
  assert.deepEqual([whole.runId, whole.asked, whole.status], ['resp_1', 'Why?', 'completed']);
  const gone = aTurn();
  recall(gone, {
    state: aState('resp_2', { terminal: { status: 'cancelled', by: 'user:bob' } }),
    input: [],
    response: null,
  });
  assert.deepEqual([gone.status, gone.stoppedBy], ['cancelled', 'user:bob']);
});

test('what was asked again is kept once, unless it was answered or continued', () => {
  const parent = { previousResponseId: 'resp_0' };
  const failed = aTurn({ ...parent, status: 'failed' });
  const again = aTurn({ ...parent, status: 'completed' });
  const other = aTurn({ ...parent, status: 'failed', input: asking('Else?') });
  assert.deepEqual(notAskedAgain([other, again, failed]), [again, other]);
  assert.deepEqual(notAskedAgain([failed]), [failed]);
  const twice = [aTurn({ ...parent, status: 'completed' }), aTurn({ ...parent, status: 'completed' })];
  assert.deepEqual(notAskedAgain(twice), twice);
  const stopped = aTurn({ ...parent, runId: 'resp_1', status: 'cancelled' });
  const next = [
    aTurn({ ...parent, status: 'completed' }),
    aTurn({ previousResponseId: 'resp_1', status: 'completed' }),
  ];
  assert.deepEqual(notAskedAgain([stopped, ...next]), [stopped, ...next]);
});

test('the next turn continues the last one that became history', () => {
  const good = aTurn({ status: 'completed', runId: 'resp_1' });
  const stopped = aTurn({ status: 'cancelled', runId: 'resp_2' });
  const failed = aTurn({ status: 'failed', runId: 'resp_3' });
  assert.equal(parentOf([good, failed]), good);
  assert.equal(parentOf([good, stopped, failed]), stopped);
  assert.equal(parentOf([aTurn({ status: 'refused' })]), undefined);
});

test('calls without an output are open, and results are found wherever they were given', () => {
  const call = (id, status = 'completed') => ({ type: 'function_call', call_id: id, name: 'x', status });
  const output = (id, text) => ({ type: 'function_call_output', call_id: id, output: text });
  const asked = aTurn({ status: 'completed', items: [call('call_1')] });
  const held = aTurn({ status: 'completed', items: [call('call_2'), output('call_2', 'elsewhere')] });
  const answered = aTurn({ input: [output('call_1', 'noon')] });
  assert.deepEqual(
    openCalls(asked).map((item) => item.call_id),
    ['call_1'],
  );
  assert.deepEqual(openCalls(held), []);
  assert.deepEqual(Object.fromEntries(resultsByCall([asked, held, answered])), { call_1: 'noon', call_2: 'elsewhere' });
  const items = [call('call_3'), call('call_4', 'incomplete')];
  const open = (status) => openCalls(aTurn({ status, items })).map((item) => item.call_id);
  assert.deepEqual([open('cancelled'), open('failed'), open('incomplete')], [[], [], ['call_3']]);
});

test('what a run asks a person are its waiting questions, texts and approvals, not the calls of other tools', () => {
  const question = {
    type: 'function_call',
    name: 'ask_person',
    call_id: 'call_1',
    arguments: '{"question":"Why?"}',
    status: 'completed',
  };
  const items = [
    question,
    { ...question, call_id: 'call_2' },
    { ...question, call_id: 'call_4', status: 'in_progress', arguments: '' },
    { type: 'function_call', name: 'get_local_time', call_id: 'call_3', status: 'completed' },
    { ...question, name: 'read_selection', call_id: 'call_5', arguments: '{}' },
    { type: 'mcp_approval_request', id: 'mcpr_1', name: 'pay' },
  ];
  const pending = ['call_1', 'call_3', 'call_4', 'call_5', 'mcpr_1'].map((call_id) => ({ call_id }));
  assert.deepEqual(openQuestions(aTurn({ items, pending })), [
    { id: 'call_1', words: 'Why?' },
    { id: 'call_5', words: 'May I read a text that you select or paste?' },
    { id: 'mcpr_1', words: 'May pay be called?' },
  ]);
});

test('a transcript carries what was said and leaves out what was refused', () => {
  const good = aTurn({ status: 'completed', runId: 'resp_1', items: [message('Good day')] });
  assert.deepEqual(transcript([good, aTurn({ status: 'refused' })]), [
    { type: 'message', role: 'user', content: 'Hello?' },
    { type: 'message', role: 'assistant', content: 'Good day' },
  ]);
});

test('what is sent again has no names of the first time', () => {
  assert.deepEqual(
    sendable([{ id: 'msg_1', type: 'message', role: 'user', status: 'completed', content: 'x' }]),
    asking('x'),
  );
});

test('a title is one line of a few characters', () => {
  assert.equal(titleFrom('  two\nlines '), 'two lines');
  assert.equal(titleFrom('# *Notes* on `x_y`\n[this](https://e.example/)'), 'Notes on x_y this');
  assert.equal(titleFrom('***'), '***');
  assert.equal(titleFrom('[x](javascript:alert(1))'), 'x');
  assert.equal(titleFrom('see ![a (good) one](https://e.example/a_(b).png), [x]'), 'see a (good) one, [x]');
  assert.equal(titleFrom('['.repeat(1_000_000)).length, 60, 'and not after minutes');
  assert.equal([...titleFrom('🎼'.repeat(100))].length, 60);
});
