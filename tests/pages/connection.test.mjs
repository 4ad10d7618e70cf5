import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Connection } from '../../server/antiphon/pages/js/connection.js';
import { delayMs, finalReason } from '../../server/antiphon/pages/js/reconnect.js';
import { Clock, FakeSocket } from './support.mjs';

function aConnection({ isBusy = () => false, random = () => 0.5, ticket = () => null } = {}) {
  const clock = new Clock();
  const sockets = [];
  const frames = [];
  const phases = [];
  const urls = [];
  const unauthorized = [];
  const around = {
    open: (url) => {
      urls.push(url);
      return sockets[sockets.push(new FakeSocket()) - 1];
    },
    setTimeout: clock.setTimeout,
    clearTimeout: clock.clearTimeout,
    now: clock.now,
    random,
  };
  const owner = {
    onState: ({ phase }) => phases.push(phase),
    onFrame: (frame) => frames.push(frame),
    isBusy,
    ticket,
    onUnauthorized: () => unauthorized.push(connection.state.phase),
  };
  const connection = new Connection('ws://here', 'tab1', owner, around);
  connection.connect();
  return { connection, clock, sockets, frames, phases, urls, unauthorized };
}

test('hello is the first frame and only the welcome opens the connection', () => {
  const { connection, sockets, phases } = aConnection();
  sockets[0].onopen();
  assert.equal(sockets[0].sent[0].type, 'antiphon:hello');
  assert.equal(sockets[0].sent[0].client.instance_id, 'tab1');
  assert.equal(connection.send({ type: 'x' }), false);
  sockets[0].says({ type: 'antiphon:welcome', id: sockets[0].sent[0].id });
  assert.equal(connection.send({ type: 'x' }), true);
  assert.deepEqual(phases, ['connecting', 'open']);
});

test('a lost connection comes back after a jittered delay that grows with each failure', () => {
  const { clock, sockets, connection } = aConnection();
  for (const expected of [250, 500, 1000, 2000]) {
    sockets.at(-1).onclose({ code: 1006 });
    assert.equal(connection.state.retryAt - clock.now(), expected);
    const before = sockets.length;
    clock.pass(expected - 1);
    assert.equal(sockets.length, before);
    clock.pass(1);
    assert.equal(sockets.length, before + 1);
  }
});

test('a connection that lived is no failure: the next delay starts from nothing', () => {
  const { clock, sockets, connection } = aConnection();
  for (let failure = 0; failure < 6; failure += 1) {
    sockets.at(-1).onclose({ code: 1006 });
    clock.pass(connection.state.retryAt - clock.now());
  }
  sockets.at(-1).welcomes();
  clock.pass(6_000);
  sockets.at(-1).onclose({ code: 1012 });
  assert.ok(connection.state.retryAt - clock.now() <= 500);
});

test('delays use the whole range below the limit and never more than 30 s', () => {
  assert.equal(
    delayMs(0, () => 0),
    0,
  );
  assert.equal(
    delayMs(3, () => 1),
    4_000,
  );
  assert.equal(
    delayMs(500, () => 1),
    30_000,
  );
});

test('the network coming back ends the wait at once', () => {
  const { clock, sockets, connection } = aConnection({ random: () => 1 });
  sockets[0].onclose({ code: 1006 });
  connection.wake();
  assert.equal(sockets.length, 2);
  clock.pass(400);
  assert.equal(sockets.length, 2, 'the timer of the wait is gone');
});

test('waking up on an open connection asks whether it is alive, and a dead one is left', () => {
  const { clock, sockets, connection } = aConnection();
  sockets[0].welcomes();
  connection.wake();
  const ping = sockets[0].sent.at(-1);
  assert.equal(ping.type, 'antiphon:ping');
  sockets[0].says({ type: 'antiphon:pong', id: ping.id });
  clock.pass(4_000);
  assert.equal(connection.isOpen, true);
  connection.wake();
  clock.pass(4_000);
  assert.equal(connection.isOpen, false);
  assert.equal(sockets[0].isClosed, true);
});

test('any frame answers a probe', () => {
  const { clock, sockets, connection } = aConnection();
  sockets[0].welcomes();
  connection.wake();
  sockets[0].says({ type: 'keepalive', sequence_number: 3 });
  clock.pass(10_000);
  assert.equal(connection.isOpen, true);
});

test('silence while an answer is awaited is looked into, silence without one is not', () => {
  let busy = false;
  const { clock, sockets, connection } = aConnection({ isBusy: () => busy });
  sockets[0].welcomes();
  clock.pass(120_000);
  assert.equal(sockets[0].sent.length, 1);
  busy = true;
  clock.pass(30_000);
  assert.equal(connection.isOpen, false);
});

test('a socket that never becomes a connection is given up after ten seconds', () => {
  const { clock, sockets, connection } = aConnection();
  clock.pass(10_000);
  assert.equal(connection.state.phase, 'waiting');
  assert.equal(sockets[0].isClosed, true);
});

