import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerText } from '../../server/antiphon/pages/js/conversation.js';
import { Runs } from '../../server/antiphon/pages/js/runs.js';
import { Clock, FakeConnection, aResponse, aTurn, textRun } from './support.mjs';

const WORDS = ['one ', 'two ', 'three ', 'four'];

function aPage({ fetchResponse = async () => ({ response: null, status: 404 }) } = {}) {
  const connection = new FakeConnection();
  const clock = new Clock();
  const notices = [];
  const changes = [];
  const runs = new Runs(connection, {
    onChange: (turn, important) => changes.push({ turn, important }),
    onNotice: (message) => notices.push(message),
    fetchResponse,
    later: clock.setTimeout,
    now: clock.now,
  });
  /** Sends a question and plays the first events of the answer. */
  const begin = (events) => {
    const turn = aTurn();
    runs.follow(turn);
    const lane = connection.last('response.create').stream_id;
    play(events, lane);
    return { turn, lane };
  };
  const play = (events, lane) =>
    events.forEach((event) => runs.onFrame({ ...structuredClone(event), stream_id: lane }));
  const attached = (fields) =>
    runs.onFrame({
      type: 'antiphon:attached',
      id: connection.last('antiphon:attach').id,
      stream_id: 'att.1',
      epoch: 'e1',
      mode: 'replay',
      ...fields,
    });
  /** The network is gone and back. */
  const reconnect = () => {
    connection.isOpen = true;
    runs.onOpen();
  };
  return { connection, clock, runs, notices, changes, begin, play, attached, reconnect };
}

test('a create names a lane, its key, its parent and asks to be stored', () => {
  const { runs, connection } = aPage();
  const turn = aTurn({ previousResponseId: 'resp_0' });
  runs.follow(turn);
  const { type, stream_id, idempotency_key, previous_response_id, store, input, tools } = connection.sent[0];
  assert.deepEqual(
    [type, stream_id, idempotency_key, previous_response_id, store],
    ['response.create', 'page.1', turn.key, 'resp_0', true],
  );
  assert.deepEqual(input, turn.input);
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['get_local_time', 'ask_person'],
  );
  assert.equal(connection.sent[0].antiphon.client_tools, 'hold');
});

test('a turn that is asked without a connection is sent when there is one', () => {
  const { runs, connection, reconnect } = aPage();
  connection.isOpen = false;
  runs.follow(aTurn());
  assert.equal(connection.sent.length, 0);
  reconnect();
  assert.equal(connection.count('response.create'), 1);
});

test('a create that nobody answered is sent again with the same key', () => {
  const { begin, connection, reconnect } = aPage();
  const { turn } = begin([]);
  reconnect();
  assert.deepEqual(
    connection.sent.map(({ idempotency_key }) => idempotency_key),
    [turn.key, turn.key],
  );
});

test('after a drop the run is attached where it was left and ends as if nothing had happened', () => {
  const run = textRun('resp_1', WORDS);
  for (let seen = 1; seen < run.length; seen += 1) {
    const { begin, connection, reconnect, attached, play } = aPage();
    const { turn } = begin(run.slice(0, seen));
    reconnect();
    const attach = connection.last('antiphon:attach');
    assert.deepEqual([attach.response_id, attach.after], ['resp_1', seen - 1]);
    attached({ head: run.length - 1 });
    play(run.slice(seen), 'att.1');
    assert.equal(answerText(turn), WORDS.join(''));
    assert.equal(turn.status, 'completed');
  }
});

test('the epoch comes from the state of the run and goes into the next attach', () => {
  const { begin, runs, connection, reconnect } = aPage();
  const { turn } = begin(textRun('resp_1', WORDS).slice(0, 3));
  runs.onFrame({ type: 'antiphon:run', state: { response_id: 'resp_1', epoch: 'e7', state: 'waiting_for_tool' } });
  assert.equal(turn.waiting, true);
  reconnect();
  assert.equal(connection.last('antiphon:attach').epoch, 'e7');
});

test('a changed epoch is answered by reading the run again from the start', () => {
  const { begin, runs, connection, reconnect, attached, play } = aPage();
  const { turn } = begin(textRun('resp_1', WORDS).slice(0, 6));
  reconnect();
  runs.onFrame({
    type: 'antiphon:error',
    id: connection.last('antiphon:attach').id,
    code: 'epoch_changed',
    message: '',
    epoch: 'e2',
    fork: 3,
  });
  const attach = connection.last('antiphon:attach');
  assert.equal(attach.after, 'start');
  assert.equal('epoch' in attach, false);
  attached({ epoch: 'e2' });
  play(textRun('resp_1', ['another ', 'text']), 'att.1');
  assert.equal(answerText(turn), 'another text');
  assert.equal(turn.epoch, 'e2');
});

test('a gap is filled by one attach, whose replay closes it', () => {
  const run = textRun('resp_1', WORDS);
  const { begin, connection, attached, play, lane = 'page.1' } = aPage();
  const { turn } = begin(run.slice(0, 5));
  play(run.slice(6, 8), lane);
  assert.equal(connection.count('antiphon:attach'), 1);
  attached({});
  play(run.slice(5), 'att.1');
  assert.equal(answerText(turn), WORDS.join(''));
});

test('a run that ended meanwhile is taken whole', () => {
  const { begin, reconnect, attached, runs } = aPage();
  const { turn } = begin(textRun('resp_1', WORDS).slice(0, 6));
  reconnect();
  attached({ mode: 'ended', head: 11, response: textRun('resp_1', WORDS).at(-1).response });
  assert.equal(answerText(turn), WORDS.join(''));
  assert.equal(runs.isBusy, false);
});

