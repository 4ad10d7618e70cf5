import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogEvent } from '../../src/index.js';
import { client, once, relayTo, until, URL_OF_SERVER, WEATHER } from '../support/clients.js';

const DROPS = Number(process.env['ANTIPHON_TEST_DROPS'] ?? 200);

/** A repeatable stream of numbers in [0, 1). */
function randoms(seed: number): () => number {
  return () => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return seed / 2 ** 31;
  };
}

test(`${DROPS} drops in one run lose no number and tell none twice`, async () => {
  const relay = await relayTo(URL_OF_SERVER);
  const one = client({ url: relay.url });
  const random = randoms(7);
  const run = one.run({ model: 'antiphon/script:long', input: 'go' });
  const numbers: number[] = [];
  let drops = 0;
  let left = 1;
  let isCut = false;
  one.on('status', (status) => {
    if (status === 'reconnecting') drops += 1;
    if (status === 'open') isCut = false;
  });
  run.on('event', ({ sequence_number: number }) => {
    numbers.push(number);
    if (isCut || drops >= DROPS || --left > 0) return;
    isCut = true;
    left = 1 + Math.floor(random() * 6);
    relay.down();
    setTimeout(() => relay.up(), random() * 5);
  });
  await until(() => drops >= DROPS, 'all drops');
  await run.cancel();
  const response = await run.done;
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index),
  );
  assert.equal(numbers.at(-1), run.cursor.after);
  const [item] = response.output as { content: { text: string }[] }[];
  assert.match(item!.content[0]!.text, /^(word\d+ ){20,}/);
  let made = '';
  for await (const event of run) if (event.type === 'response.output_text.delta') made += event.delta;
  assert.equal(made, item!.content[0]!.text);
});

test('a connection that is lost before the run has its id begins one run, not two', async () => {
  const relay = await relayTo(URL_OF_SERVER);
  const one = client({ url: relay.url });
  await one.connect();
  const label = `once-${Date.now()}`;
  const feed = client().feed();
  await once(feed, 'status', (status) => status === 'live');
  const begun = new Set<string>();
  feed.on('event', ({ run }) => run.labels?.['test'] === label && begun.add(run.response_id));
  const run = one.run({ model: 'antiphon/echo', input: 'hello', antiphon: { labels: { test: label } } });
  // The create is sent in a microtask; what comes back is lost.
  queueMicrotask(() => queueMicrotask(() => relay.down()));
  await once(one, 'status', (status) => status === 'reconnecting');
  relay.up();
  await run.done;
  assert.equal(run.text, 'hello');
  await until(() => feed.rows.get(run.id!)?.state === 'completed', 'the run in the feed');
  assert.deepEqual([...begun], [run.id]);
});

test('a cancel, a steer and a result that are given while there is no network are sent when there is', async () => {
  const relay = await relayTo(URL_OF_SERVER);
  const one = client({ url: relay.url });
  const isTalking = (event: LogEvent) => event.type === 'response.output_text.delta';
  const stopped = one.run({ model: 'antiphon/script:long', input: 'go' });
  const steered = one.run({ model: 'antiphon/script:long', input: 'go' });
  const held = one.run({
    model: 'antiphon/demo',
    input: 'Weather?',
    tools: [WEATHER],
    antiphon: { client_tools: 'hold' },
  });
  const pending = async () => (await until(() => held.state?.pending_calls?.[0], 'a pending call')).call_id;
  const [callId] = await Promise.all([pending(), once(stopped, 'event', isTalking), once(steered, 'event', isTalking)]);
  relay.down();
  const said = Promise.all([stopped.cancel('enough'), steered.steer('Go on.'), held.respond(callId, '4 degrees')]);
  await once(one, 'status', (status) => status === 'reconnecting');
  relay.up();
  const [cancelled, steer] = await said;
  assert.equal(cancelled, 'accepted');
  assert.equal((await held.done).status, 'completed');
  assert.equal(held.response!.output.filter((item) => item.type === 'function_call_output').length, 1);
  assert.equal((await stopped.done).status, 'cancelled');
  await until(() => steered.state?.steers?.some(({ id }) => id === steer.id), 'the steer in the state');
  assert.equal(steered.state!.steers!.length, 1);
  await steered.cancel();
});

test('a path that died without a word is noticed, and the run goes on elsewhere', async () => {
  const relay = await relayTo(URL_OF_SERVER);
  const one = client({ url: relay.url, heartbeatMs: 300 });
  const run = one.run({ model: 'antiphon/echo', input: 'first' });
  await run.done;
  relay.swallow();
  // As a page does when it is shown again.
  one.retryNow();
  await once(one, 'status', (status) => status === 'reconnecting');
  const next = one.run({ model: 'antiphon/echo', input: 'second' });
  assert.equal((await next.done).status, 'completed');
});
