import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFiltered, plainView, searchOf, viewOf } from '../../server/antiphon/pages/js/ops/address.js';
import { arrange, choices, clients, firstDeadline, totals } from '../../server/antiphon/pages/js/ops/arrange.js';
import { callsOf } from '../../server/antiphon/pages/js/ops/calls.js';
import { Clock } from '../../server/antiphon/pages/js/ops/clock.js';
import { Feeds, busiest } from '../../server/antiphon/pages/js/ops/feeds.js';
import { Replay } from '../../server/antiphon/pages/js/ops/replay.js';
import { Rows } from '../../server/antiphon/pages/js/ops/rows.js';
import { Sampler } from '../../server/antiphon/pages/js/ops/sampler.js';
import { Growth, NamedGrowth, SAMPLES, Series } from '../../server/antiphon/pages/js/ops/series.js';
import { healthWords, noteOf } from '../../server/antiphon/pages/js/ops/server_view.js';
import { target } from '../../server/antiphon/pages/js/ops/moves.js';
import { withoutRepeats } from '../../server/antiphon/pages/js/ops/timeline_view.js';
import {
  count,
  feedWords,
  milliseconds,
  money,
  rate,
  span,
  untilDeadline,
} from '../../server/antiphon/pages/js/ops/words.js';

/** A run as the feed has it. */
const aRun = (id, fields = {}) => ({
  response_id: id,
  conversation_id: null,
  tenant: 'acme',
  labels: {},
  state: 'running',
  agent: null,
  model: 'm',
  principal: 'user:anna',
  created_at: 100,
  updated_at: 100,
  step: 1,
  current_tool: null,
  head: 0,
  pending_calls: [],
  resolved_calls: [],
  participants: [],
  usage: null,
  cost: null,
  terminal: null,
  ...fields,
});

function rowsOf(...runs) {
  const rows = new Rows();
  for (const run of runs) rows.upsert(run, 100);
  return rows;
}

const idsOf = (rows, view, now = 200) =>
  arrange(rows.byId.values(), { ...plainView(), ...view }, now).map(({ id }) => id);

test('numbers and spans keep their width', () => {
  assert.deepEqual([0, 999, 12_345, 99_999, 123_456].map(count), ['0', '999', '12,345', '99,999', '123K']);
  assert.deepEqual([0, 9.94, 12.3, 1234].map(rate), ['0.0', '9.9', '12', '1,234']);
  assert.deepEqual([null, 0.0021, 12, 1234].map(money), ['', '0.0021', '12.0000', '1,234']);
  assert.deepEqual([1.74, 380, 2310, 120_000].map(milliseconds), ['1.7 ms', '380 ms', '2.3 s', '120 s']);
  assert.deepEqual([-3, 8.9, 760, 7500, 273_600].map(span), ['0 s', '8 s', '12:40', '2 h 05', '3 d 04 h']);
  assert.equal(untilDeadline(110, 100), '10 s left');
  assert.equal(untilDeadline(100, 100), 'overdue');
});

test('how far the table can be believed is said with its age', () => {
  assert.deepEqual(feedWords('live', 100), { tone: 'good', text: 'Live' });
  assert.deepEqual(feedWords('stale', 12.7), { tone: 'bad', text: 'Stale since 12 s' });
  assert.deepEqual(feedWords('reset', 4), { tone: 'busy', text: 'Began anew 4 s ago' });
});

test('an address keeps the view, and a plain view has none', () => {
  assert.equal(searchOf(plainView()), '');
  const view = {
    ...plainView(),
    state: ['failed', 'running'],
    model: 'a&b=c',
    text: 'ü ?#',
    sort: 'rate',
    descending: false,
    run: 'resp_1',
  };
  assert.deepEqual(viewOf(searchOf(view)), view);
  assert.deepEqual(viewOf('?sort=nonsense&panel=other&unknown=1'), plainView());
  assert.equal(viewOf(`?text=${'x'.repeat(10_000)}`).text.length, 300);
  assert.equal(viewOf('?run=resp_1&panel=server').server, false, 'one panel at a time');
  assert.ok(isFiltered(viewOf('?state=failed')) && !isFiltered(viewOf('?tenant=acme&run=resp_1')));
});

