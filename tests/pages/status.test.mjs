import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addTurn, newConversation } from '../../server/antiphon/pages/js/conversation.js';
import { activityWords, connectionWords, outcomeWords } from '../../server/antiphon/pages/js/status.js';
import { aTurn } from './support.mjs';

function says(fields, isConnected = true) {
  const conversation = newConversation('c1', 'm', 0);
  addTurn(conversation, aTurn(fields));
  return activityWords(conversation, isConnected)?.text ?? null;
}

test('the connection is described, with a countdown while it waits', () => {
  const state = (phase, retryAt = null) => connectionWords({ phase, retryAt, reason: null }, true, 1_000).text;
  assert.equal(state('open'), 'Connected');
  assert.equal(state('connecting'), 'Connecting…');
  assert.equal(state('waiting', 5_200), 'Reconnecting in 5 s');
  assert.equal(state('waiting', 900), 'Reconnecting in 1 s');
  assert.equal(state('locked'), 'Key needed');
  assert.equal(connectionWords({ phase: 'waiting', retryAt: 9, reason: null }, false, 0).text, 'Offline');
});

test('what is going on has a word at every stage', () => {
  const running = { status: 'running', responseId: 'resp_1' };
  assert.equal(says({}), 'Sending…');
  assert.equal(says({}, false), 'Waiting for the connection…');
  assert.equal(says(running), 'Thinking…');
  assert.equal(says({ ...running, items: [{ type: 'reasoning' }] }), 'Thinking…');
  assert.equal(says({ ...running, items: [{ type: 'message' }] }), 'Writing…');
  assert.equal(says({ ...running, items: [{ type: 'function_call', name: 'search' }] }), 'Calling search…');
  assert.equal(says({ ...running, waiting: true }), 'Waiting for a tool…');
  assert.equal(says({ ...running, stopping: true }), 'Stopping…');
  assert.equal(says({ status: 'completed' }), null);
  const items = [{ type: 'function_call', name: 'ask_person', call_id: 'c', arguments: '{}', status: 'completed' }];
  assert.equal(says({ ...running, waiting: true, items, pending: [{ call_id: 'c' }] }), 'Waiting for your answer');
  assert.equal(says({ status: 'cancelled' }), 'Stopped');
});

test('an end that is not a plain answer is explained', () => {
  assert.equal(outcomeWords(aTurn({ status: 'completed' })), null);
  assert.deepEqual(outcomeWords(aTurn({ status: 'cancelled' })), {
    tone: 'quiet',
    text: 'This answer was stopped.',
    code: null,
  });
  assert.equal(outcomeWords(aTurn({ status: 'incomplete', reason: 'max_output_tokens' })).code, null);
  assert.equal(outcomeWords(aTurn({ status: 'incomplete', reason: 'budget' })).code, 'budget');
  assert.deepEqual(outcomeWords(aTurn({ status: 'failed', problem: { code: 'x', message: 'Why.' } })), {
    tone: 'bad',
    text: 'Why.',
    code: 'x',
  });
});