test('stop is sent when the id is known, and again on the next connection', () => {
  const { begin, runs, connection, play, reconnect } = aPage();
  const run = textRun('resp_1', WORDS);
  const { turn, lane } = begin([]);
  runs.stop(turn);
  assert.equal(connection.count('antiphon:cancel'), 0);
  play(run.slice(0, 1), lane);
  assert.equal(connection.last('antiphon:cancel').response_id, 'resp_1');
  reconnect();
  assert.equal(connection.count('antiphon:cancel'), 2);
});

test('a question that was never sent is stopped without a server', () => {
  const { runs, connection, reconnect } = aPage();
  connection.isOpen = false;
  const turn = aTurn();
  runs.follow(turn);
  runs.stop(turn);
  assert.equal(turn.status, 'cancelled');
  reconnect();
  assert.equal(connection.sent.length, 0);
});

test('an error on the lane refuses the turn and frees the lane', () => {
  const { begin, runs, connection } = aPage();
  const { turn, lane } = begin([]);
  runs.onFrame({
    type: 'error',
    status: 404,
    stream_id: lane,
    error: { code: 'model_not_found', message: 'No model x.' },
  });
  assert.equal(turn.status, 'refused');
  runs.follow(aTurn());
  assert.equal(connection.last('response.create').stream_id, lane);
});

test('a refusal that concerns the connection moves the create to the next one', () => {
  for (const [code, renewed] of [
    ['websocket_connection_limit_reached', 1],
    ['server_draining', 0],
  ]) {
    const { begin, runs, connection, reconnect } = aPage();
    const { turn, lane } = begin([]);
    runs.onFrame({ type: 'error', status: 400, stream_id: lane, error: { code, message: '' } });
    assert.equal(turn.status, 'sending');
    assert.equal(connection.renewed, renewed);
    reconnect();
    assert.equal(connection.last('response.create').idempotency_key, turn.key);
  }
});

test('a run that cannot be attached to is read over HTTP', async () => {
  const response = textRun('resp_1', WORDS).at(-1).response;
  const { begin, runs, connection, reconnect } = aPage({ fetchResponse: async () => ({ response, status: 200 }) });
  const { turn } = begin(textRun('resp_1', WORDS).slice(0, 6));
  reconnect();
  runs.onFrame({
    type: 'antiphon:error',
    id: connection.last('antiphon:attach').id,
    code: 'cursor_expired',
    message: '',
  });
  await new Promise(setImmediate);
  assert.equal(answerText(turn), WORDS.join(''));
});

test('an answer that the server no longer has is lost aloud and keeps its text', async () => {
  const { begin, runs, connection, reconnect } = aPage();
  const { turn } = begin(textRun('resp_1', WORDS).slice(0, 6));
  reconnect();
  runs.onFrame({
    type: 'antiphon:error',
    id: connection.last('antiphon:attach').id,
    code: 'response_not_found',
    message: '',
  });
  await new Promise(setImmediate);
  assert.equal(turn.status, 'lost');
  assert.equal(answerText(turn), 'one two ');
});

test('an answer can end over HTTP while there is no socket, and one in progress is left alone', async () => {
  let response = aResponse('resp_1', 'in_progress');
  const { begin, runs } = aPage({ fetchResponse: async () => ({ response, status: 200 }) });
  const { turn } = begin(textRun('resp_1', WORDS).slice(0, 6));
  await runs.pollOnce();
  assert.equal(answerText(turn), 'one two ');
  response = textRun('resp_1', WORDS).at(-1).response;
  await runs.pollOnce();
  assert.equal(turn.status, 'completed');
});

test('an attachment that ends early is made again', () => {
  const { begin, runs, connection, clock, reconnect, attached } = aPage();
  begin(textRun('resp_1', WORDS).slice(0, 6));
  reconnect();
  attached({});
  runs.onFrame({ type: 'antiphon:detached', stream_id: 'att.1', reason: 'too_slow' });
  clock.pass(1_000);
  assert.equal(connection.count('antiphon:attach'), 2);
});

test('keepalives, notices about steering and frames of unknown lanes change nothing', () => {
  const { begin, runs, connection } = aPage();
  const { turn, lane } = begin(textRun('resp_1', WORDS).slice(0, 5));
  runs.onFrame({ type: 'keepalive', sequence_number: 9, stream_id: lane });
  runs.onFrame({ type: 'response.steer.accepted', sequence_number: 9, stream_id: lane });
  runs.onFrame({ ...textRun('resp_2', WORDS)[0], stream_id: 'att.9' });
  assert.equal(turn.sequence, 4);
  assert.equal(connection.count('antiphon:attach'), 0);
});

test('a lane that begins in the middle is asked for again, and not at every event', () => {
  const { begin, connection, play } = aPage();
  const { turn } = begin(textRun('resp_1', WORDS).slice(1));
  assert.equal(connection.count('response.create'), 3);
  play(textRun('resp_1', WORDS), connection.last('response.create').stream_id);
  assert.equal(answerText(turn), WORDS.join(''));
});

test('more than sixteen answers at once wait for a lane', () => {
  const { runs, connection, clock, play } = aPage();
  for (let count = 0; count < 17; count += 1) runs.follow(aTurn());
  assert.equal(connection.count('response.create'), 16);
  play(textRun('resp_1', WORDS), 'page.3');
  clock.pass(1_000);
  assert.equal(connection.last('response.create').stream_id, 'page.3');
});
