import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import fc from 'fast-check';
import { outputText } from '../../src/core/answers.js';
import { parseArguments } from '../../src/core/arguments.js';
import { DEFAULT_BACKOFF, delayMs } from '../../src/core/backoff.js';
import { NEW_WORK, step, type WorkSignal } from '../../src/core/claims.js';
import { attemptsAfter, hasSlept, nextStatus } from '../../src/core/connection.js';
import { parseEventId } from '../../src/core/event_id.js';
import { finalClose, isRetryable } from '../../src/core/errors.js';
import { SseReader } from '../../src/core/sse.js';

const PROTOCOL = new URL('../../../../protocol/PROTOCOL.md', import.meta.url);

test('waits have full jitter: anything from nothing to a bound that doubles and ends', () => {
  fc.assert(
    fc.property(fc.nat(2000), fc.double({ min: 0, max: 0.999, noNaN: true }), (attempt, random) => {
      const wait = delayMs(attempt, random);
      assert.ok(wait >= 0 && wait <= DEFAULT_BACKOFF.capMs);
    }),
  );
  assert.equal(delayMs(3, 0), 0);
  assert.equal(delayMs(1, 0.5), delayMs(0, 0.5) * 2);
  assert.equal(delayMs(100, 0.5), DEFAULT_BACKOFF.capMs / 2);
});

test('an SSE body says the same however it is cut into pieces', () => {
  const message = fc.record({
    event: fc.constantFrom('a', 'b.c'),
    id: fc.constantFrom('e.1', 'e.22'),
    data: fc.string(),
  });
  fc.assert(
    fc.property(fc.array(message), fc.array(fc.nat(30)), fc.boolean(), (messages, cuts, isCrLf) => {
      const clean = messages.map((one) => ({ ...one, data: one.data.replace(/[\r\n]/g, '') }));
      const end = isCrLf ? '\r\n' : '\n';
      const lines = clean.map(({ event, id, data }) =>
        [`event: ${event}`, `id: ${id}`, `data: ${data}`, '', ': quiet', ''].join(end),
      );
      let rest = lines.join(end) + end;
      const reader = new SseReader();
      const read = cuts.flatMap((length) => {
        const piece = rest.slice(0, length);
        rest = rest.slice(length);
        return reader.take(piece);
      });
      assert.deepEqual([...read, ...reader.take(rest)], clean);
    }),
  );
});

test('integers that a number cannot hold stay exact, everything else is JSON', () => {
  assert.deepEqual(
    parseArguments('{"id": 12345678901234567890, "n": -9007199254740993, "s": "12345678901234567890"}'),
    {
      id: '12345678901234567890',
      n: '-9007199254740993',
      s: '12345678901234567890',
    },
  );
  assert.deepEqual(parseArguments('{"x": 1.2345678901234567e3, "y": 9007199254740991}'), {
    x: 1234.5678901234567,
    y: 9007199254740991,
  });
  assert.equal(parseArguments('{"half": '), '{"half": ');
  fc.assert(
    fc.property(fc.json(), (text) => {
      fc.pre(!/\d{16}/.test(text));
      assert.deepEqual(JSON.stringify(parseArguments(text)), JSON.stringify(JSON.parse(text)));
    }),
  );
});

test('outputs are text: JSON of values, big integers with all their digits, nothing as null', () => {
  assert.equal(outputText('as it is'), 'as it is');
  assert.equal(outputText({ id: 12345678901234567890n }), '{"id":"12345678901234567890"}');
  assert.equal(outputText(undefined), 'null');
});

test('event ids are an epoch and a number', () => {
  assert.deepEqual(parseEventId('9f3c.2a.17'), { epoch: '9f3c.2a', number: 17 });
  assert.equal(parseEventId('17'), null);
});

test('what can be tried again is what the table of the protocol says', async () => {
  const text = await readFile(PROTOCOL, 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\d{3}) \| (yes|no) \| [a-z, ]+ \|/gm)];
  assert.ok(rows.length > 50);
  for (const [, code, status, retryable] of rows) {
    assert.equal(isRetryable(code!, Number(status)), retryable === 'yes', code);
  }
});

test('close codes that are final have words, the others bring the client back', async () => {
  const text = await readFile(PROTOCOL, 'utf8');
  const rows = [...text.matchAll(/^\| (?:\d{4}|-) \| (\d{4}) \| (.+) \| (.+) \|$/gm)];
  assert.ok(rows.length > 10);
  for (const [, code, when, back] of rows) {
    if (back === '-') continue;
    assert.equal(finalClose(Number(code)) !== null, back === 'no', `${code} ${when}`);
  }
  for (const code of [1001, 1005, 1006, 4099]) assert.equal(finalClose(code), null);
  assert.match(finalClose(4999)!.message, /for good/);
});

test('a call is begun once for each claim, and never after it is over', () => {
  const signals: fc.Arbitrary<WorkSignal> = fc.oneof(
    fc.constantFrom<WorkSignal>(
      { on: 'pending', claims: true },
      { on: 'held' },
      { on: 'claim_lost' },
      { on: 'output' },
      { on: 'settled' },
    ),
    fc.record({ on: fc.constant('claimed' as const), fence: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.array(signals, { maxLength: 40 }), (given) => {
      let work = NEW_WORK;
      let claims = 0;
      let runs = 0;
      for (const signal of given) {
        const before = work;
        const [next, effect] = step(work, signal);
        work = next;
        if (effect === 'claim') claims++;
        if (effect === 'run') runs++;
        if (effect === 'inject') assert.equal(before.phase, 'working');
        if (before.phase === 'over') assert.deepEqual([next, effect], [before, null]);
        assert.ok(runs <= claims);
        if (work.phase === 'working') assert.notEqual(work.fence, null);
      }
    }),
  );
});

test('a call without a claim is begun at once', () => {
  assert.deepEqual(step(NEW_WORK, { on: 'pending', claims: false }), [{ phase: 'working', fence: null }, 'run']);
});

test('nothing but the owner opens a closed connection, and a refusal closes any', () => {
  for (const signal of ['welcomed', 'lost', 'only_http', 'refused'] as const)
    assert.equal(nextStatus('closed', signal), 'closed');
  for (const status of ['connecting', 'open', 'reconnecting', 'fallback'] as const)
    assert.equal(nextStatus(status, 'refused'), 'closed');
  assert.equal(nextStatus('closed', 'wanted'), 'connecting');
  assert.equal(nextStatus('fallback', 'welcomed'), 'open');
});

test('after a good connection counting begins anew, and a server that asks for time gets it', () => {
  assert.equal(attemptsAfter(7, true, 1006), 0);
  assert.equal(attemptsAfter(7, false, 1006), 7);
  for (const code of [1013, 4001, 4029]) assert.ok(delayMs(attemptsAfter(0, true, code), 0.5) >= 1_000);
});

test('a timer that comes late by more than a busy page shows that the machine slept', () => {
  assert.ok(!hasSlept(5_000, 6_000));
  assert.ok(hasSlept(5_000, 600_000));
});
