import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Chat } from '../../server/antiphon/pages/js/chat.js';
import { answerText, lastTurn, liveTurns } from '../../server/antiphon/pages/js/conversation.js';
import { Runs } from '../../server/antiphon/pages/js/runs.js';
import { Storage, memoryArea } from '../../server/antiphon/pages/js/storage.js';
import { Clock, FakeConnection, callRun, textRun } from './support.mjs';

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

test('a call of a page tool is answered by the next create, and the answer ends the round', () => {
  const { chat, play, creates } = aTab();
  chat.send('What time is it?');
  play(callRun('resp_1', 'call_1'));
  const [, second] = creates();
  assert.equal(second.previous_response_id, 'resp_1');
  assert.equal(second.input[0].type, 'function_call_output');
  assert.equal(second.input[0].call_id, 'call_1');
  play(textRun('resp_2', ['It is noon.']));
  assert.equal(creates().length, 2);
  assert.equal(answerText(lastTurn(chat.current)), 'It is noon.');
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

test('a reload between a call and its result answers the call once', () => {
  const area = memoryArea();
  const before = aTab({ area });
  before.chat.send('What time is it?');
  before.play(callRun('resp_1', 'call_1').slice(0, -1));
  before.chat.flush();
  const after = aTab({ area });
  after.chat.open(before.chat.current.id);
  const attach = after.connection.last('antiphon:attach');
  after.runs.onFrame({ type: 'antiphon:attached', id: attach.id, stream_id: 'att.1', mode: 'replay', epoch: 'e1' });
  after.play(callRun('resp_1', 'call_1').slice(-1), 'att.1');
  assert.deepEqual(
    after.creates().map(({ input }) => input[0].call_id),
    ['call_1'],
  );
});

test('a second tab leaves the answer of a call to the tab that asked, unless that one is gone', () => {
  const area = memoryArea();
  const clock = new Clock();
  const first = aTab({ area, clock });
  first.chat.send('What time is it?');
  first.play(callRun('resp_1', 'call_1').slice(0, -1));
  first.chat.flush();
  const second = aTab({ area, clock, me: 'tab2' });
  second.chat.open(first.chat.current.id);
  const attach = second.connection.last('antiphon:attach');
  second.runs.onFrame({ type: 'antiphon:attached', id: attach.id, stream_id: 'att.1', mode: 'replay', epoch: 'e1' });
  second.play(callRun('resp_1', 'call_1').slice(-1), 'att.1');
  assert.equal(second.creates().length, 0);
  clock.pass(3_000);
  assert.equal(second.creates().length, 1);
});

test('while a call waits for another tab a person can stop, and then it is not answered here', () => {
  const area = memoryArea();
  const clock = new Clock();
  const first = aTab({ area, clock });
  first.chat.send('What time is it?');
  first.play(callRun('resp_1', 'call_1').slice(0, -1));
  first.chat.flush();
  const second = aTab({ area, clock, me: 'tab2' });
  second.chat.open(first.chat.current.id);
  const attach = second.connection.last('antiphon:attach');
  second.runs.onFrame({ type: 'antiphon:attached', id: attach.id, stream_id: 'att.1', mode: 'replay', epoch: 'e1' });
  second.play(callRun('resp_1', 'call_1').slice(-1), 'att.1');
  assert.ok(second.chat.isBusy(second.chat.current));
  second.chat.stop();
  assert.ok(!second.chat.isBusy(second.chat.current));
  clock.pass(3_000);
  assert.equal(second.creates().length, 0);
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

test('a call that was left open is closed by the next question', () => {
  const { chat, runs, play, creates } = aTab();
  chat.send('What time is it?');
  play(callRun('resp_1', 'call_1'));
  runs.onFrame({
    type: 'error',
    status: 503,
    stream_id: 'page.1',
    error: { code: 'storage_unavailable', message: 'Later.' },
  });
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

test('a model that calls without end is paused after eight rounds and goes on when told', () => {
  const { chat, play, creates } = aTab();
  chat.send('Loop.');
  for (let round = 0; creates().length === round + 1; round += 1) play(callRun(`resp_${round}`, `call_${round}`));
  assert.equal(creates().length, 9);
  assert.ok(chat.isPaused(chat.current));
  assert.ok(!chat.isBusy(chat.current), 'a person may write instead');
  chat.answerCalls(lastTurn(chat.current));
  assert.equal(creates().length, 10);
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
