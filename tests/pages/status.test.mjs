import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activityWords, outcomeWords } from '../../server/antiphon/pages/js/chat/status.js';
import { connectionWords } from '../../server/antiphon/pages/js/shared/status_line.js';
import { aTurn } from './support.mjs';

const says = (fields, isConnected = true) => activityWords(aTurn(fields), isConnected)?.text ?? null;

test('the connection is described as it is, whatever bars the way', () => {
  const words = (status, barred = null, isOnline = true) => connectionWords(status, barred, isOnline).text;
  assert.equal(words('open'), 'Connected');
  assert.equal(words('connecting'), 'Connecting…');
  assert.equal(words('reconnecting'), 'Reconnecting…');
  assert.equal(words('reconnecting', null, false), 'Offline');
  assert.equal(words('fallback'), 'Connected without a socket');
  assert.equal(words('closed', 'locked'), 'Key needed');
  assert.equal(words('closed', 'refused'), 'Not connected');
});

test('what is going on has a word at every stage', () => {
  const running = { status: 'running', runId: 'resp_1' };
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

test('a problem says what can be done about it, and a stop by somebody else is theirs', () => {
  const words = (fields) => outcomeWords(aTurn(fields)).text;
  const problem = { code: 'model_not_found', message: 'No such model.' };
  assert.equal(words({ status: 'refused', problem }), 'No such model. Choose another model above.');
  const stopped = { status: 'cancelled', author: 'user:anna' };
  assert.equal(words({ ...stopped, stoppedBy: 'user:anna' }), 'This answer was stopped.');
  assert.equal(words({ ...stopped, stoppedBy: 'key:bob' }), 'This answer was stopped by bob.');
  assert.equal(words({ ...stopped, stoppedBy: 'system:stopped' }), 'The server stopped this answer.');
});
