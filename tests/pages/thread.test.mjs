import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newHead } from '../../server/antiphon/pages/js/chat/heads.js';
import { Shelf } from '../../server/antiphon/pages/js/chat/shelf.js';
import { Thread } from '../../server/antiphon/pages/js/chat/thread.js';
import { memoryArea } from '../../server/antiphon/pages/js/shared/areas.js';
import { FakeClient, FakeRun, aResponse, aState, asking, message, settled } from './support.mjs';

function aThread({
  client = new FakeClient(),
  shelf = new Shelf(memoryArea()),
  head = newHead('1', 'antiphon/demo', 0),
} = {}) {
  let ids = 0;
  const notices = [];
  const kept = new Map();
  const places = { get: (id) => kept.get(id) ?? null, keep: (id, runId) => kept.set(id, runId) };
  const owner = {
    now: () => 0,
    newId: () => `key${(ids += 1)}`,
    onChange: () => {},
    onHead: () => {},
    onNotice: (message) => notices.push(message),
    places,
  };
  return { thread: new Thread(client, head, shelf, owner), client, shelf, notices };
}

const known = { id: 'conv_1', title: '', model: 'antiphon/demo', createdAt: 0, updatedAt: 0 };
const past = (id, asked, answer, createdAt) => ({
  state: aState(id, { created_at: createdAt, state: 'completed', terminal: { status: 'completed' } }),
  input: asking(asked),
  response: aResponse(id, 'completed', [message(answer)]),
});
const said = ({ turns }) => turns.map(({ asked, status }) => [asked, status]);

test('a question is kept until the server has taken it, and asked with the same key after a reload', async () => {
  const { thread, client, shelf } = aThread();
  thread.send('Hello?');
  const again = aThread({ shelf, head: thread.head });
  assert.deepEqual(said(again.thread), [['Hello?', 'sending']]);
  assert.equal(again.client.creates[0].key, client.creates[0].key);
  assert.deepEqual(again.client.creates[0].input, asking('Hello?'));
  await again.client.runs[0].begins('resp_1');
  assert.deepEqual(shelf.unsent('new_1'), []);
  assert.deepEqual(aThread({ shelf, head: again.thread.head }).client.creates, []);
});

test('the conversation gets its name from the server, and the list too', async () => {
  const { thread, client, shelf } = aThread();
  thread.send('Hello?');
  await client.runs[0].begins('resp_1');
  assert.deepEqual([thread.head.id, thread.head.title], ['conv_1', 'Hello?']);
  assert.deepEqual(
    shelf.heads().map(({ id }) => id),
    ['conv_1'],
  );
  assert.equal(client.conversations[0].id, 'conv_1');
});

test('a refused question stays with its reason, over a reload too, and a retry takes its place', async () => {
  const { thread, client, shelf } = aThread();
  thread.send('Hello?');
  const error = Object.assign(new Error('No such model.'), { code: 'model_not_found' });
  client.runs[0].refuse(error);
  client.runs[0].tell('end', null, error);
  await settled();
  const { thread: reloaded, client: later } = aThread({ shelf, head: thread.head });
  assert.deepEqual(reloaded.turns[0].problem, { code: 'model_not_found', message: 'No such model.' });
  assert.deepEqual(later.creates, [], 'it is not asked again by itself');
  reloaded.retry(reloaded.turns[0]);
  assert.deepEqual(said(reloaded), [['Hello?', 'sending']]);
  assert.deepEqual(later.creates[0].input, asking('Hello?'));
});

test('the history and what goes on are one list, each run once', async () => {
  const client = new FakeClient();
  client.pages = [{ data: [past('resp_2', 'two', 'B', 2), past('resp_1', 'one', 'A', 1)], has_more: true }];
  client.inputs.set('resp_3', asking('three'));
  const { thread } = aThread({ client, head: known });
  const run = Object.assign(new FakeRun(), {
    id: 'resp_3',
    state: aState('resp_3', { created_at: 3, principal: 'key:bob' }),
  });
  client.conversations[0].tell('run', run);
  client.conversations[0].tell('run', run);
  await settled();
  assert.deepEqual(said(thread), [
    ['one', 'completed'],
    ['two', 'completed'],
    ['three', 'running'],
  ]);
  assert.equal(thread.turns[2].author, 'key:bob');
  assert.deepEqual([thread.hasMore, thread.head.title], [true, 'one']);
  client.conversations[0].tell('ready');
  await settled();
  assert.equal(thread.turns.length, 3);
  run.shows(aResponse('resp_3', 'completed', [message('C')]));
  thread.send('four');
  assert.equal(client.creates[0].previous_response_id, 'resp_3');
});

test('a run that a reload had asked for and that came through its conversation is shown once', async () => {
  const { thread, client, shelf } = aThread({ head: known });
  thread.send('Hello?');
  client.conversations[0].tell('run', Object.assign(new FakeRun(), { id: 'resp_1' }));
  await client.runs[0].begins('resp_1');
  assert.deepEqual(said(thread), [['Hello?', 'running']]);
  assert.deepEqual(shelf.unsent('conv_1'), []);
});

