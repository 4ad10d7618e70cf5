/** Questions of a model: a run that waits for a person, in whatever tab or program the answer is given. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { NETWORK_NOISE, canBeDeaf } from './tab.mjs';

/** Asks one question, with choices, and says what it got. Written by test_chat_page.py. */
export const ASKING = 'antiphon/script:asking';
const ORDERING = 'antiphon/script:ordering';
const QUESTION = '.reply-question';

/** The run of the last turn, and its call. @param {import('./tab.mjs').Tab} tab */
export async function waitingCall(tab) {
  await tab.until(() => document.querySelector('.reply.is-open'));
  const runId = (await tab.runs()).at(-1);
  const { output } = await tab.response(runId);
  return { runId, callId: output.findLast((item) => item.type === 'function_call').call_id };
}

/**
 * An unmodified client of the plain wire: it says no hello.
 * @param {string} url @param {string} runId @param {string} callId @param {string} output
 */
async function injectFromNode(url, runId, callId, output) {
  const WebSocket = createRequire(new URL('../clients/node/package.json', import.meta.url))('ws');
  const socket = new WebSocket(`${url.replace('http', 'ws')}v1/responses`);
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const input = [{ type: 'function_call_output', call_id: callId, output }];
  socket.send(JSON.stringify({ type: 'response.inject', response_id: runId, input }));
  const answer = await new Promise((resolve) => socket.once('message', resolve));
  socket.close();
  return JSON.parse(String(answer));
}

/** Both show the one answer to the call, the same text after it, and what the server has. */
export async function sameEverywhere(tabs, output) {
  for (const tab of tabs) {
    await tab.done();
    assert.equal(await tab.page.textContent('.reply-box .asked'), output);
    assert.ok(await tab.page.isHidden('.reply-fields'));
  }
  const response = await tabs[0].response();
  const given = response.output.filter(({ type }) => type === 'function_call_output');
  assert.deepEqual(
    given.map((item) => item.output),
    [output],
  );
  for (const tab of tabs) assert.deepEqual(await tab.answers(), await tabs[0].answers());
  await tabs[0].matchesText();
}

