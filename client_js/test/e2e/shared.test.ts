import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { NotFound, type Participant, type Run } from '../../src/index.js';
import { client, once, relayTo, until, URL_OF_SERVER } from '../support/clients.js';

describe('what is shared', { concurrency: true }, () => {
  test('two clients in one conversation have the same runs, each once, and continue each other', async () => {
    const [anna, ben] = [client(), client()];
    const annas = anna.conversation();
    const mine: Run[] = [];
    annas.on('run', (run) => mine.push(run));
    const first = annas.run({ model: 'antiphon/echo', input: 'one' });
    await first.done;
    const id = await until(() => annas.id, 'an id');
    await once(annas, 'ready').catch(() => {});
    const bens = ben.conversation(id);
    await once(bens, 'ready');
    assert.deepEqual([...bens.runs.keys()], [first.id]);
    const came = once<Run>(annas, 'run', (run) => run !== first);
    const second = bens.run({ model: 'antiphon/echo', input: 'two' });
    assert.equal((await second.done).previous_response_id, first.id);
    const seen = await came;
    await seen.done;
    assert.equal(seen.id, second.id);
    assert.equal(seen.text, 'two');
    await until(() => annas.runs.get(second.id!)?.state === 'completed', 'the end of the second');
    const third = annas.run({ model: 'antiphon/echo', input: 'three' });
    assert.equal((await third.done).previous_response_id, second.id);
    assert.deepEqual(
      mine.map((run) => run.id),
      [first.id, second.id, third.id],
    );

    const history = await ben.conversation(id).history();
    assert.deepEqual(
      history.data.map(({ state }) => state.response_id),
      [third.id, second.id, first.id],
    );
    assert.equal((history.data[0]!.input[0] as any).content[0].text, 'three');
    assert.equal(history.data[2]!.response?.id, first.id);
    assert.equal(history.has_more, false);
  });

  test('who is there and types is seen by the others, until they leave', async () => {
    const [anna, ben] = [client(), client()];
    const annas = anna.conversation();
    const run = annas.run({ model: 'antiphon/script:long', input: 'go' });
    const id = await until(() => annas.id, 'an id');
    const bens = ben.conversation(id);
    await once(bens, 'run');
    await until(() => annas.participants.length === 2, 'both');
    await bens.presence('typing', 'Ben');
    const isTyping = (all: readonly Participant[]) => all.some((one) => one.state === 'typing' && one.label === 'Ben');
    await until(() => isTyping(annas.participants), 'the typing');
    ben.close();
    await until(() => annas.participants.length === 1, 'Ben leaving');
    await run.cancel();
  });

  test('an unknown conversation is not found', async () => {
    const error = await once(client().conversation('conv_nobody'), 'error');
    assert.ok(error instanceof NotFound);
  });

  test('the feed misses nothing while its connection is lost again and again', async () => {
    const relay = await relayTo(URL_OF_SERVER);
    const watcher = client({ url: relay.url });
    const feed = watcher.feed();
    const ended = new Map<string, number>();
    feed.on('event', ({ event, run }) => {
      if (event === 'run.completed') ended.set(run.response_id, (ended.get(run.response_id) ?? 0) + 1);
    });
    await once(feed, 'status', (status) => status === 'live');
    const one = client();
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) {
      const runs = Array.from({ length: 4 }, () => one.run({ model: 'antiphon/echo', input: 'x' }));
      relay.down();
      await Promise.all(runs.map((run) => run.done));
      ids.push(...runs.map((run) => run.id!));
      relay.up();
      await once(feed, 'status', (status) => status === 'live');
    }
    await until(() => ids.every((id) => ended.has(id)), 'every end');
    assert.deepEqual(
      ids.filter((id) => ended.get(id) !== 1),
      [],
    );
    const { data } = await one.request('GET', '/v1/runs');
    const there = new Set(data.map((run: { response_id: string }) => run.response_id));
    await until(() => [...there].every((id) => feed.rows.has(id as string)), 'the rows of the server');
  });

  test('a feed with a filter has the runs that pass and loses those that do not any more', async () => {
    const feed = client().feed({ filter: { state: ['running'], model: 'antiphon/script:long' } });
    await once(feed, 'status', (status) => status === 'live');
    const one = client();
    const run = one.run({ model: 'antiphon/script:long', input: 'x' });
    one.run({ model: 'antiphon/echo', input: 'x' });
    await until(() => run.id && feed.rows.has(run.id), 'the run');
    assert.deepEqual(
      [...feed.rows.values()].filter(({ model }) => model !== 'antiphon/script:long'),
      [],
    );
    await run.cancel();
    await until(() => !feed.rows.has(run.id!), 'the run leaving');
  });

  test('a feed that is refused says why and is closed', async () => {
    const feed = client().feed({ filter: { colour: 'red' } as never });
    const error = await once<{ code: string }>(feed, 'error');
    assert.equal(error.code, 'invalid_command');
    assert.equal(feed.status, 'closed');
  });
});