test('older turns come when they are asked for', async () => {
  const client = new FakeClient();
  client.pages = [
    { data: [past('resp_2', 'two', 'B', 2)], has_more: true },
    { data: [past('resp_1', 'one', 'A', 1)], has_more: false },
  ];
  const { thread } = aThread({ client, head: known });
  await settled();
  await thread.loadMore();
  assert.equal(client.conversations[0].asked.at(-1).before, 'resp_2');
  assert.deepEqual(
    said(thread).map(([asked]) => asked),
    ['one', 'two'],
  );
  assert.equal(thread.hasMore, false);
});

test('two who write at once have a branch each, and what is sent next goes on from the one that is shown', async () => {
  const client = new FakeClient();
  client.pages = [{ data: [past('resp_1', 'one', 'A', 1)], has_more: false }];
  const { thread } = aThread({ client, head: known });
  await settled();
  thread.send('mine');
  const theirs = Object.assign(new FakeRun(), { id: 'resp_3' });
  client.inputs.set('resp_3', asking('theirs'));
  client.conversations[0].tell('run', theirs);
  const answer = { previous_response_id: 'resp_1' };
  theirs.shows(aResponse('resp_3', 'completed', [message('C')], answer));
  theirs.is(aState('resp_3', { created_at: 3, principal: 'key:bob' }));
  await client.runs[0].begins('resp_2', { created_at: 2 });
  client.runs[0].shows(aResponse('resp_2', 'completed', [message('B')], answer));
  await settled();
  assert.deepEqual(
    said(thread).map(([asked]) => asked),
    ['one', 'mine'],
  );
  const [[shown, all]] = thread.forks;
  assert.deepEqual([shown.asked, all.map(({ asked }) => asked)], ['mine', ['mine', 'theirs']]);
  thread.goTo(all[1]);
  assert.deepEqual(
    said(thread).map(([asked]) => asked),
    ['one', 'theirs'],
  );
  thread.send('more');
  assert.equal(client.creates[1].previous_response_id, 'resp_3');
  assert.deepEqual(
    said(thread).map(([asked]) => asked),
    ['one', 'theirs', 'more'],
  );
});

test('as much history is read as it takes to know where branches part', async () => {
  const answer = (id, to, at) => {
    const turn = past(id, id, 'A', at);
    turn.response.previous_response_id = to;
    return turn;
  };
  const client = new FakeClient();
  client.pages = [
    { data: [answer('resp_5', 'resp_3', 5), answer('resp_4', 'resp_2', 4)], has_more: true },
    { data: [answer('resp_3', 'resp_1', 3), answer('resp_2', 'resp_1', 2)], has_more: true },
    { data: [answer('resp_1', null, 1)], has_more: false },
  ];
  const { thread } = aThread({ client, head: known });
  await settled();
  assert.deepEqual(
    client.conversations[0].asked.map(({ before }) => before),
    [undefined, 'resp_4'],
  );
  assert.deepEqual(
    said(thread).map(([asked]) => asked),
    ['resp_3', 'resp_5'],
  );
  assert.equal(thread.forks.size, 1);
});

test('a conversation that is not there is said to be so, a server that is away is waited for', async () => {
  const refused = (code, retryable) => [Object.assign(new Error('no'), { code, retryable })];
  const client = Object.assign(new FakeClient(), { pages: refused('conversation_not_found', false) });
  const { thread } = aThread({ client, head: known });
  await settled();
  assert.equal(thread.problem.code, 'conversation_not_found');
  const away = Object.assign(new FakeClient(), { pages: refused('connection_failed', true) });
  const { thread: waiting } = aThread({ client: away, head: known });
  await settled();
  assert.deepEqual([waiting.problem, waiting.isLoaded], [null, false]);
});

test('what is said into a run is shown until the run that follows has it', async () => {
  const { thread, client } = aThread();
  thread.send('Hello?');
  const [run] = client.runs;
  await run.begins('resp_1');
  assert.equal(await thread.steer('Shorter.'), true);
  assert.deepEqual(thread.turns[0].said, ['Shorter.']);
  client.inputs.set('resp_2', asking('Shorter.'));
  run.shows(aResponse('resp_1', 'incomplete', [], { incomplete_details: { reason: 'steered' } }));
  run.tell('successor', Object.assign(new FakeRun(), { id: 'resp_2', state: aState('resp_2', { created_at: 2 }) }));
  await settled();
  assert.deepEqual(said(thread), [
    ['Hello?', 'incomplete'],
    ['Shorter.', 'running'],
  ]);
  assert.deepEqual(thread.turns[0].said, []);
});

test('a steer that is refused is told and not shown', async () => {
  const { thread, client, notices } = aThread();
  thread.send('Hello?');
  await client.runs[0].begins('resp_1');
  client.runs[0].steer = async () => {
    throw Object.assign(new Error('It is ending.'), { code: 'response_not_active' });
  };
  assert.equal(await thread.steer('Shorter.'), false);
  assert.deepEqual([notices, thread.turns[0].said], [['It is ending.'], []]);
});

test('calls that nobody answered are answered for the model when the person goes on', async () => {
  const { thread, client } = aThread();
  thread.send('Hello?');
  await client.runs[0].begins('resp_1');
  client.runs[0].shows(
    aResponse('resp_1', 'completed', [{ type: 'function_call', call_id: 'call_1', name: 'x', status: 'completed' }]),
  );
  thread.send('Never mind.');
  const [output, question] = client.creates[1].input;
  assert.deepEqual([output.type, output.call_id, question.content], ['function_call_output', 'call_1', 'Never mind.']);
});
