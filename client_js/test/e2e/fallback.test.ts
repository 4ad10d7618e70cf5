import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AlreadyResolved, NotFound, type LogEvent } from '../../src/index.js';
import { client, once, until, URL_OF_SERVER, WEATHER } from '../support/clients.js';
import { proxyTo } from '../support/proxy.js';

const isTalking = (event: LogEvent) => event.type === 'response.output_text.delta';

describe('without a socket', { concurrency: true }, () => {
  test('where no socket can be had a run is told over HTTP, through cuts, and goes on over a socket when there is one', async () => {
    const proxy = await proxyTo(URL_OF_SERVER);
    const one = client({ url: proxy.url });
    const run = one.run({ model: 'antiphon/script:long', input: 'go' });
    const numbers: number[] = [];
    run.on('event', ({ sequence_number: number }) => numbers.push(number));
    await once(run, 'event', isTalking);
    assert.equal(one.status, 'fallback');
    for (let cuts = 0; cuts < 5; cuts++) {
      const before = run.cursor.after;
      proxy.cut();
      await until(() => run.cursor.after > before + 5, 'events after a cut');
    }
    const opened = once(one, 'status', (status) => status === 'open');
    proxy.allowsSockets = true;
    one.retryNow();
    await opened;
    const before = run.cursor.after;
    await until(() => run.cursor.after > before + 5, 'events over the socket');
    assert.equal(await run.cancel(), 'accepted');
    await run.done;
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index),
    );
  });

  test('a client without sockets answers calls, steers, cancels, and is told who won', async () => {
    const one = client({ WebSocket: null });
    const [callId, held] = await (async () => {
      const run = one.run({
        model: 'antiphon/demo',
        input: 'Weather?',
        tools: [WEATHER],
        antiphon: { client_tools: 'hold' },
      });
      return [(await until(() => run.state?.pending_calls?.[0], 'a pending call')).call_id, run] as const;
    })();
    await client({ instanceId: 'quicker' }).attach(held.id!).respond(callId, '7 degrees');
    await assert.rejects(
      held.respond(callId, 'x'),
      (error) => error instanceof AlreadyResolved && error.winner?.instance === 'quicker',
    );
    assert.match((await held.done, held.text), /7 degrees/);

    one.onToolCall('get_weather', () => '8 degrees');
    const answered = one.run({ model: 'antiphon/demo', input: 'Weather?', tools: [WEATHER] });
    assert.match((await answered.done, answered.text), /8 degrees/);

    const run = one.run({ model: 'antiphon/script:counting', input: 'go' });
    await once(run, 'event', isTalking);
    assert.equal((await run.steer('More.')).previous_response_id, run.id);
    assert.equal(await run.cancel(), 'accepted');
    assert.equal((await run.done).status, 'cancelled');
    assert.equal(await run.cancel(), 'accepted');
    await assert.rejects(one.run({ model: 'nobody/serves-this', input: 'x' }).done, NotFound);
  });

  test('a client without sockets has the feed, and the runs of others in its conversation', async () => {
    const one = client({ WebSocket: null });
    const feed = one.feed();
    await once(feed, 'status', (status) => status === 'live');
    const conversation = one.conversation();
    const first = conversation.run({ model: 'antiphon/echo', input: 'first' });
    await first.done;
    await until(() => feed.rows.get(first.id!)?.state === 'completed', 'the run in the feed');
    await until(() => conversation.id, 'its id');
    const came = once<any>(conversation, 'run', (run) => run.id !== first.id);
    const others = client().run({ model: 'antiphon/script:counting', input: 'go', previous_response_id: first.id });
    assert.equal((await came).id, await others.created);
    await others.cancel();
  });

  test('a run that ended while nobody listened is read to its end', async () => {
    const run = client().run({ model: 'antiphon/echo', input: 'a b c' });
    await run.done;
    const late = client({ WebSocket: null }).attach(run.id!, { after: run.cursor.after, epoch: run.cursor.epoch! });
    assert.deepEqual(await late.done, run.response);
    const whole = client({ WebSocket: null }).attach(run.id!);
    await whole.done;
    assert.equal(whole.cursor.after, run.cursor.after);
    const beyond = client({ WebSocket: null }).attach(run.id!, { after: 1000 });
    assert.deepEqual(await beyond.done, run.response);
  });
});
