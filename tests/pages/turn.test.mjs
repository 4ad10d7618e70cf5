import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerText } from '../../server/antiphon/pages/js/conversation.js';
import { reasoningOf, textOf } from '../../server/antiphon/pages/js/items.js';
import {
  adoptResponse,
  applyEvent,
  isAhead,
  isOver,
  lose,
  refuse,
  rewind,
} from '../../server/antiphon/pages/js/turn.js';
import { aResponse, aTurn, callRun, numbered, textRun } from './support.mjs';

const WORDS = ['Once ', 'upon ', 'a ', 'time ', '🎼', ' there was\n', 'a run.'];
const clone = (event) => structuredClone(event);

test('a run in order becomes its text and ends completed', () => {
  const turn = aTurn();
  for (const event of textRun('resp_1', WORDS)) assert.equal(applyEvent(turn, clone(event)), 'applied');
  assert.equal(answerText(turn), WORDS.join(''));
  assert.equal(turn.status, 'completed');
  assert.equal(turn.responseId, 'resp_1');
});

test('text is there after each delta, before anything is done', () => {
  const turn = aTurn();
  for (const event of textRun('resp_1', WORDS).slice(0, 7)) applyEvent(turn, clone(event));
  assert.equal(answerText(turn), 'Once upon a ');
  assert.equal(turn.status, 'running');
});

test('a replay from any earlier number neither doubles nor loses a character', () => {
  const run = textRun('resp_1', WORDS);
  for (let seen = 1; seen < run.length; seen += 1) {
    for (let from = 0; from <= seen; from += 1) {
      const turn = aTurn();
      for (const event of run.slice(0, seen)) applyEvent(turn, clone(event));
      for (const event of run.slice(from)) applyEvent(turn, clone(event));
      assert.equal(answerText(turn), WORDS.join(''), `seen ${seen}, replayed from ${from}`);
    }
  }
});

test('two lanes that carry the same run interleaved give it once', () => {
  const run = textRun('resp_1', WORDS);
  const turn = aTurn();
  for (const [index, event] of run.entries()) {
    assert.equal(applyEvent(turn, clone(event)), 'applied');
    assert.equal(applyEvent(turn, clone(run[Math.floor(index / 2)])), 'duplicate');
  }
  assert.equal(answerText(turn), WORDS.join(''));
});

test('a missing number is reported and nothing after it is applied', () => {
  const run = textRun('resp_1', WORDS);
  const turn = aTurn();
  for (const event of run.slice(0, 5)) applyEvent(turn, clone(event));
  assert.equal(applyEvent(turn, clone(run[6])), 'gap');
  assert.equal(answerText(turn), 'Once ');
  assert.equal(turn.sequence, 4);
});

test('an event of another response or without a number changes nothing', () => {
  const turn = aTurn({ responseId: 'resp_1' });
  assert.equal(applyEvent(turn, textRun('resp_2', WORDS)[0]), 'foreign');
  assert.equal(applyEvent(turn, { type: 'response.output_text.delta', delta: 'x' }), 'foreign');
  assert.equal(turn.items.length, 0);
});

test('a call is built from its argument deltas, which are never parsed', () => {
  const turn = aTurn();
  const given = '{"id":9007199254740993,"x":1.0}';
  for (const event of callRun('resp_1', 'call_1', 'get_local_time', given).slice(0, 3)) applyEvent(turn, clone(event));
  assert.equal(turn.items[0].arguments, given);
});

