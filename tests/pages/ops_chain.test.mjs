/** What was said to a run and which runs continue it, as the operators' page tells it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Chain } from '../../server/antiphon/pages/js/ops/chain.js';
import { steersOf } from '../../server/antiphon/pages/js/ops/steers.js';

const aRun = (id, fields = {}) => ({
  response_id: id,
  conversation_id: 'conv',
  state: 'completed',
  created_at: 100,
  steers: [],
  terminal: { status: 'completed' },
  ...fields,
});
const steer = (id, stage) => ({ id, stage, principal: 'key:anna' });

test('a steer of this page keeps its text, whatever becomes of it', () => {
  const own = { text: 'Blue!', id: '', refusal: '' };
  const running = aRun('a', { state: 'running', terminal: null });
  const stageOf = (run) => steersOf(run, [own]).map(({ text, stage }) => [text, stage]);
  assert.deepEqual(stageOf(running), [['Blue!', 'sending']]);
  own.id = 's1';
  assert.deepEqual(stageOf(running), [['Blue!', 'accepted']], 'taken, and the run does not tell of it yet');
  for (const stage of ['accepted', 'pending', 'applied', 'failed']) {
    assert.deepEqual(stageOf({ ...running, steers: [steer('s1', stage)] }), [['Blue!', stage]]);
  }
  const refused = { text: 'Red!', id: '', refusal: 'The response has ended.' };
  assert.deepEqual(steersOf({ ...running, steers: [steer('other', 'accepted')] }, [refused]), [
    { text: '', by: 'key:anna', stage: 'accepted', more: 'It is heard at the next step of this run.' },
    { text: 'Red!', by: '', stage: 'refused', more: 'The response has ended.' },
  ]);
});

test('why a steer was not heard is said as far as the end of the run tells it', () => {
  const why = (terminal) => steersOf(aRun('a', { terminal, steers: [steer('s', 'failed')] }), [])[0].more;
  assert.equal(why(null), '', 'the run has not ended yet');
  assert.equal(why({ status: 'cancelled', by: 'x' }), 'The run was cancelled before it was heard.');
  assert.equal(why({ status: 'failed', code: 'server_lost' }), 'The run failed before it was heard: server_lost.');
  assert.equal(why({ status: 'incomplete', code: 'steered' }), 'No run could follow this one.');
  assert.match(why({ status: 'incomplete', code: 'budget_exceeded' }), /which ended early: budget_exceeded/);
});

/** @param {Record<string, string | null | Error>} parents @param {object[]} listed */
function chainOf(parents, listed) {
  const asked = [];
  const api = {
    problem: null,
    runsOf: async (conversation) => {
      asked.push(conversation);
      if (api.problem) throw api.problem;
      return listed;
    },
    parentOf: async (id) => {
      asked.push(id);
      if (parents[id] instanceof Error) throw parents[id];
      return parents[id];
    },
  };
  return { api, asked, chain: new Chain(api, 'b', () => undefined) };
}

test('runs that continue one are found in its conversation once, and then among those of the table', async () => {
  const parents = { c: 'b', d: 'c', e: 'b', gone: new Error('not found') };
  const run = aRun('b');
  const { asked, chain } = chainOf(parents, [
    aRun('gone', { created_at: 103 }),
    aRun('d', { created_at: 102 }),
    aRun('c', { created_at: 101 }),
    run,
    aRun('a', { created_at: 99 }),
  ]);
  await chain.look(run, []);
  assert.deepEqual(asked, ['conv', 'c', 'd', 'gone'], 'later ones only, the nearest first');
  assert.deepEqual(chain.followers(run), ['c']);
  const rows = [{ run: aRun('e', { created_at: 104 }) }, { run: aRun('x', { conversation_id: 'other' }) }];
  await chain.look(run, rows);
  await chain.look(run, rows);
  assert.deepEqual(asked.slice(4), ['e'], 'none is asked for twice');
  assert.deepEqual(chain.followers(aRun('b', { terminal: { successor: 'e' } })), ['e', 'c'], 'the one it names first');
});

test('what could not be asked for is asked for again, and a long conversation is not asked through', async () => {
  const many = Array.from({ length: 100 }, (_, index) => aRun(`r${index}`, { created_at: 200 - index }));
  const lost = Object.assign(new Error('lost'), { retryable: true });
  const parents = Object.fromEntries(many.map(({ response_id: id }) => [id, null]));
  parents.r99 = lost;
  const { api, asked, chain } = chainOf(parents, many);
  api.problem = lost;
  await chain.look(aRun('b'), []);
  api.problem = null;
  await chain.look(aRun('b'), []);
  assert.deepEqual(asked, ['conv', 'conv', 'r99']);
  parents.r99 = 'b';
  await chain.look(aRun('b'), []);
  await chain.look(aRun('b'), []);
  assert.deepEqual(chain.followers(aRun('b')), ['r99']);
  assert.equal(new Set(asked).size, 1 + 8, 'of a hundred those that come next');
});

test('a conversation that is not to be had is asked for once, and runs of the table are still found', async () => {
  const { api, asked, chain } = chainOf({ c: 'b' }, []);
  api.problem = Object.assign(new Error('not found'), { retryable: false });
  const run = aRun('b');
  await chain.look(run, []);
  await chain.look(run, [{ run: aRun('c', { created_at: 101 }) }]);
  await chain.look(run, []);
  assert.deepEqual(asked, ['conv', 'c']);
  assert.deepEqual(chain.followers(run), ['c']);
});
