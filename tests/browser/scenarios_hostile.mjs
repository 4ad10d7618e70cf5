/** Markup and scripts in everything that comes from other people, models, tools and upstreams. */
import assert from 'node:assert/strict';
import { ASKING, waitingCall } from './scenarios_questions.mjs';

/** Runs where it becomes markup. Each has its number, so that a text that is shown nowhere is noticed. */
const planted = [];
function hostile(where) {
  planted.push(`<img src=x onerror="window.ran=${planted.length}">${where}.`);
  return planted.at(-1);
}

const call = (id, name, given) => ({
  type: 'function_call',
  id: `fc_${id}`,
  call_id: id,
  status: 'completed',
  name,
  arguments: JSON.stringify(given),
});
const output = (id, text) => ({ type: 'function_call_output', call_id: id, output: text });

/** Every kind of item that the page shows, with something planted in each text of it. */
const items = () => [
  { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: hostile('a thought') }] },
  { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: hostile('an answer') }] },
  { type: 'message', id: 'msg_2', role: 'assistant', content: [{ type: 'refusal', refusal: hostile('a refusal') }] },
  { ...call('call_1', hostile('a tool'), {}), arguments: hostile('arguments') },
  output('call_1', hostile('an output')),
  {
    type: 'custom_tool_call',
    id: 'ct_1',
    call_id: 'call_2',
    name: 'custom',
    input: hostile('an input'),
    status: 'completed',
  },
  {
    type: 'mcp_list_tools',
    id: 'mcpl_1',
    server_label: hostile('a server'),
    tools: [{ name: hostile('a listed tool') }],
  },
  { type: 'mcp_list_tools', id: 'mcpl_2', server_label: 'two', tools: [], error: hostile('a listing error') },
  {
    type: 'mcp_call',
    id: 'mcp_1',
    name: hostile('a tool of a server'),
    server_label: 'x',
    arguments: hostile('its arguments'),
    output: hostile('its output'),
    status: 'completed',
  },
  {
    type: 'mcp_call',
    id: 'mcp_2',
    name: 'y',
    server_label: 'x',
    arguments: '',
    error: { content: [{ type: 'text', text: hostile('its error') }] },
    status: 'failed',
  },
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: hostile('a query') } },
  call('call_3', 'ask_person', { question: hostile('an old question'), choices: [] }),
  output('call_3', hostile('what a person said')),
];

const WAITING = ['call_4', 'call_5', 'mcpr_1'];

/** What still waits for a person. */
const waiting = () => [
  call('call_4', 'ask_person', { question: hostile('a question'), choices: [hostile('a choice')] }),
  call('call_5', 'read_selection', { reason: hostile('a reason') }),
  {
    type: 'mcp_approval_request',
    id: 'mcpr_1',
    name: hostile('a tool to allow'),
    server_label: hostile('its server'),
    arguments: hostile('what it gets'),
  },
];

const ids = (count) => Array.from({ length: count }, (_, index) => `resp_${String(index).repeat(32)}`);

/**
 * A conversation as its server would tell it, made of a real run.
 * @param {any} state @param {any} response
 */