test('reasoning summaries, refusals and hosted tools have their places', () => {
  const turn = aTurn();
  const events = numbered([
    { type: 'response.created', response: aResponse('resp_1', 'in_progress') },
    { type: 'response.output_item.added', output_index: 0, item: { id: 'rs_1', type: 'reasoning', summary: [] } },
    {
      type: 'response.reasoning_summary_part.added',
      output_index: 0,
      item_id: 'rs_1',
      summary_index: 0,
      part: { type: 'summary_text', text: '' },
    },
    {
      type: 'response.reasoning_summary_text.delta',
      output_index: 0,
      item_id: 'rs_1',
      summary_index: 0,
      delta: 'Think',
    },
    {
      type: 'response.reasoning_summary_text.delta',
      output_index: 0,
      item_id: 'rs_1',
      summary_index: 1,
      delta: 'harder',
    },
    {
      type: 'response.output_item.added',
      output_index: 1,
      item: { id: 'ws_1', type: 'web_search_call', status: 'in_progress' },
    },
    { type: 'response.web_search_call.searching', output_index: 1, item_id: 'ws_1' },
    { type: 'response.output_item.added', output_index: 2, item: { id: 'msg_1', type: 'message', content: [] } },
    {
      type: 'response.refusal.delta',
      output_index: 2,
      item_id: 'msg_1',
      content_index: 0,
      delta: 'I would rather not.',
    },
    { type: 'response.something.new', output_index: 2, item_id: 'msg_1' },
  ]);
  for (const event of events) assert.equal(applyEvent(turn, event), 'applied');
  assert.equal(reasoningOf(turn.items[0]), 'Think\n\nharder');
  assert.equal(turn.items[1].status, 'searching');
  assert.equal(textOf(turn.items[2]), 'I would rather not.');
});

test('a snapshot makes the turn whole and live events go on from its head', () => {
  const run = textRun('resp_1', WORDS);
  const turn = aTurn({ responseId: 'resp_1', sequence: 4 });
  const partial = { id: 'msg_1', type: 'message', content: [{ type: 'output_text', text: 'Once upon a ' }] };
  adoptResponse(turn, aResponse('resp_1', 'in_progress', [partial]), 6);
  for (const event of run.slice(7)) assert.equal(applyEvent(turn, clone(event)), 'applied');
  assert.equal(answerText(turn), WORDS.join(''));
});

test('a failed run keeps what was read and says why', () => {
  const turn = aTurn();
  const run = textRun('resp_1', WORDS);
  for (const event of run.slice(0, 6)) applyEvent(turn, clone(event));
  const error = { code: 'server_lost', message: 'The server went away.' };
  applyEvent(turn, {
    type: 'response.failed',
    sequence_number: 6,
    response: aResponse('resp_1', 'failed', [], { error }),
  });
  assert.equal(turn.status, 'failed');
  assert.deepEqual(turn.problem, error);
  assert.equal(answerText(turn), 'Once upon ');
});

test('an incomplete event whose response is cancelled is a stop', () => {
  const turn = aTurn({ stopping: true });
  const [created] = textRun('resp_1', WORDS);
  applyEvent(turn, created);
  const response = aResponse('resp_1', 'cancelled', [], { incomplete_details: { reason: 'cancelled' } });
  applyEvent(turn, { type: 'response.incomplete', sequence_number: 1, response });
  assert.equal(turn.status, 'cancelled');
  assert.equal(turn.stopping, false);
});

test('refused and lost turns are over and carry a sentence', () => {
  const refused = aTurn();
  refuse(refused, { type: 'error', status: 404, error: { code: 'model_not_found', message: 'No such model.' } });
  const lost = aTurn({ responseId: 'resp_1' });
  lose(lost, 'Gone.');
  for (const turn of [refused, lost]) assert.ok(isOver(turn));
  assert.deepEqual(refused.problem, { code: 'model_not_found', message: 'No such model.' });
});

test('after a rewind the whole run can be read again', () => {
  const run = textRun('resp_1', WORDS);
  const turn = aTurn();
  for (const event of run.slice(0, 9)) applyEvent(turn, clone(event));
  rewind(turn);
  for (const event of textRun('resp_1', ['another ', 'story'])) applyEvent(turn, clone(event));
  assert.equal(answerText(turn), 'another story');
});

test('the tab that saw the end, or more of the run, is ahead', () => {
  assert.ok(isAhead(aTurn({ sequence: 5 }), aTurn({ sequence: 4 })));
  assert.ok(isAhead(aTurn({ sequence: 3, status: 'completed' }), aTurn({ sequence: 9, status: 'running' })));
  assert.ok(!isAhead(aTurn({ sequence: 9, status: 'running' }), aTurn({ sequence: 3, status: 'completed' })));
  assert.ok(isAhead(aTurn({ status: 'failed', replaced: true }), aTurn({ status: 'failed' })));
});