test('what a socket says after it was left is for nobody', () => {
  const { sockets, frames, connection } = aConnection();
  sockets[0].welcomes();
  connection.connect();
  sockets[0].says({ type: 'response.created' });
  assert.equal(sockets[0].onclose, null);
  assert.deepEqual(frames, []);
});

test('a goaway moves to a new connection within the spread', () => {
  const { clock, sockets } = aConnection();
  sockets[0].welcomes();
  sockets[0].says({ type: 'antiphon:goaway', reason: 'connection_age', deadline_ms: 60_000, spread_ms: 2_000 });
  clock.pass(999);
  assert.equal(sockets.length, 1);
  clock.pass(1);
  assert.equal(sockets.length, 2);
});

test('a draining server is listened to until it closes', () => {
  const { clock, sockets, connection } = aConnection();
  sockets[0].welcomes();
  sockets[0].says({ type: 'antiphon:goaway', reason: 'draining', deadline_ms: 30_000, spread_ms: 1_000 });
  clock.pass(30_000);
  assert.equal(connection.isOpen, true);
  assert.equal(sockets.length, 1);
});

test('close codes that mean stay away are not answered with another attempt', () => {
  for (const code of [1008, 4502, 4504, 4999]) {
    const { clock, sockets, connection } = aConnection();
    sockets[0].welcomes();
    sockets[0].onclose({ code });
    clock.pass(600_000);
    assert.equal(connection.state.phase, 'refused');
    assert.ok(connection.state.reason);
    assert.equal(sockets.length, 1);
  }
  for (const code of [1000, 1006, 1011, 1012, 1013, 4000, 4001, 4004, 4029]) assert.equal(finalReason(code), null);
});

test('a hello that the server does not accept is a refusal with its sentence', () => {
  const { sockets, connection } = aConnection();
  sockets[0].onopen();
  sockets[0].says({ type: 'antiphon:error', id: 'hello1', code: 'unsupported_version', message: 'Speak version 2.' });
  assert.deepEqual(connection.state, { phase: 'refused', retryAt: null, reason: 'Speak version 2.' });
});

/** Until promises that are there have been answered. */
const settled = () => new Promise((done) => setImmediate(done));

/** The wait is over, and no other one. */
const waited = (clock, connection) => clock.pass(connection.state.retryAt - clock.now());

test('a socket of a page with a key is opened with a new ticket each time', async () => {
  let asked = 0;
  const ticket = async () => ({ ticket: `tk_${(asked += 1)}&`, status: 200 });
  const { connection, sockets, urls, clock } = aConnection({ ticket });
  assert.equal(sockets.length, 0);
  await settled();
  assert.deepEqual(urls, ['ws://here?ticket=tk_1%26']);
  sockets[0].welcomes();
  sockets[0].onclose({ code: 1012 });
  waited(clock, connection);
  await settled();
  assert.equal(urls[1], 'ws://here?ticket=tk_2%26');
  sockets[1].welcomes();
  assert.equal(connection.isOpen, true);
});

test('a ticket that is refused asks for another key; one that cannot be had is asked for again', async () => {
  const answers = [
    { ticket: null, status: 0 },
    { ticket: null, status: 503 },
    { ticket: null, status: 401 },
  ];
  const { connection, sockets, unauthorized, clock } = aConnection({ ticket: async () => answers.shift() });
  await settled();
  assert.equal(connection.state.phase, 'waiting');
  waited(clock, connection);
  await settled();
  assert.equal(connection.state.phase, 'waiting');
  assert.equal(unauthorized.length, 0);
  waited(clock, connection);
  await settled();
  assert.equal(unauthorized.length, 1);
  assert.equal(sockets.length, 0);
});

test('a ticket that comes after the page has given up opens nothing', async () => {
  let give;
  const { connection, sockets } = aConnection({ ticket: () => new Promise((answer) => (give = answer)) });
  connection.giveUp('locked', 'A key is needed.');
  give({ ticket: 'tk_late', status: 200 });
  await settled();
  assert.equal(sockets.length, 0);
  assert.equal(connection.state.phase, 'locked');
});

test('a socket that is closed for its credentials asks for a key, and nothing comes back by itself', () => {
  const { sockets, unauthorized, clock } = aConnection();
  sockets[0].welcomes();
  sockets[0].onclose({ code: 4500 });
  assert.equal(unauthorized.length, 1);
  clock.pass(600_000);
  assert.equal(sockets.length, 1);
});

test('a token that will run out is no reason to leave before it does', () => {
  const { clock, sockets, connection } = aConnection();
  sockets[0].welcomes();
  sockets[0].says({ type: 'antiphon:goaway', reason: 'token_expiring', deadline_ms: 60_000, spread_ms: 0 });
  clock.pass(10_000);
  assert.equal(sockets.length, 1);
  assert.equal(connection.isOpen, true);
});