test('lines are narrowed down by state, name and text', () => {
  const rows = rowsOf(
    aRun('a', { state: 'failed', model: 'echo', labels: { app: 'Shop' } }),
    aRun('b', { agent: 'reviewer', principal: 'key:ci' }),
    aRun('c', { current_tool: 'search' }),
  );
  assert.deepEqual(idsOf(rows, { state: ['failed', 'queued'] }), ['a']);
  assert.deepEqual(idsOf(rows, { agent: 'reviewer' }), ['b']);
  assert.deepEqual(idsOf(rows, { principal: 'key:ci', model: 'echo' }), []);
  assert.deepEqual(idsOf(rows, { text: ' APP=shop ' }), ['a']);
  assert.deepEqual(idsOf(rows, { text: 'sear' }), ['c']);
  assert.deepEqual(
    [...choices(rows.byId.values()).model],
    [
      ['echo', 1],
      ['m', 2],
    ],
  );
});

test('lines stand newest first, and equal ones keep their order whatever they are sorted by', () => {
  const rows = rowsOf(aRun('a', { created_at: 1 }), aRun('b', { created_at: 3 }), aRun('c', { created_at: 2 }));
  assert.deepEqual(idsOf(rows, {}), ['b', 'c', 'a']);
  for (const sort of ['state', 'agent', 'tool', 'cost', 'clients', 'pending']) {
    for (const descending of [true, false]) assert.deepEqual(idsOf(rows, { sort, descending }), ['b', 'c', 'a'], sort);
  }
  rows.upsert(aRun('a', { state: 'completed', created_at: 1, updated_at: 2 }), 100);
  assert.deepEqual(idsOf(rows, { sort: 'age', descending: false }), ['a', 'b', 'c'], 'what ended grows no older');
});

test('what waits for somebody shows its first deadline, and counts stand for many clients', () => {
  const calls = [
    { call_id: '1', name: 'x', deadline: 300 },
    { call_id: '2', name: 'y', deadline: 250 },
    { call_id: '3', name: 'z' },
  ];
  assert.equal(firstDeadline({ run: aRun('a', { pending_calls: calls }) }), 250);
  assert.equal(firstDeadline({ run: aRun('a') }), Infinity);
  const many = [
    { role: 'driver', state: 'watching', count: 120 },
    { role: 'viewer', state: 'watching', count: 3 },
  ];
  assert.equal(clients({ run: aRun('a', { participants: many }) }), 123);
});

test('counts are those of the states, not of what happened', () => {
  const rows = rowsOf(
    aRun('a'),
    aRun('b', { state: 'waiting_for_tool', cost: 0.5 }),
    aRun('c', { state: 'queued' }),
    aRun('d', { state: 'failed', cost: 0.25 }),
  );
  assert.deepEqual(totals(rows.byId.values()), { live: 3, waiting: 1, queued: 1, ended: 1, cost: 0.75 });
  rows.remove('b');
  rows.remove('b');
  assert.equal(totals(rows.byId.values()).live, 2);
});

test('events stand for tokens until those are counted', () => {
  const rows = rowsOf(aRun('a', { head: 2 }));
  const row = rows.byId.get('a');
  for (let second = 1; second <= 8; second += 1)
    rows.progress([{ response_id: 'a', head: 2 + 20 * second }], 100 + second);
  assert.ok(Math.abs(row.tokensPerS - 20) < 0.5, `${row.tokensPerS} a second`);
  assert.equal(row.outputTokens, 162);
  rows.rest(112);
  assert.equal(row.tokensPerS, 0);
  rows.upsert(aRun('a', { state: 'completed', head: 170, usage: { output_tokens: 150 } }), 110);
  assert.equal(row.outputTokens, 150);
  assert.equal(rows.events, 168);
});

test('what came before it was watched is no speed', () => {
  const rows = new Rows();
  rows.upsert(aRun('a', { head: 2 }), 100, true);
  rows.progress([{ response_id: 'a', head: 5_000 }], 101);
  assert.equal(rows.events, 0);
  assert.equal(rows.byId.get('a').tokensPerS, 0);
  rows.progress([{ response_id: 'a', head: 5_010 }], 102);
  assert.equal(rows.events, 10);
  assert.equal(rows.byId.get('a').tokensPerS, 10);
});

test('progress that comes after the end, or of nobody, changes nothing', () => {
  const rows = rowsOf(aRun('a', { state: 'completed', head: 9 }));
  rows.progress(
    [
      { response_id: 'a', head: 500 },
      { response_id: 'unknown', head: 3 },
    ],
    101,
  );
  assert.equal(rows.byId.get('a').head, 9);
  assert.equal(rows.byId.size, 1);
});