function conversation(state, response) {
  const [one, two, three, four, five] = ids(5);
  const ended = (id, at, more) => ({ ...state, response_id: id, created_at: state.created_at + at, ...more });
  const states = [
    ended(one, 1, {
      principal: `user:${hostile('a writer')}`,
      resolved_calls: [{ call_id: 'call_3', by: `user:${hostile('who answered')}`, at: 1 }],
    }),
    ended(two, 2, { state: 'cancelled', terminal: { status: 'cancelled', by: `user:${hostile('who stopped')}` } }),
    ended(three, 3, { state: 'failed', terminal: { status: 'failed' } }),
    ended(four, 4, { principal: `user:${hostile('who wrote at once')}` }),
    ended(five, 5, {
      state: 'waiting_for_tool',
      terminal: null,
      participants: [
        { connection: 'c', principal: `user:${hostile('who is here')}`, role: 'driver', state: 'typing', label: null },
      ],
      pending_calls: WAITING.map((call_id) => ({
        call_id,
        name: 'x',
        kind: 'function',
        eligible: [],
        claim: { holder: `user:${hostile('who works on it')}`, expires_at: 9e9 },
        deadline: 9e9,
      })),
    }),
  ];
  const turn = (id, previous_response_id, more) => ({ ...response, id, previous_response_id, ...more });
  const error = { code: hostile('a code'), message: hostile('an error of the upstream') };
  const responses = {
    [one]: turn(one, response.id, { model: hostile('a model'), output: items() }),
    [two]: turn(two, one, { status: 'cancelled', output: [] }),
    [three]: turn(three, two, { status: 'failed', error, output: [] }),
    [four]: turn(four, two, {}),
    [five]: turn(five, two, { status: 'in_progress', output: waiting() }),
  };
  const inputs = Object.fromEntries(
    ids(5).map((id) => [id, [{ type: 'message', role: 'user', content: hostile(`what ${id.at(-1)} asked`) }]]),
  );
  return { states, responses, inputs };
}

/** The page is told of this history by its server. @param {import('./tab.mjs').Tab} tab */
async function isTold(tab, { states, responses, inputs }) {
  await tab.page.route('**/v1/conversations/*/runs*', async (route) => {
    const { data, ...page } = await (await route.fetch()).json();
    await route.fulfill({ json: { ...page, data: [...states.toReversed(), ...data] } });
  });
  await tab.page.route(/\/v1\/responses\/resp_(\d)\1{31}/, (route) => {
    const { pathname } = new URL(route.request().url());
    const [, id, isInput] = /(resp_\d+)(\/input_items)?/.exec(pathname);
    return route.fulfill({ json: isInput ? { data: inputs[id], has_more: false } : responses[id] });
  });
}

export const hostility = {
  async markup_and_scripts_from_anywhere_stay_text({ tab, url }) {
    planted.length = 0;
    await tab.open(url, { model: hostile('an unknown model') });
    await tab.send(hostile('a message'));
    await tab.says('.outcome', `There is no model '${planted[0]}' here.`);
    await tab.page.selectOption('#model', ASKING);
    await tab.page.click('.outcome button');
    await waitingCall(tab);
    await tab.says('.entry', planted[1]);
    await tab.page.route('**/inject', (route) =>
      route.fulfill({
        status: 400,
        json: { error: { code: 'invalid_input', message: hostile('a sentence of the server') } },
      }),
    );
    await tab.page.click('.choices button >> nth=0');
    await tab.until(
      (text) => document.querySelector('#banner').textContent.includes(text),
      'a sentence of the server.',
    );
    assert.equal(await tab.page.textContent('#banner .words'), planted.at(-1));
    await tab.page.unroute('**/inject');
    await tab.page.click('.choices button >> nth=0');
    await tab.done();
    await tab.page.click('#title');
    await tab.page.fill('dialog .text', hostile('a title'));
    await tab.page.keyboard.press('Enter');
    await tab.says('.entry', planted.at(-1));
    const { data } = await tab.get(
      `/v1/conversations/${new URL(await tab.link()).searchParams.get('conversation')}/runs`,
    );
    const gone = planted.slice(0, 3);

    await isTold(tab, conversation(data[0], await tab.response()));
    await tab.reload();
    await tab.until(() => document.querySelectorAll('.turn').length === 5);
    await tab.says('.fork:not([hidden])', 'also wrote here');
    const shown = await tab.page.evaluate(() => document.body.textContent);
    const missing = planted.filter((text) => !shown.includes(text) && !gone.includes(text));
    assert.deepEqual(missing, [], 'everything is shown, as text');
    for (const summary of await tab.page.locator('details:visible > summary').all()) await summary.click();
    assert.equal(await tab.page.evaluate(() => window.ran), undefined);
    assert.equal(await tab.page.locator('img').count(), 1, 'there is no picture but the sign of the page');
    tab.assertClean(/status of 400/);
  },
};
