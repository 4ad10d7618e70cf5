import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { accumulate, textOf } from '../../src/core/accumulate.js';
import { RunLog } from '../../src/core/run_log.js';
import type { LogEvent, Response } from '../../src/index.js';
import { response, textLog } from '../support/logs.js';

const pieces = fc.array(fc.string({ minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 20 });

function numbers(log: RunLog): number[] {
  return log.events.map((event) => event.sequence_number);
}

test('however often a log is cut and replayed, each number is told once and in order', () => {
  fc.assert(
    fc.property(pieces, fc.array(fc.tuple(fc.nat(40), fc.nat(10)), { maxLength: 30 }), (said, cuts) => {
      const events = textLog('r', said);
      const log = new RunLog();
      for (const [length, back] of cuts) {
        // A connection replays from a little before the cursor, and is lost after some events.
        const from = Math.max(0, log.cursor.after + 1 - back);
        for (const event of events.slice(from, from + length)) assert.notEqual(log.take(event), 'gap');
      }
      for (const event of events) log.take(event);
      assert.deepEqual(
        numbers(log),
        events.map((_, index) => index),
      );
      assert.equal(textOf(log.response), said.join(''));
      assert.ok(log.isEnded);
    }),
  );
});

test('an event past a hole is not taken, and the cursor stays', () => {
  const events = textLog('r', ['a', 'b', 'c']);
  const log = new RunLog();
  log.take(events[0]!);
  assert.equal(log.take(events[2]!), 'gap');
  assert.equal(log.cursor.after, 0);
  assert.equal(log.take(events[1]!), 'told');
});

test('the response is whole after each event, and a snapshot that was given out does not change', () => {
  fc.assert(
    fc.property(pieces, (said) => {
      let now: Response | null = null;
      const seen: string[] = [];
      const given: (Response | null)[] = [];
      for (const event of textLog('r', said)) {
        now = accumulate(now, event);
        given.push(now);
        seen.push(JSON.stringify(now));
      }
      assert.deepEqual(
        given.map((one) => JSON.stringify(one)),
        seen,
      );
      assert.equal(textOf(now), said.join(''));
    }),
  );
});

test('after a fork the common part makes the response and only what is new is told', () => {
  fc.assert(
    fc.property(pieces, pieces, fc.nat(30), (before, after, at) => {
      const old = textLog('r', before);
      const common = Math.min(at, before.length);
      const now = textLog('r', [...before.slice(0, common), ...after]);
      const fork = 4 + common;
      const log = new RunLog();
      log.expect('one');
      const read = Math.min(old.length - 1, fork + (at % 4));
      for (const event of old.slice(0, read)) log.take(event);
      if (read <= fork) return;
      log.fork('two', fork);
      const told: number[] = [];
      for (const event of now) if (log.take(event) === 'told') told.push(event.sequence_number);
      assert.equal(told[0], fork);
      assert.deepEqual(
        numbers(log),
        now.map((_, index) => index),
      );
      assert.deepEqual(
        log.events.map((event) => JSON.stringify(event)),
        now.map((event) => JSON.stringify(event)),
      );
      assert.deepEqual(log.cursor, { epoch: 'two', after: now.length - 1 });
    }),
  );
});

test('a new epoch is the cursor’s with the first event that comes in it', () => {
  const events = textLog('r', ['a']);
  const log = new RunLog();
  log.expect('one');
  log.take(events[0]!);
  log.expect('two');
  assert.deepEqual(log.cursor, { epoch: 'one', after: 0 });
  log.take(events[1]!);
  assert.deepEqual(log.cursor, { epoch: 'two', after: 1 });
});

test('a snapshot takes the place of events that are gone, and those behind it follow', () => {
  const events = textLog('r', ['a', 'b']);
  const log = new RunLog();
  log.take(events[0]!);
  const upToFive = events.slice(0, 6).reduce<Response | null>(accumulate, null);
  log.snapshot('two', 5, upToFive);
  for (const event of events.slice(6)) assert.equal(log.take(event), 'told');
  assert.equal(textOf(log.response), 'ab');
  assert.ok(log.isEnded);
});

test('every kind of delta adds up to what its end says', () => {
  const grown: [type: string, place: object, field: string, read: (item: any) => string][] = [
    ['refusal', { content_index: 0 }, 'refusal', (item) => item.content[0].refusal],
    ['reasoning_text', { content_index: 0 }, 'text', (item) => item.content[0].text],
    ['reasoning_summary_text', { summary_index: 0 }, 'text', (item) => item.summary[0].text],
    ['function_call_arguments', {}, 'arguments', (item) => item.arguments],
    ['custom_tool_call_input', {}, 'input', (item) => item.input],
    ['mcp_call_arguments', {}, 'arguments', (item) => item.arguments],
    ['code_interpreter_call_code', {}, 'code', (item) => item.code],
  ];
  for (const [type, place, field, read] of grown) {
    let now: Response | null = response('r', { output: [{ type: 'any', id: 'i' }] as never });
    const say = (step: string, fields: object) =>
      (now = accumulate(now, {
        type: `response.${type}.${step}`,
        output_index: 0,
        ...place,
        ...fields,
      } as unknown as LogEvent));
    say('delta', { delta: 'ab' });
    say('delta', { delta: 'c' });
    assert.equal(read(now!.output[0]), 'abc', type);
    say('done', { [field]: 'abcd' });
    assert.equal(read(now!.output[0]), 'abcd', type);
  }
});