test('a counter has a speed over some seconds, and begins anew when it falls', () => {
  const growth = new Growth();
  assert.equal(growth.at(1, 100), null);
  assert.equal(growth.at(2, 110), 10);
  assert.equal(growth.at(3, 110), 5);
  assert.equal(growth.at(4, 7), null);
  assert.equal(growth.at(5, 10), 3);
  assert.equal(growth.at(5.1, 10) < 3, true);
  growth.forget();
  assert.deepEqual([growth.at(9, 20), growth.at(9.1, 40)], [null, null], 'two in one moment say nothing');
});

test('errors are counted by code from when somebody watches', () => {
  const errors = new NamedGrowth();
  errors.take([['rate_limited', 50]]);
  assert.deepEqual(
    [
      ...errors.take([
        ['rate_limited', 52],
        ['timeout', 3],
      ]),
    ],
    [
      ['rate_limited', 2],
      ['timeout', 3],
    ],
  );
  assert.deepEqual(errors.largest(1), [['timeout', 3]]);
});

test('a sample has nothing of what could not be seen', () => {
  const rows = rowsOf(aRun('a'));
  const sampler = new Sampler();
  const how = { now: 1, isLive: true, mayAsk: false };
  assert.equal(sampler.sample(rows, null, how).firstToken, undefined, 'viewers cannot know it');
  rows.progress([{ response_id: 'a', head: 30 }], 101);
  assert.equal(sampler.sample(rows, null, { ...how, now: 2 }).eventsPerS, 30);
  assert.equal(sampler.sample(rows, null, { ...how, now: 3, isLive: false }).eventsPerS, null);
  rows.upsert(aRun('a', { state: 'failed', terminal: { status: 'failed', code: 'server_lost' } }), 102);
  assert.deepEqual([...sampler.sample(rows, null, { ...how, now: 4 }).errors], [['server_lost', 1]]);
});

test('a run counts as failed also if it is told of for the first time when it has', () => {
  const failed = { state: 'failed', terminal: { status: 'failed', code: 'timeout' } };
  const rows = new Rows();
  rows.upsert(aRun('before', failed), 100, true);
  rows.upsert(aRun('short', failed), 101);
  rows.upsert(aRun('long'), 102);
  rows.upsert(aRun('long', failed), 103);
  rows.upsert(aRun('long', failed), 104);
  assert.deepEqual([...rows.failures], [['timeout', 2]]);
});

test('errors say since when they are counted', () => {
  const rows = new Rows();
  rows.upsert(aRun('a', { state: 'failed', terminal: { status: 'failed', code: 'timeout' } }), 100);
  const operator = new Sampler().sample(rows, { totals: null }, { now: 101, isLive: true, mayAsk: true });
  assert.deepEqual([operator.errorSums, operator.errorsSince], [[['timeout', 1]], 101], 'before the first look, too');
  const admin = new Sampler();
  const how = { isLive: true, mayAsk: true };
  assert.equal(admin.sample(rows, null, { ...how, now: 101 }).errorsSince, null, 'the server has not said it yet');
  const sums = (timeout) => ({ totals: { errors: { timeout }, first_token_ms: null } });
  assert.deepEqual(admin.sample(rows, sums(7), { ...how, now: 103 }).errorSums, []);
  const later = admin.sample(rows, sums(8), { ...how, now: 105 });
  assert.deepEqual([later.errorSums, later.errorsSince], [[['timeout', 1]], 103]);
});

test('what sums over all tenants is for admins: operators see their own failures, and the server without it', () => {
  const sums = { runs_started: 7, events: 90, first_token_ms: { p50: 1, p99: 2 }, errors: { timeout: 5 } };
  const [mine, all] = [{ version: '1', totals: null }, { version: '1', totals: sums }];
  const how = { now: 1, isLive: true, mayAsk: true };
  const rows = rowsOf(aRun('a'));
  const [operator, admin] = [new Sampler(), new Sampler()];
  assert.equal(operator.sample(rows, null, how).firstToken, null, 'not known yet');
  assert.equal(operator.sample(rows, mine, how).firstToken, undefined, 'not to be known');
  rows.upsert(aRun('a', { state: 'failed', terminal: { status: 'failed', code: 'server_lost' } }), 102);
  assert.deepEqual([...operator.sample(rows, mine, { ...how, now: 2 }).errors], [['server_lost', 1]]);
  assert.equal(noteOf(mine, 0), 'Version 1.');
  admin.sample(rows, null, how);
  assert.deepEqual([...admin.sample(rows, all, how).errors], [], 'what was before the page is not new');
  assert.deepEqual(admin.sample(rows, all, how).firstToken, { p50: 1, p99: 2 });
  assert.equal(noteOf(all, 0), 'Version 1. 7 runs and 90 events since the start.');
});

