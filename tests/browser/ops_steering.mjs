/** What becomes of what an operator says to a run, and the way to the runs before and after it. */
import assert from 'node:assert/strict';
import { OpsTab } from './ops_tab.mjs';

const ASK = { type: 'function', name: 'ask_person', parameters: { type: 'object' } };

/** @param {OpsTab} tab @param {string} text */
async function say(tab, text) {
  await tab.page.click('#panel >> text="Steer"');
  await tab.page.fill('dialog textarea', text);
  await tab.page.click('dialog >> text="Steer"');
}

export const steering = {
  async a_steer_is_seen_to_be_queued_and_heard_and_the_run_that_heard_it_is_linked({ context, url, server }) {
    const driver = server.as('driver');
    const target = await driver.beginAsking();
    const tab = await OpsTab.open(context, url, 'operator');
    await tab.shows(target, 'waiting_for_tool');
    await tab.page.click(`#row-${target}`);
    await tab.says('#part-stream', 'One thing first.');
    assert.equal(await tab.page.isVisible('.steers'), false, 'nothing was said yet');
    await say(tab, 'Take <b>blue</b>.');
    await tab.says('.steers', 'Take <b>blue</b>.by key:operatorQueued');
    await tab.says('.steers', 'heard once the calls of this run are answered');
    await driver.answerCall(target);
    await tab.says('.steers', 'Delivered');
    await tab.says('.chain', 'Goes on, as it was steered, in');
    const { successor } = (await driver.state(target)).terminal;
    assert.equal(await tab.page.getAttribute('.chain a', 'href'), `/ops?run=${successor}`);
    await tab.page.click('.chain a');
    await tab.until((id) => location.search === `?run=${id}`, successor);
    await tab.until(() => document.activeElement.id === 'panel-title');
    await tab.says('.chain', 'Continues');
    await tab.shows(successor, 'waiting_for_tool');
    // The page may have read its beginning already, on behalf of the run before: it is not to be missing now.
    const { head } = await driver.state(successor);
    await tab.until((events) => document.querySelector('.played-words').textContent === events, eventsOf(head));
    await tab.page.click('.chain a');
    await tab.until((id) => location.search === `?run=${id}`, target);
    await tab.says('.chain', 'Goes on');
    await driver.ask('POST', `/v1/responses/${successor}/cancel`);
    tab.assertClean();
  },

  async a_steer_of_somebody_else_waits_for_the_next_run_which_is_linked_when_it_comes({ context, url, server }) {
    const driver = server.as('driver');
    const first = await driver.begin('antiphon/echo');
    await driver.ended(first);
    const target = await driver.begin('antiphon/script:leaving', { tools: [ASK], previous_response_id: first });
    assert.equal((await driver.ask('POST', `/v1/responses/${target}/steer`, { input: 'Blue!' })).status, 200);
    const tab = await OpsTab.open(context, url, 'viewer', `?run=${target}`);
    await tab.says('.steers', 'A messageby key:driver');
    await tab.says('.steers', 'Waits for the next run');
    await tab.says('.chain', 'Continues');
    await driver.ended(target);
    const { output } = (await driver.ask('GET', `/v1/responses/${target}`)).body;
    const { call_id } = output.find(({ type }) => type === 'function_call');
    const next = await driver.begin('antiphon/echo', {
      previous_response_id: target,
      input: [{ type: 'function_call_output', call_id, output: 'Red.' }],
    });
    await tab.says('.steers', 'Delivered');
    await tab.says('.chain', 'Continued by');
    assert.deepEqual(await tab.page.$$eval('.chain a', (links) => links.map(({ title }) => title)), [first, next]);
    tab.assertClean();
  },

  async a_steer_that_was_not_heard_says_why({ context, url, server }) {
    const driver = server.as('driver');
    const cancelled = await driver.beginAsking();
    const tab = await OpsTab.open(context, url, 'operator', `?run=${cancelled}`);
    await tab.says('#part-stream', 'One thing first.');
    await say(tab, 'Too late.');
    await tab.says('.steers', 'Queued');
    await tab.page.click('#panel >> text="Steer"');
    await tab.page.fill('dialog textarea', 'Much too late.');
    await driver.ask('POST', `/v1/responses/${cancelled}/cancel`);
    await tab.says('.steers', 'FailedThe run was cancelled before it was heard.');
    await tab.page.click('dialog >> text="Steer"');
    await tab.says('.steers', 'Much too late.RefusedThe response is cancelled and takes no steering.');
    assert.equal(await tab.page.isVisible('#banner'), false, 'said once, where it was asked');
    tab.assertClean(/status of 409|status of 400/);
  },
};

/** As the panel counts the events of a run that ended. @param {number} head */
const eventsOf = (head) => `${head + 1} of ${head + 1} events`;
