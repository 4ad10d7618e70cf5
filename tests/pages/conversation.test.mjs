import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addTurn,
  isBusy,
  lastTurn,
  newConversation,
  openCalls,
  openQuestions,
  parentTurn,
  resultsByCall,
  titleFrom,
  transcript,
} from '../../server/antiphon/pages/js/conversation.js';
import { applyEvent } from '../../server/antiphon/pages/js/turn.js';
import { aTurn, callRun, textRun } from './support.mjs';

function conversationOf(...turns) {
  const conversation = newConversation('c1', 'antiphon/demo', 0);
  for (const turn of turns) addTurn(conversation, turn);
  return conversation;
}

function played(events, fields) {
  const turn = aTurn(fields);
  for (const event of events) applyEvent(turn, structuredClone(event));
  return turn;
}

const result = (callId, output) => [{ type: 'function_call_output', call_id: callId, output }];

test('a conversation is named after its first question', () => {
  assert.equal(conversationOf(aTurn()).title, 'Hello?');
  assert.equal(titleFrom('  two\nlines '), 'two lines');
  assert.equal([...titleFrom('🎼'.repeat(100))].length, 60);
});

test('the same turn is added once, and turns stay in the order they were asked', () => {
  const first = aTurn();
  const second = aTurn();
  assert.deepEqual(conversationOf(second, first, second).turns, [first, second]);
});

test('the next turn continues the last one that became history', () => {
  const good = played(textRun('resp_1', ['hi']));
  const stopped = aTurn({ status: 'cancelled', responseId: 'resp_2' });
  const failed = aTurn({ status: 'failed', responseId: 'resp_3' });
  assert.equal(parentTurn(conversationOf(good, failed)), good);
  assert.equal(parentTurn(conversationOf(good, stopped, failed)), stopped);
  assert.equal(parentTurn(conversationOf(aTurn({ status: 'refused' }))), undefined);
});

test('a turn that a retry replaced is neither shown nor continued', () => {
  const replaced = aTurn({ status: 'failed', replaced: true });
  const good = played(textRun('resp_1', ['hi']));
  const conversation = conversationOf(good, replaced);
  assert.equal(lastTurn(conversation), good);
  assert.equal(isBusy(conversation), false);
});

test('calls without an output are open, and results are found wherever they were given', () => {
  const asked = played(callRun('resp_1', 'call_1'));
  const held = aTurn({
    status: 'completed',
    items: [
      { type: 'function_call', call_id: 'call_2', name: 'x' },
      { type: 'function_call_output', call_id: 'call_2', output: 'by another client' },
    ],
  });
  const answered = aTurn({ input: result('call_1', 'noon') });
  const conversation = conversationOf(asked, held, answered);
  assert.deepEqual(
    openCalls(asked).map(({ call_id }) => call_id),
    ['call_1'],
  );
  assert.deepEqual(openCalls(held), []);
  assert.deepEqual(Object.fromEntries(resultsByCall(conversation)), { call_1: 'noon', call_2: 'by another client' });
});

test('a stopped turn leaves no call to answer, an early end only those that were written out', () => {
  const items = [
    { type: 'function_call', call_id: 'call_1', status: 'completed' },
    { type: 'function_call', call_id: 'call_2', status: 'incomplete' },
  ];
  const open = (status) => openCalls(aTurn({ status, items })).map(({ call_id }) => call_id);
  assert.deepEqual([open('cancelled'), open('failed'), open('incomplete')], [[], [], ['call_1']]);
});

test('what a run asks a person are its waiting questions and approvals, not the calls of other tools', () => {
  const question = { type: 'function_call', name: 'ask_person', call_id: 'call_1', arguments: '{"question":"Why?"}', status: 'completed' };
  const items = [
    question,
    { ...question, call_id: 'call_2' },
    { ...question, call_id: 'call_4', status: 'in_progress', arguments: '' },
    { type: 'function_call', name: 'get_local_time', call_id: 'call_3' },
    { type: 'mcp_approval_request', id: 'mcpr_1', name: 'pay' },
  ];
  const pending = ['call_1', 'call_3', 'call_4', 'mcpr_1'].map((call_id) => ({ call_id }));
  assert.deepEqual(openQuestions(aTurn({ items, pending })), [
    { id: 'call_1', words: 'Why?' },
    { id: 'mcpr_1', words: 'May pay be called?' },
  ]);
});

test('a transcript carries what was said and leaves out what was refused', () => {
  const good = played(textRun('resp_1', ['Good ', 'day']));
  const refused = aTurn({ status: 'refused' });
  assert.deepEqual(transcript(conversationOf(good, refused)), [
    { type: 'message', role: 'user', content: 'Hello?' },
    { type: 'message', role: 'assistant', content: 'Good day' },
  ]);
});
