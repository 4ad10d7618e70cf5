import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AlreadyResolved, ClaimHeld, type CreateParams, type Run, type ToolCallEvent } from '../../src/index.js';
import { client, once, relayTo, until, URL_OF_SERVER, WEATHER } from '../support/clients.js';

const HOLD: CreateParams = {
  model: 'antiphon/demo',
  input: 'What is the weather?',
  tools: [WEATHER],
  antiphon: { client_tools: 'hold' },
};

const phase = (wanted: string) => (event: ToolCallEvent) => event.phase === wanted;

async function pendingCall(run: Run): Promise<string> {
  return (await until(() => run.state?.pending_calls?.[0], 'a pending call')).call_id;
}

describe('held calls', { concurrency: true }, () => {
  test('a handler answers the held calls of its tool, and its answer comes into the run', async () => {
    const one = client();
    const seen: unknown[] = [];
    one.onToolCall('get_weather', (args, { call, run }) => {
      seen.push(args, call.name, run.id);
      return { degrees: 4 };
    });
    const { antiphon: _, ...create } = HOLD; // That it holds its calls follows from the handler.
    const run = one.run(create);
    await run.done;
    assert.equal(seen[1], 'get_weather');
    assert.equal(seen[2], run.id);
    assert.match(run.text, /the degrees is 4/);
    await until(() => run.state?.resolved_calls?.length === 1, 'the call as answered');
  });

  test('a handler that throws has the model told so, and the run goes on', async () => {
    const one = client();
    const run = one.run(HOLD);
    run.onToolCall('get_weather', () => {
      throw new Error('the station is closed');
    });
    const failed = await once<ToolCallEvent>(one, 'toolcall', phase('failed'));
    assert.equal(failed.error?.message, 'the station is closed');
    await run.done;
    assert.match(run.text, /the station is closed/);
  });

  test('of three calls of one round each is answered once, by its own handler call', async () => {
    const one = client();
    const cities: string[] = [];
    one.onToolCall('get_weather', ({ city }) => {
      cities.push(city);
      return city;
    });
    const run = one.run({ ...HOLD, model: 'antiphon/script:parallel' });
    assert.equal((await run.done).status, 'completed');
    assert.deepEqual(cities.sort(), ['Lima', 'Oslo', 'Rome']);
  });

  test('of two clients on one held call one wins, and the other is told who', async () => {
    const [owner, other] = [client({ instanceId: 'the-owner' }), client({ instanceId: 'the-other' })];
    const run = owner.run(HOLD);
    const callId = await pendingCall(run);
    const watched = other.attach(run.id!);
    const tries = await Promise.allSettled([
      run.respond(callId, 'from the owner'),
      watched.respond(callId, 'from the other'),
    ]);
    const winners = tries.filter((one) => one.status === 'fulfilled');
    const [lost] = tries.filter((one): one is PromiseRejectedResult => one.status === 'rejected');
    assert.equal(winners.length, 1);
    assert.ok(lost!.reason instanceof AlreadyResolved);
    const winner = tries[0]!.status === 'fulfilled' ? 'the-owner' : 'the-other';
    assert.equal(lost!.reason.winner?.instance, winner);
    assert.equal(lost!.reason.winner?.call_id, callId);
    await run.done;
    assert.match(run.text, winner === 'the-owner' ? /from the owner/ : /from the other/);
  });

  test('a handler whose call another client answered is stopped and told who that was', async () => {
    const [owner, other] = [client(), client({ instanceId: 'quicker' })];
    const run = owner.run(HOLD);
    let isStopped = false;
    run.onToolCall(
      'get_weather',
      (_, { signal }) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => {
            isStopped = true;
            resolve('too late');
          }),
        ),
      { claim: false },
    );
    const lost = once<ToolCallEvent>(run, 'toolcall', phase('lost'));
    await other.attach(run.id ?? (await run.created)).respond(await pendingCall(run), '5 degrees');
    assert.equal((await lost).winner?.instance, 'quicker');
    assert.ok(isStopped);
    await run.done;
    assert.match(run.text, /5 degrees/);
  });

  test('who works on a call keeps others from answering, and leaves it when the run is left', async () => {
    const [owner, other] = [client({ instanceId: 'worker' }), client()];
    const run = owner.run(HOLD);
    run.onToolCall(
      'get_weather',
      (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)),
    );
    await once(run, 'toolcall', phase('claimed'));
    const callId = await pendingCall(run);
    const watched = other.attach(run.id!);
    await assert.rejects(
      watched.respond(callId, 'x'),
      (error) => error instanceof ClaimHeld && error.retryable && error.holder !== '',
    );
    await until(() => watched.pendingCall(callId)?.claim?.instance === 'worker', 'the claim in the state');
    run.detach();
    await until(() => watched.pendingCall(callId)?.claim === null, 'the claim given back');
    await watched.respond(callId, '6 degrees');
    assert.match((await watched.done, watched.text), /6 degrees/);
  });

  test('a handler whose claim ran out while it had no network does not answer over the one who took it', async () => {
    const relay = await relayTo(URL_OF_SERVER);
    const sleeper = client({ url: relay.url, instanceId: 'sleeper' });
    const heir = client({ instanceId: 'heir' });
    let begun = 0;
    const run = sleeper.run(HOLD);
    run.onToolCall('get_weather', (_, { signal }) => {
      begun += 1;
      return new Promise((resolve) => signal.addEventListener('abort', () => resolve('from the sleeper')));
    });
    await once(run, 'toolcall', phase('claimed'));
    relay.down();
    // The creator is gone, so those who declared the tool are asked; the lease of a second runs out first.
    heir.onToolCall('get_weather', () => 'from the heir');
    const inherited = heir.attach(run.id!);
    await inherited.done;
    const lost = once<ToolCallEvent>(run, 'toolcall', phase('lost'));
    relay.up();
    await lost;
    await run.done;
    assert.equal(begun, 1);
    assert.match(run.text, /from the heir/);
    await until(() => run.state?.resolved_calls?.[0]?.instance === 'heir', 'who answered');
  });

  test('big integers in arguments reach the handler with all their digits', async () => {
    const one = client();
    const seen: any[] = [];
    one.onToolCall('lookup', (args) => {
      seen.push(args);
      return { id: args.id };
    });
    const run = one.run({
      model: 'antiphon/script:bigint',
      input: 'x',
      tools: [{ type: 'function', name: 'lookup', parameters: { type: 'object' } }],
    });
    await run.done;
    assert.deepEqual(seen, [{ id: '12345678901234567890', small: 7 }]);
    const output = run.response!.output.find((item) => item.type === 'function_call_output');
    assert.equal((output as { output: string }).output, '{"id":"12345678901234567890"}');
  });
});
