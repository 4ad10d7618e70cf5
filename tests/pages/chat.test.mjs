import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Chat } from '../../server/antiphon/pages/js/chat.js';
import { answerText, lastTurn, liveTurns } from '../../server/antiphon/pages/js/conversation.js';
import { Runs } from '../../server/antiphon/pages/js/runs.js';
import { Storage, memoryArea } from '../../server/antiphon/pages/js/storage.js';
import { Clock, FakeConnection, aResponse, callRun, heldRun, textRun, waitingFor } from './support.mjs';

/** A tab of a browser; tabs of one browser share the area. */
function aTab({ me = 'tab1', area = memoryArea(), clock = new Clock() } = {}) {
  const connection = new FakeConnection();
  const storage = new Storage(area);
  let ids = 0;
  const runs = new Runs(connection, {
    onChange: (turn, important) => chat.onTurn(turn, important),
    onNotice: assert.fail,
    fetchResponse: async () => ({ response: null, status: 404 }),
    later: clock.setTimeout,
    now: clock.now,
  });
  const chat = new Chat(storage, runs, {
    me,
    now: clock.now,
    newId: () => `${me}-${(ids += 1)}`,
    later: clock.setTimeout,
    onChange: () => {},
    onList: () => {},
  });
  chat.startNew('antiphon/demo');
  const play = (events, lane = 'page.1') =>
    events.forEach((event) => runs.onFrame({ ...structuredClone(event), stream_id: lane }));
  const creates = () => connection.sent.filter(({ type }) => type === 'response.create');
  return { chat, runs, connection, clock, area, storage, play, creates };
}

test('a call of a page tool is answered in the same run, and the answer ends it', () => {
  const { chat, connection, runs, play, creates } = aTab();
  chat.send('What time is it?');
  const run = heldRun('resp_1', 'call_1', { output: '{}', words: ['It is noon.'] });
  play(run.slice(0, 4));
  runs.onFrame(waitingFor('resp_1', ['call_1']));
  assert.equal(connection.count('response.inject'), 0, 'the call is not complete yet');
  play(run.slice(4, 5));
  const [inject] = connection.sent.filter(({ type }) => type === 'response.inject');
  assert.equal(inject.response_id, 'resp_1');
  assert.equal(inject.input[0].call_id, 'call_1');
  assert.ok(JSON.parse(inject.input[0].output).timezone);
  runs.onFrame(waitingFor('resp_1', []));
  play(run.slice(5));
  assert.equal(connection.count('response.inject'), 1);
  assert.equal(creates().length, 1);
  assert.equal(answerText(lastTurn(chat.current)), 'It is noon.');
});

test('what the run waits for is not taken from another tab', () => {
  const area = memoryArea();
  const first = aTab({ area });
  const run = callRun('resp_1', 'call_1', 'ask_person', '{"question":"Why?"}');
  first.chat.send('Ask me.');
  first.play(run.slice(0, 3));
  first.runs.onFrame(waitingFor('resp_1', ['call_1']));
  first.chat.flush();
  const second = aTab({ area, me: 'tab2' });
  second.chat.open(first.chat.current.id);
  const attach = second.connection.last('antiphon:attach');
  const state = { state: 'running', pending_calls: [] };
  second.runs.onFrame({ type: 'antiphon:attached', id: attach.id, stream_id: 'att.1', mode: 'live', epoch: 'e1', state });
  first.play(run.slice(3, 5));
  const turn = structuredClone(lastTurn(first.chat.current));
  second.chat.onStored({ kind: 'turn', id: first.chat.current.id, turn });
  assert.deepEqual(lastTurn(second.chat.current).pending, []);
  assert.equal(lastTurn(second.chat.current).sequence, 4);
});

test('a reload in the middle goes on with the same answer from where it was stored', () => {
  const area = memoryArea();
  const before = aTab({ area });
  const run = textRun('resp_1', ['one ', 'two ', 'three']);
  before.chat.send('Count.');
  before.play(run.slice(0, 6));
  before.chat.flush();
  const after = aTab({ area });
  assert.ok(after.chat.open(before.chat.current.id));
  assert.equal(answerText(lastTurn(after.chat.current)), 'one two ');
  const attach = after.connection.last('antiphon:attach');
  assert.equal(attach.after, 5);
  after.runs.onFrame({ type: 'antiphon:attached', id: attach.id, stream_id: 'att.1', mode: 'replay', epoch: 'e1' });
  after.play(run.slice(6), 'att.1');
  assert.equal(answerText(lastTurn(after.chat.current)), 'one two three');
  assert.equal(after.creates().length, 0);
});