test('charts keep three minutes', () => {
  const series = new Series(1);
  for (let at = 0; at < SAMPLES + 20; at += 1) series.push(at, [at]);
  assert.equal(series.times.length, SAMPLES);
  assert.equal(series.values[0].at(-1), SAMPLES + 19);
});

test('a replay spreads the events evenly over the time the run took', () => {
  const replay = new Replay(100, 20, 1, 1_000);
  assert.deepEqual(
    [999, 1_000, 1_005, 1_019.9, 1_020, 2_000].map((now) => replay.position(now)),
    [0, 0, 25, 99, 100, 100],
  );
  assert.equal(new Replay(100, 20, 4, 0).position(2.5), 50);
  assert.equal(new Replay(100, 20, Infinity, 0).position(0), 100);
  assert.equal(new Replay(10, 0, 1, 0).position(0.5), 5, 'a run that took no time is still to be seen');
});

test('the clock is that of the server, however wrong the browser is', () => {
  let local = 5_000_000;
  const clock = new Clock(() => local);
  assert.equal(clock.now(), 5_000);
  clock.heard(4_000);
  clock.heard(3_990);
  assert.equal(clock.now(), 4_000, 'what was long on its way counts less');
  local += 2_000;
  assert.equal(clock.now(), 4_002);
});

test('calls come from the log, their deadlines from the state, their times from the timeline', () => {
  const output = [
    { type: 'message', content: [] },
    { type: 'function_call', call_id: 'c1', name: 'ask', arguments: '{"q":1}', status: 'completed' },
    { type: 'mcp_call', id: 'm1', name: 'search', arguments: '{}', output: 'found', status: 'completed' },
    { type: 'mcp_call', id: 'm2', name: 'broken', arguments: '{}', error: 'no', status: 'failed' },
    { type: 'function_call_output', call_id: 'c0', output: 'of another run' },
  ];
  const held = aRun('a', {
    pending_calls: [{ call_id: 'c1', name: 'ask', deadline: 300, claim: { holder: 'user:ben' } }],
  });
  const timeline = [
    { event: 'run.tool.resolved', at: 1, data: { call_id: 'm1', owner: 'server', duration_ms: 12, ok: true } },
  ];
  const [ask, search, broken] = callsOf(output, held, timeline);
  assert.deepEqual([ask.stage, ask.deadline, ask.by, ask.given], ['waiting', 300, 'user:ben', '{"q":1}']);
  assert.deepEqual([search.stage, search.output, search.durationMs, search.owner], ['done', 'found', 12, 'server']);
  assert.equal(broken.stage, 'failed');
  const answered = [...output, { type: 'function_call_output', call_id: 'c1', output: 'Red' }];
  const resolved = aRun('a', { resolved_calls: [{ call_id: 'c1', by: 'user:ben', at: 2 }] });
  const [after] = callsOf(answered, resolved, []);
  assert.deepEqual([after.stage, after.output, after.by, after.deadline], ['done', 'Red', 'user:ben', null]);
});

test('a timeline does not repeat changes without a name', () => {
  const timeline = ['run.created', 'run.updated', 'run.updated', 'run.tool.called', 'run.tool.called'].map((event) => ({
    event,
    at: 1,
    data: {},
  }));
  assert.deepEqual(
    withoutRepeats(timeline).map(({ moment, times }) => [moment.event, times]),
    [
      ['run.created', 1],
      ['run.updated', 2],
      ['run.tool.called', 1],
      ['run.tool.called', 1],
    ],
  );
});

test('the server is as well as the worst of its parts', () => {
  const well = {
    nodes: [{ state: 'ready' }, { state: 'ready' }],
    upstreams: [{ breaker: 'closed' }],
    bus: { healthy: true },
    store: { healthy: true },
  };
  const says = (changed, silent = 0) => healthWords({ ...well, ...changed }, silent).text;
  assert.equal(says({}), '2 nodes ready');
  assert.equal(says({ nodes: [{ state: 'silent' }, { state: 'ready' }] }), '1 node not ready');
  assert.equal(says({ upstreams: [{ breaker: 'open' }, { breaker: 'half_open' }] }), '2 breakers open');
  assert.equal(says({ bus: { healthy: false } }), 'Bus is away');
  assert.equal(says({ store: { healthy: false }, bus: { healthy: false } }), 'Store is away');
  assert.equal(says({}, 30), 'Server silent for 30 s');
});

