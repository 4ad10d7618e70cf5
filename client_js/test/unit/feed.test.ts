import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ENDED_STAY_S, FeedState, type FeedFrame } from '../../src/core/feed.js';
import type { FeedDelta, RunState } from '../../src/index.js';
import { AntiphonError } from '../../src/core/errors.js';
import { Feed } from '../../src/shell/feed.js';
import type { Session } from '../../src/shell/session.js';

function row(id: number, revision: number, state: RunState['state'] = 'running', updated_at = 0): RunState {
  return { response_id: `resp_${id}`, revision, state, updated_at, created_at: 0, epoch: 'run' } as RunState;
}

/** A feed as a server keeps it, and what a subscription that begins at a position is told. */
class Told {
  rows = new Map<string, RunState>();
  log: FeedDelta[] = [];

  change(id: number, isGone: boolean): void {
    const rev = this.log.length + 1;
    const run = row(id, rev);
    if (isGone) this.rows.delete(run.response_id);
    else this.rows.set(run.response_id, run);
    const fields = { tenant: 't', epoch: 'e', event: 'run.updated', data: {}, at: 0 };
    this.log.push({
      type: 'antiphon:feed.delta',
      rev,
      prev: rev - 1,
      op: isGone ? 'remove' : 'upsert',
      run,
      ...fields,
    });
  }

  from(rev: number | null): FeedFrame[] {
    const at = { tenant: 't', epoch: 'e' };
    const bookmark = (n: number) => ({ type: 'antiphon:feed.bookmark', ...at, rev: n, initial: true }) as FeedFrame;
    if (rev !== null) return [bookmark(rev), ...this.log.slice(rev)];
    const items = [...this.rows.values()].map((run) => ({ type: 'antiphon:feed.item', tenant: 't', run }) as FeedFrame);
    return [...items, bookmark(this.log.length)];
  }
}

const change = fc.tuple(fc.nat(5), fc.boolean());

test('whatever is lost between connections, the rows are those of the server in the end', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.array(change, { maxLength: 6 }), fc.nat(8), fc.boolean()), { maxLength: 15 }),
      (rounds) => {
        const server = new Told();
        const feed = new FeedState();
        const connect = (isTooOld: boolean, most: number) => {
          const from = feed.begin();
          const frames: FeedFrame[] =
            from && isTooOld ? [{ type: 'antiphon:feed.reset', tenant: 't', reason: 'too_old' }] : [];
          frames.push(...server.from(frames.length ? null : (from?.rev ?? null)));
          for (const frame of frames.slice(0, most)) assert.ok(!feed.take(frame, 0).hasGap);
        };
        for (const [changes, most, isTooOld] of rounds) {
          for (const [id, isGone] of changes) server.change(id, isGone);
          connect(isTooOld, most);
        }
        connect(false, Infinity);
        assert.deepEqual(new Map([...feed.rows].sort()), new Map([...server.rows].sort()));
        assert.equal(feed.cursor?.rev, server.log.length);
      },
    ),
  );
});

test('a delta that does not follow is a gap, one that was seen is dropped', () => {
  const server = new Told();
  const feed = new FeedState();
  for (const frame of server.from(null)) feed.take(frame, 0);
  for (let id = 0; id < 3; id++) server.change(id, false);
  const [first, second, third] = server.log;
  assert.equal(feed.take(first!, 0).upserted.length, 1);
  assert.ok(feed.take(third!, 0).hasGap);
  assert.equal(feed.rows.size, 1);
  feed.take(second!, 0);
  assert.deepEqual(feed.take(first!, 0), { upserted: [], removed: [] });
  assert.equal(feed.take(third!, 0).upserted.length, 1);
});

test('rows that are not in a new snapshot are told as removed', () => {
  const feed = new FeedState();
  const server = new Told();
  server.change(1, false);
  for (const frame of server.from(null)) feed.take(frame, 0);
  feed.take({ type: 'antiphon:feed.reset', tenant: 't', reason: 'epoch' }, 0);
  const change = feed.take({ type: 'antiphon:feed.bookmark', tenant: 't', epoch: 'f', rev: 9, initial: true }, 0);
  assert.deepEqual(change.removed, ['resp_1']);
  assert.deepEqual(feed.cursor, { epoch: 'f', rev: 9 });
});

test('ended rows leave in silence when their time is over, by the clock of the server', () => {
  const feed = new FeedState();
  feed.take({ type: 'antiphon:feed.bookmark', tenant: 't', epoch: 'e', rev: 0, initial: true }, 0);
  const fields = { tenant: 't', epoch: 'e', event: 'run.completed', data: {}, op: 'upsert' as const };
  // The server's clock is 1000 s ahead of ours.
  feed.take(
    { type: 'antiphon:feed.delta', rev: 1, prev: 0, run: row(1, 1, 'completed', 1000), at: 1000, ...fields },
    0,
  );
  feed.take({ type: 'antiphon:feed.delta', rev: 2, prev: 1, run: row(2, 1, 'running', 1000), at: 1000, ...fields }, 0);
  assert.deepEqual(feed.prune(ENDED_STAY_S - 1).removed, []);
  assert.deepEqual(feed.prune(ENDED_STAY_S + 1).removed, ['resp_1']);
  assert.deepEqual([...feed.rows.keys()], ['resp_2']);
});

test('after a pause the clock of the server is not taken from old deltas', () => {
  const feed = new FeedState();
  feed.take({ type: 'antiphon:feed.bookmark', tenant: 't', epoch: 'e', rev: 0, initial: true }, 0);
  const fields = { tenant: 't', epoch: 'e', event: 'run.updated', data: {}, op: 'upsert' as const };
  feed.take({ type: 'antiphon:feed.delta', rev: 1, prev: 0, run: row(1, 1, 'running', 9), at: 9.9, ...fields }, 10);
  // It slept; what happened meanwhile is told 600 s later.
  feed.take({ type: 'antiphon:feed.delta', rev: 2, prev: 1, run: row(1, 2, 'completed', 20), at: 20, ...fields }, 620);
  assert.deepEqual(feed.prune(620).removed, ['resp_1']);
});

test('a feed that is refused gives what it had, then the reason', async () => {
  const session = { subscribe: () => () => {} } as unknown as Session;
  const nothing = () => {};
  const feed = new Feed(session, {}, () => false, nothing);
  const deltas = feed[Symbol.asyncIterator]();
  const first = deltas.next();
  feed.take({ type: 'antiphon:feed.bookmark', tenant: 't', epoch: 'e', rev: 0, initial: true });
  for (const rev of [1, 2, 3]) {
    const fields = { tenant: 't', epoch: 'e', event: 'run.updated', data: {}, op: 'upsert', at: 0 };
    feed.take({ type: 'antiphon:feed.delta', rev, prev: rev - 1, run: row(rev, rev), ...fields });
  }
  feed.end(new AntiphonError({ code: 'tenant_not_found', message: 'No.', retryable: false }));
  const seen = [(await first).value!.rev, (await deltas.next()).value!.rev, (await deltas.next()).value!.rev];
  assert.deepEqual(seen, [1, 2, 3]);
  await assert.rejects(deltas.next(), { code: 'tenant_not_found' });
});