export const questions = {
  async the_demo_asks_and_goes_on_with_the_choice_of_the_person({ tab, url }) {
    await tab.open(url);
    await tab.page.click('#suggestions button >> nth=1');
    const { runId } = await waitingCall(tab);
    assert.match(await tab.page.textContent('.line'), /current_time of antiphon/);
    await tab.says('#activity', 'Waiting for your answer');
    await tab.says('.reply-note', 'Waits until');
    assert.equal(await tab.page.textContent('#spoken'), await tab.page.textContent(QUESTION));
    await tab.page.dblclick('.choices button >> nth=1');
    await tab.done();
    const choice = await tab.page.textContent('.reply-box .asked');
    assert.equal(choice, 'In the old library');
    assert.ok((await tab.answers()).at(-1).includes(choice));
    assert.equal((await tab.response()).id, runId);
    assert.equal((await tab.runs()).length, 1);
    await tab.send('And now?');
    await tab.until(() => document.querySelectorAll('.turn').length === 2);
    tab.assertClean();
  },

  async a_question_is_answered_with_the_keyboard_alone({ tab, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await tab.until(() => document.activeElement?.matches('.reply-field'));
    await tab.page.keyboard.type('With <b>words</b>');
    await tab.page.keyboard.press('Enter');
    await tab.until(() => document.activeElement?.id === 'draft');
    await sameEverywhere([tab], 'With <b>words</b>');
    tab.assertClean();
  },

  async parts_of_the_client_that_cannot_be_loaded_at_first_are_loaded_later({ tab, url }) {
    /** @type {Record<string, number>} */
    const asked = {};
    await tab.page.route(/antiphon-(tools|commands)\.js/, (route) => {
      const part = new URL(route.request().url()).pathname;
      asked[part] = (asked[part] ?? 0) + 1;
      // Tools: longer than one round of attempts.
      return asked[part] < (part.includes('tools') ? 9 : 3) ? route.abort() : route.continue();
    });
    await tab.open(url);
    await tab.send('What time is it where I am?');
    await tab.done();
    await tab.page.selectOption('#model', ASKING);
    await tab.send('Ask me.');
    await waitingCall(tab);
    await tab.page.click('.choices button >> nth=0');
    await tab.done(2);
    assert.equal(await tab.page.locator('.reply-box .asked').last().textContent(), 'Red');
    assert.deepEqual(asked, { '/vendor/antiphon-tools.js': 9, '/vendor/antiphon-commands.js': 3 });
    tab.assertClean(NETWORK_NOISE);
  },

  async a_draft_that_is_being_written_keeps_the_focus({ tab, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await tab.page.focus('#draft');
    await tab.page.keyboard.type('my next thought');
    await waitingCall(tab);
    assert.ok(['draft', ''].includes(await tab.page.evaluate(() => document.activeElement.id)));
    assert.ok('my next thought'.startsWith(await tab.page.inputValue('#draft')));
  },

  async a_program_without_hello_answers_and_both_tabs_see_it({ tab, another, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    const { runId, callId } = await waitingCall(tab);
    const second = await another();
    await second.open(url);
    await second.until(() => document.querySelector('.reply.is-open'));
    assert.equal(await second.page.textContent(QUESTION), await tab.page.textContent(QUESTION));
    assert.equal((await injectFromNode(url, runId, callId, 'said by a program')).type, 'response.inject.created');
    await sameEverywhere([tab, second], 'said by a program');
    for (const each of [tab, second]) await each.says('.reply-note', 'Answered in another tab or program');
    const late = await injectFromNode(url, runId, callId, 'said too late');
    assert.equal(late.error.code, 'already_resolved');
    for (const each of [tab, second]) each.assertClean();
  },

  async the_other_tab_answers_after_a_reload_in_mid_wait({ tab, another, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await waitingCall(tab);
    const second = await another();
    await second.open(url);
    await tab.reload();
    for (const each of [tab, second]) {
      await each.until(() => document.querySelector('.reply.is-open'));
      await each.says('.reply-note', 'Waits until');
    }
    await second.page.fill('.reply-field', 'from the other tab');
    await second.page.click('.reply-send');
    await sameEverywhere([tab, second], 'from the other tab');
    for (const each of [tab, second]) each.assertClean();
  },

  async of_two_answers_the_first_counts_and_the_other_is_told_quietly({ tab, another, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await waitingCall(tab);
    const second = await another();
    await second.page.addInitScript(canBeDeaf);
    await second.open(url);
    await second.until(() => document.querySelector('.reply.is-open'));
    await second.page.evaluate(() => (window.isDeaf = true));
    await tab.page.click('.choices button >> nth=0');
    await tab.done();
    await second.page.click('.choices button >> nth=1');
    await second.says('.reply-note', 'Somebody else was faster.');
    await second.page.evaluate(() => window.hearAgain());
    await sameEverywhere([tab, second], 'Red');
    await second.says('.reply-note', 'Somebody else was faster. Answered in another tab or program.');
    assert.ok(await tab.page.isHidden('.reply-note'));
    for (const each of [tab, second]) {
      assert.ok(await each.page.isHidden('#banner'), 'nobody is alarmed');
      each.assertClean(/409/);
    }
  },

  async a_question_waits_across_a_restart_of_the_server({ tab, url, restart, behindRelay }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: ASKING });
      await tab.send('Ask me.');
      const { runId } = await waitingCall(tab);
      relay.target(await restart());
      await tab.until(() => document.querySelector('#connection').textContent !== 'Connected');
      await tab.says('#connection', 'Connected');
      await tab.until(() => document.querySelector('.reply.is-open'));
      await tab.page.fill('.reply-field', 'still here');
      await tab.page.click('.reply-send');
      await sameEverywhere([tab], 'still here');
      assert.equal((await tab.response()).id, runId);
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async an_answer_given_without_a_network_arrives_when_it_is_back({ tab, url, behindRelay }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: ASKING });
      await tab.send('Ask me.');
      await waitingCall(tab);
      relay.down();
      await tab.says('#connection', 'Reconnecting');
      await tab.page.click('.choices button >> nth=0');
      await tab.says('.reply-note', 'Sending your answer');
      relay.up();
      await sameEverywhere([tab], 'Red');
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async stop_ends_a_question_and_the_conversation_goes_on({ tab, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await waitingCall(tab);
    await tab.page.keyboard.press('Escape');
    await tab.done(1, 'cancelled');
    await tab.says('.reply-note', 'This was not answered.');
    assert.ok(await tab.page.isHidden('.reply-fields'));
    await tab.page.selectOption('#model', 'antiphon/echo');
    await tab.send('still there?');
    await tab.done(2);
    assert.equal((await tab.answers()).at(-1), 'still there?');
    tab.assertClean();
  },

  async a_call_that_needs_approval_is_allowed_by_a_person({ tab, url }) {
    await tab.open(url, { model: ORDERING });
    await tab.send('Order it.');
    await tab.until(() => document.querySelector('.reply.is-open'));
    await tab.says(QUESTION, 'May order of antiphon be called with this?');
    assert.deepEqual(JSON.parse(await tab.page.textContent('.reply-fields pre')), { number: 7 });
    await tab.page.click('.choices button >> nth=0');
    await tab.done();
    assert.equal(await tab.page.textContent('.reply-box .asked'), 'Allowed');
    const call = tab.page.locator('.line', { hasText: 'order of antiphon' });
    assert.equal(await call.getAttribute('data-state'), 'done');
    tab.assertClean();
  },

  async a_waiting_question_fits_a_phone_and_names_every_control({ tab, url }) {
    await tab.page.setViewportSize({ width: 320, height: 640 });
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await waitingCall(tab);
    const overflow = await tab.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${overflow} pixels too wide`);
    const nameless = await tab.page.$$eval('.reply button, .reply input', (controls) =>
      controls
        .filter((control) => !(control.ariaLabel || control.textContent).trim())
        .map(({ outerHTML }) => outerHTML),
    );
    assert.deepEqual(nameless, []);
    const form = await tab.page.locator('form.reply').getAttribute('aria-labelledby');
    assert.ok(await tab.page.textContent(`#${form}`));
    const box = await tab.page.locator('.reply-send').boundingBox();
    assert.ok(box.height >= 36, `a target ${box.height} pixels high`);
    tab.assertClean();
  },
};
