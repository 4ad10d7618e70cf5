import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AntiphonError, AuthenticationError, type LogEvent } from '../../src/index.js';
import { textLog } from '../support/logs.js';
import { client, once, until } from '../support/clients.js';
import { serving, WELCOME } from '../support/server.js';

describe('a connection', { concurrency: true }, () => {
  test('to a server of another version ends with words, and what waits for it fails', async () => {
    const refusal = {
      code: 'unsupported_version',
      message: 'This server speaks version 2 of the extension.',
      retryable: false,
    };
    const url = await serving((frame, socket) => {
      socket.send(JSON.stringify({ type: 'antiphon:error', id: frame.id, ...refusal }));
      socket.close(4505);
    });
    const one = client({ url });
    const run = one.run({ model: 'm', input: 'x' });
    await assert.rejects(run.done, (error) => error instanceof AntiphonError && error.code === 'unsupported_version');
    assert.equal(one.status, 'closed');
    assert.equal(one.problem?.message, refusal.message);
    assert.equal(one.problem?.retryable, false);
  });

  test('to a server that closes with a code it does not know stays closed for good from 4500 on', async () => {
    const one = client({ url: await serving((_, socket) => socket.close(4777)) });
    await assert.rejects(one.connect(), /closed the connection for good \(4777\)/);
  });

  test('takes frames, fields, features and events of a newer server as they come', async () => {
    const log = textLog('resp_new', ['a', 'b']);
    const odd = { type: 'response.hologram.delta', output_index: 0, delta: '*' } as unknown as LogEvent;
    const events = [...log.slice(0, 5), odd, ...log.slice(5)].map((event, number) => ({
      ...event,
      sequence_number: number,
      novel: 1,
    }));
    const url = await serving((frame, socket) => {
      const say = (said: object) => socket.send(JSON.stringify(said));
      if (frame.type === 'antiphon:hello') say({ ...WELCOME, id: frame.id, features: ['telepathy'], novel: {} });
      if (frame.type !== 'response.create') return;
      say({ type: 'antiphon:novelty', stream_id: 'x' });
      say({ type: 'antiphon:novelty' });
      for (const event of events) say({ ...event, stream_id: frame['stream_id'] });
    });
    const run = client({ url }).run({ model: 'm', input: 'x' });
    await run.done;
    assert.equal(run.text, 'ab');
    assert.equal(run.cursor.after, events.length - 1);
  });

  test('asks for credentials anew when a token ran out, once, and then says so', async () => {
    const shown: string[] = [];
    const url = await serving((frame, socket) => {
      shown.push(frame['token']);
      if (frame['token'] === 'good') return socket.send(JSON.stringify({ ...WELCOME, id: frame.id }));
      socket.send(
        JSON.stringify({
          type: 'antiphon:error',
          id: frame.id,
          code: 'token_expired',
          message: 'Get a new one.',
          retryable: false,
        }),
      );
      socket.close(4500);
    });
    const tokens = ['old', 'good'];
    await client({ url, auth: () => tokens.shift()! }).connect();
    assert.deepEqual(shown, ['old', 'good']);
    await assert.rejects(client({ url, auth: 'old' }).connect(), AuthenticationError);
    await assert.rejects(client({ url, auth: () => 'older' }).connect(), AuthenticationError);
    assert.deepEqual(shown.slice(2), ['old', 'older', 'older']);
  });

  test('whose token is about to run out gets a newer one and stays', async () => {
    const url = await serving((frame, socket) => {
      if (frame.type === 'antiphon:hello') {
        socket.send(JSON.stringify({ ...WELCOME, id: frame.id }));
        socket.send(
          JSON.stringify({ type: 'antiphon:goaway', reason: 'token_expiring', deadline_ms: 60000, spread_ms: 0 }),
        );
      } else shown.push(frame);
    });
    const shown: { type: string; token?: string }[] = [];
    let n = 0;
    const one = client({ url, auth: () => `token-${++n}` });
    await one.connect();
    await until(() => shown.length, 'the newer token');
    assert.equal(shown[0]!.type, 'antiphon:auth');
    assert.equal(shown[0]!.token, 'token-2');
    assert.equal(one.status, 'open');
  });

  test('that is asked to go because it is old is replaced by another', async () => {
    let connections = 0;
    const url = await serving((frame, socket) => {
      socket.send(JSON.stringify({ ...WELCOME, id: frame.id }));
      if (++connections === 1)
        socket.send(
          JSON.stringify({ type: 'antiphon:goaway', reason: 'connection_age', deadline_ms: 60000, spread_ms: 10 }),
        );
    });
    const one = client({ url });
    await one.connect();
    await until(() => connections === 2 && one.status === 'open', 'another connection');
  });

  test('on which nothing is said any more is found dead by its heartbeat', async () => {
    let connections = 0;
    const url = await serving((frame, socket) => {
      // The first connection answers its hello and nothing else, as one to a machine that is gone.
      if (frame.type === 'antiphon:hello') connections += 1;
      if (frame.type === 'antiphon:hello' || connections > 1) socket.send(JSON.stringify({ ...WELCOME, id: frame.id }));
    });
    const one = client({ url, heartbeatMs: 500 });
    await one.connect();
    await once(one, 'status', (status) => status === 'reconnecting');
    await until(() => one.status === 'open', 'another connection');
  });

  test('without sockets whose first question hangs asks again', async () => {
    const hanging = new Promise<never>(() => {});
    let asked = 0;
    const fetched: typeof fetch = async () => (++asked === 1 ? hanging : new Response('{}'));
    const one = client({ url: 'http://127.0.0.1:1', WebSocket: null, fetch: fetched });
    await one.connect();
    assert.equal(one.status, 'fallback');
    assert.equal(asked, 2);
    one.close();
  });

  test('that fails in the middle of a log reads it again from its start at a fork, and says so', async () => {
    const [old, now] = [textLog('resp_f', ['a', 'lost']), textLog('resp_f', ['a', 'b', 'c'])];
    const url = await serving((frame, socket) => {
      const say = (said: object) => socket.send(JSON.stringify(said));
      if (frame.type === 'antiphon:hello') say({ ...WELCOME, id: frame.id });
      if (frame.type === 'response.create') {
        for (const event of old.slice(0, 6)) say({ ...event, stream_id: frame['stream_id'] });
        say({
          type: 'antiphon:run',
          response_id: 'resp_f',
          state: { response_id: 'resp_f', epoch: 'one', revision: 1, state: 'running' },
        });
        setTimeout(() => socket.terminate(), 20);
      }
      if (frame.type !== 'antiphon:attach') return;
      if (frame['epoch'] === 'one')
        say({
          type: 'antiphon:error',
          id: frame.id,
          code: 'epoch_changed',
          message: 'x',
          retryable: false,
          epoch: 'two',
          fork: 5,
        });
      else {
        say({
          type: 'antiphon:attached',
          id: frame.id,
          response_id: 'resp_f',
          stream_id: 'att.1',
          epoch: 'two',
          head: now.length - 1,
          mode: 'replay',
          recovered: true,
        });
        for (const event of now) say({ ...event, stream_id: 'att.1' });
      }
    });
    const run = client({ url }).run({ model: 'm', input: 'x' });
    const told: number[] = [];
    const resets: object[] = [];
    run.on('event', (event) => told.push(event.sequence_number));
    run.on('reset', (reset) => resets.push(reset));
    await run.done;
    assert.deepEqual(resets, [{ epoch: 'two', fork: 5 }]);
    assert.deepEqual(told, [0, 1, 2, 3, 4, 5, ...now.map((_, index) => index).slice(5)]);
    assert.equal(run.text, 'abc');
  });

  test('that finds a hole in a log asks for what is missing', async () => {
    const log = textLog('resp_g', ['a', 'b', 'c']);
    const url = await serving((frame, socket) => {
      const say = (said: object) => socket.send(JSON.stringify(said));
      if (frame.type === 'antiphon:hello') say({ ...WELCOME, id: frame.id });
      if (frame.type === 'response.create')
        for (const event of [...log.slice(0, 3), ...log.slice(5)]) say({ ...event, stream_id: frame['stream_id'] });
      if (frame.type !== 'antiphon:attach') return;
      assert.equal(frame['after'], 2);
      say({
        type: 'antiphon:attached',
        id: frame.id,
        response_id: 'resp_g',
        stream_id: 'att.1',
        epoch: 'e',
        head: 9,
        mode: 'replay',
        recovered: true,
      });
      for (const event of log.slice(3)) say({ ...event, stream_id: 'att.1' });
    });
    const run = client({ url }).run({ model: 'm', input: 'x' });
    const told: number[] = [];
    run.on('event', (event) => told.push(event.sequence_number));
    await run.done;
    assert.deepEqual(
      told,
      log.map((_, index) => index),
    );
    assert.equal(run.text, 'abc');
  });
});
