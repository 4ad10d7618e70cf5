import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AntiphonError, NotFound, type LogEvent } from '../../src/index.js';
import { client, once, until } from '../support/clients.js';

test('a run is told event by event, and makes its response and its text', async () => {
  const run = client().run({ model: 'antiphon/echo', input: 'one two three' });
  const events: LogEvent[] = [];
  for await (const event of run) events.push(event);
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, index) => index),
  );
  const last = events.at(-1)!;
  assert.equal(last.type, 'response.completed');
  assert.deepEqual(run.response, (last as { response: unknown }).response);
  assert.equal(run.text, 'one two three');
  assert.equal((await run.done).id, run.id);
  await until(() => run.state?.state === 'completed', 'its last state');
  assert.equal(run.cursor.epoch, run.state!.epoch);
});

test('an iterator that begins late has the log from its start', async () => {
  const run = client().run({ model: 'antiphon/echo', input: 'a b' });
  await run.done;
  let count = 0;
  for await (const event of run) assert.equal(event.sequence_number, count++);
  assert.equal(count, run.cursor.after + 1);
});

test('a refused create is a typed error, for all who wait', async () => {
  const run = client().run({ model: 'nobody/serves-this', input: 'x' });
  await assert.rejects(
    run.done,
    (error) => error instanceof NotFound && error.code === 'model_not_found' && !error.retryable,
  );
  await assert.rejects(run.created, NotFound);
  await assert.rejects(async () => {
    for await (const _ of run) assert.fail('an event of a run that never was');
  }, NotFound);
  assert.equal(run.status, 'failed');
});

test('a run can be cancelled by its signal, and cancelling again says that it has ended', async () => {
  const stop = new AbortController();
  const run = client().run({ model: 'antiphon/script:counting', input: 'go' }, { signal: stop.signal });
  await once(run, 'event', (event: LogEvent) => event.type === 'response.output_text.delta');
  stop.abort();
  assert.equal((await run.done).status, 'cancelled');
  assert.equal(await run.cancel(), 'already_terminal');
});

test('many more runs than a connection has lanes all end', async () => {
  const one = client();
  const runs = Array.from({ length: 45 }, (_, n) => one.run({ model: 'antiphon/echo', input: `number ${n}` }));
  await Promise.all(runs.map((run) => run.done));
  runs.forEach((run, n) => assert.equal(run.text, `number ${n}`));
});

test('what is said to a run goes on in its successor, for its owner and for who is attached', async () => {
  const owner = client();
  const run = owner.run({ model: 'antiphon/script:steerable', input: 'go' });
  const watcher = client().attach(await run.created);
  const isTalking = (event: LogEvent) => event.type === 'response.output_text.delta';
  await Promise.all([once(run, 'event', isTalking), once(watcher, 'event', isTalking)]);
  const [steer, own, seen] = await Promise.all([
    run.steer('Shorter.'),
    once<any>(run, 'successor'),
    once<any>(watcher, 'successor'),
  ]);
  assert.equal(steer.previous_response_id, run.id);
  await run.done;
  assert.equal(own.id, run.state?.terminal?.successor);
  assert.equal(own.id, seen.id);
  await own.cancel();
  assert.deepEqual(await own.done, await seen.done);
});

test('attaching now tells of nothing that was, and still makes the whole response', async () => {
  const one = client();
  const run = one.run({ model: 'antiphon/script:counting', input: 'go' });
  await until(() => run.cursor.after > 20, 'some events');
  const late = client().attach(run.id!, { after: 'now' });
  const first = await once<LogEvent>(late, 'event');
  assert.ok(first.sequence_number > 20);
  await run.cancel();
  await Promise.all([run.done, late.done]);
  assert.deepEqual(late.response, run.response);
  assert.equal(late.text, run.text);
});

test('attaching with a cursor tells what follows it; one past the head is read anew', async () => {
  const run = client().run({ model: 'antiphon/echo', input: 'a b c' });
  await run.done;
  const after = client().attach(run.id!, { after: 3, epoch: run.cursor.epoch! });
  await after.done;
  const numbers: number[] = [];
  for await (const event of after) numbers.push(event.sequence_number);
  assert.equal(numbers[0], 4);
  assert.equal(numbers.at(-1), run.cursor.after);
  const beyond = client().attach(run.id!, { after: 1000 });
  assert.deepEqual(await beyond.done, run.response);
});

test('an unknown run is not found', async () => {
  await assert.rejects(
    client().attach('resp_nobody').done,
    (error) => error instanceof NotFound && error.code === 'response_not_found',
  );
});

test('lone halves of characters and the odd characters of Unicode do no harm', async () => {
  const run = client().run({ model: 'antiphon/echo', input: 'half \ud83d and \0 and 👩‍👩‍👧 and \u2028' });
  await run.done;
  assert.equal(run.text, 'half \ufffd and \0 and 👩‍👩‍👧 and \u2028');
});

test('a run that nobody reads any more goes on, and its promise says why it is silent', async () => {
  const one = client();
  const run = one.run({ model: 'antiphon/script:counting', input: 'go' });
  const id = await run.created;
  run.detach();
  await assert.rejects(run.done, (error) => error instanceof AntiphonError && error.code === 'detached');
  const again = one.attach(id);
  assert.notEqual(again, run);
  await once(again, 'event', (event: LogEvent) => event.type === 'response.output_text.delta');
  assert.equal(await again.cancel(), 'accepted');
});