test('a reload before the answer began sends the same create again', () => {
  const area = memoryArea();
  const before = aTab({ area });
  before.chat.send('Hello?');
  const after = aTab({ area });
  after.chat.open(before.chat.current.id);
  assert.deepEqual(after.creates(), before.creates());
});

test('what another tab asks appears here and is followed as soon as it has a run', () => {
  const area = memoryArea();
  const first = aTab({ area });
  first.chat.send('One.');
  first.play(textRun('resp_1', ['1']));
  const second = aTab({ area, me: 'tab2' });
  second.chat.open(first.chat.current.id);
  const tell = () =>
    second.chat.onStored({
      kind: 'turn',
      id: first.chat.current.id,
      turn: structuredClone(lastTurn(first.chat.current)),
    });
  first.chat.send('Two.');
  tell();
  assert.equal(liveTurns(second.chat.current).length, 2);
  assert.equal(second.connection.sent.length, 0);
  first.play(textRun('resp_2', ['2']).slice(0, 2));
  tell();
  assert.equal(second.connection.last('antiphon:attach').response_id, 'resp_2');
});

test('a retry asks the same again under a new key and replaces the failed turn', () => {
  const { chat, play, creates, runs } = aTab();
  chat.send('Hello?');
  play(textRun('resp_1', ['Hi.']));
  chat.send('And?');
  runs.onFrame({
    type: 'error',
    status: 503,
    stream_id: 'page.1',
    error: { code: 'storage_unavailable', message: 'Later.' },
  });
  chat.retry(lastTurn(chat.current));
  const [, failed, again] = creates();
  assert.deepEqual([again.input, again.previous_response_id], [failed.input, 'resp_1']);
  assert.notEqual(again.idempotency_key, failed.idempotency_key);
  assert.equal(liveTurns(chat.current).length, 2);
});

test('a call that an early end left open is closed by the next question', () => {
  const { chat, play, creates } = aTab();
  chat.send('What time is it?');
  const run = callRun('resp_1', 'call_1');
  const [{ item }] = run.slice(-2);
  const end = { type: 'response.incomplete', response: aResponse('resp_1', 'incomplete', [item]), sequence_number: 5 };
  play([...run.slice(0, -1), end]);
  chat.send('Never mind.');
  const { input, previous_response_id } = creates().at(-1);
  assert.equal(previous_response_id, 'resp_1');
  assert.deepEqual(
    input.map(({ type }) => type),
    ['function_call_output', 'message'],
  );
});

test('a lost history goes along when the conversation continues elsewhere', () => {
  const { chat, runs, play, creates } = aTab();
  chat.send('Remember 7.');
  play(textRun('resp_1', ['Noted.']));
  chat.send('Which number?');
  const old = chat.current.id;
  runs.onFrame({
    type: 'error',
    status: 400,
    stream_id: 'page.1',
    error: { code: 'previous_response_not_found', message: 'Gone.' },
  });
  chat.continueElsewhere(lastTurn(chat.current));
  const { input, previous_response_id } = creates().at(-1);
  assert.notEqual(chat.current.id, old);
  assert.equal(previous_response_id, undefined);
  assert.deepEqual(
    input.map(({ content }) => content),
    ['Remember 7.', 'Noted.', 'Which number?'],
  );
});

test('a conversation deleted in one tab is not brought back by another', () => {
  const area = memoryArea();
  const first = aTab({ area });
  first.chat.send('Hello?');
  const { id } = first.chat.current;
  const second = aTab({ area, me: 'tab2' });
  second.chat.open(id);
  first.chat.remove(id);
  second.chat.onStored({ kind: 'head', id, head: null });
  second.chat.flush();
  assert.equal(area.length, 0);
  assert.notEqual(second.chat.current.id, id);
});