test('of many tenants the busiest are watched, and those that are watched stay', () => {
  const tenants = [
    { id: 'a', live_runs: 1 },
    { id: 'b', live_runs: 9 },
    { id: 'c', live_runs: 4 },
    { id: 'd', live_runs: 4 },
  ];
  assert.deepEqual(busiest(tenants, [], 2), ['b', 'c']);
  assert.deepEqual(busiest(tenants, ['a', 'b'], 2), ['b', 'a']);
  assert.deepEqual(busiest(tenants, ['gone'], 9), ['b', 'c', 'd', 'a']);
});

/** A client whose feeds the test plays. */
class FakeClient {
  feeds = [];
  feed(options) {
    const heard = {};
    const feed = {
      options,
      rows: new Map(),
      status: 'connecting',
      updatedAt: 0,
      on: (name, listener) => (heard[name] = listener),
      says: (name, given) => {
        if (name === 'status') feed.status = given;
        heard[name](given);
      },
      close: () => (feed.isClosed = true),
    };
    this.feeds.push(feed);
    return feed;
  }
}

test('feeds are as true as the worst of them, and say since when', () => {
  let local = 10_000;
  const client = new FakeClient();
  const feeds = new Feeds(client, { changed: () => undefined, failed: () => undefined }, new Clock(() => local));
  feeds.watch(['a', 'b']);
  assert.equal(feeds.standing().status, 'connecting');
  for (const feed of client.feeds) feed.says('status', 'live');
  assert.equal(feeds.standing().status, 'live');
  client.feeds[1].updatedAt = 8_000;
  client.feeds[1].says('status', 'stale');
  assert.deepEqual(
    feeds.standing(),
    { status: 'stale', since: 8_000 },
    'since the last word, not since it was noticed',
  );
  client.feeds[1].says('status', 'reset');
  client.feeds[1].says('status', 'live');
  assert.equal(feeds.standing().status, 'reset', 'that it began anew is said for a while');
  local += 11_000;
  assert.equal(feeds.standing().status, 'live');
  client.feeds[1].rows.set('x', aRun('x'));
  client.feeds[1].says('change', { upserted: [aRun('x')], removed: [] });
  client.feeds[0].says('change', { upserted: [aRun('y')], removed: [] });
  feeds.watch(['a']);
  assert.deepEqual([...feeds.rows.byId.keys()], ['y'], 'with its feed a tenant leaves the table');
  assert.ok(client.feeds[1].isClosed && !client.feeds[0].isClosed);
});

test('what a feed begins with was there before, and the first change after it is new, also behind an empty table', () => {
  const client = new FakeClient();
  const feeds = new Feeds(client, { changed: () => undefined, failed: () => undefined }, new Clock(() => 1_000));
  const failed = (id) => aRun(id, { state: 'failed', head: 5, terminal: { status: 'failed', code: 'timeout' } });
  feeds.watch(['empty', 'busy']);
  const [empty, busy] = client.feeds;
  empty.says('status', 'live');
  empty.says('change', { upserted: [failed('short')], removed: [] });
  assert.deepEqual([...feeds.rows.failures], [['timeout', 1]]);
  busy.rows.set('before', failed('before')).set('long', aRun('long', { head: 3 }));
  busy.says('status', 'live');
  busy.says('change', { upserted: [failed('before'), failed('long'), failed('new')], removed: [] });
  assert.deepEqual([...feeds.rows.failures], [['timeout', 3]]);
});

test('keys move through the table and stop at its ends', () => {
  assert.equal(target('ArrowDown', -1, 5, 3), 0);
  assert.equal(target('ArrowDown', 4, 5, 3), 4);
  assert.equal(target('ArrowUp', 0, 5, 3), 0);
  assert.equal(target('PageDown', 0, 5, 3), 3);
  assert.equal(target('End', 0, 5, 3), 4);
  assert.equal(target('a', 0, 5, 3), null);
  assert.equal(target('ArrowDown', 0, 0, 3), null);
});
