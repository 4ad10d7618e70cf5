/** Reloads, networks and tabs that come and go in the middle of an answer. */
import assert from 'node:assert/strict';
import { Relay } from './relay.mjs';
import { PATIENT, SLOW } from './scenarios_basics.mjs';
import { NETWORK_NOISE, textOf } from './tab.mjs';

/** Runs a scenario behind a relay, which is closed at its end. */
export async function behindRelay(url, run) {
  const relay = await Relay.to(url);
  try {
    await run(relay);
  } finally {
    await relay.close();
  }
}

export const continuity = {
  async a_reload_in_mid_answer_shows_the_whole_answer_once({ tab, url }) {
    await tab.open(url, { model: PATIENT });
    await tab.send('Tell me a story.');
    await tab.hasWritten(60);
    const [before] = await tab.answers();
    await tab.reload();
    await tab.done();
    assert.equal((await tab.answers()).length, 1);
    assert.ok((await tab.answers())[0].length > before.length);
    await tab.matchesServer();
    tab.assertClean();
  },

  async reloads_at_any_moment_neither_lose_nor_double_anything({ tab, url }) {
    await tab.open(url, { model: SLOW });
    await tab.send('Tell me a story.');
    await tab.page.reload();
    for (const characters of [1, 40, 150, 260]) {
      await tab.hasWritten(characters);
      await tab.page.reload();
    }
    await tab.done();
    await tab.page.reload();
    await tab.done();
    assert.equal((await tab.answers()).length, 1);
    await tab.matchesServer();
  },

  async a_dropped_network_in_mid_answer_is_continued({ tab, url }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: PATIENT });
      await tab.send('Tell me a story.');
      await tab.hasWritten(60);
      relay.down();
      await tab.until(() => !document.querySelector('#banner').hidden);
      await tab.says('#activity', 'Waiting for the connection');
      await tab.says('#connection', 'Reconnecting');
      relay.up();
      await tab.says('#connection', 'Connected');
      await tab.done();
      await tab.matchesServer();
      assert.equal((await tab.runs()).length, 1);
      assert.ok(await tab.page.isHidden('#banner'));
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async an_offline_device_says_so_and_goes_on_when_it_is_back({ tab, context, url }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: PATIENT });
      await tab.send('Tell me a story.');
      await tab.hasWritten(60);
      await context.setOffline(true);
      relay.down();
      await tab.says('#banner', 'You are offline');
      await tab.says('#connection', 'Offline');
      relay.up();
      await context.setOffline(false);
      await tab.done();
      await tab.matchesServer();
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async a_dead_path_without_a_close_is_noticed_on_waking_up({ tab, url }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: PATIENT });
      await tab.send('Tell me a story.');
      await tab.hasWritten(60);
      relay.swallow();
      await tab.page.evaluate(() => window.dispatchEvent(new Event('online')));
      await tab.done();
      await tab.matchesServer();
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async a_question_asked_without_a_network_is_answered_once_later({ tab, another, url }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: 'antiphon/echo' });
      relay.down();
      await tab.says('#connection', 'Reconnecting');
      await tab.send('asked in the dark');
      await tab.says('#activity', 'Waiting for the connection');
      await tab.page.close();
      relay.up();
      const later = await another();
      await later.open(relay.url);
      await later.done();
      assert.deepEqual(await later.answers(), ['asked in the dark']);
      await later.matchesServer();
      later.assertClean();
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async a_killed_server_is_told_truthfully_and_can_be_asked_again({ tab, url, restart }) {
    await behindRelay(url, async (relay) => {
      await tab.open(relay.url, { model: PATIENT });
      await tab.send('Tell me a story.');
      await tab.hasWritten(60);
      relay.target(await restart());
      await tab.done(1, 'failed');
      const response = await tab.response();
      assert.equal(response.status, 'failed');
      await tab.says('.outcome', response.error.message);
      assert.equal((await tab.answers()).join(''), textOf(response));
      await tab.page.selectOption('#model', SLOW);
      await tab.page.click('.outcome button');
      await tab.done();
      await tab.matchesServer();
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async stop_ends_the_answer_and_the_conversation_goes_on({ tab, url }) {
    await tab.open(url, { model: PATIENT });
    await tab.send('Tell me a story.');
    await tab.hasWritten(60);
    await tab.page.keyboard.press('Escape');
    await tab.done(1, 'cancelled');
    await tab.says('.outcome', 'This answer was stopped.');
    await tab.says('#activity', 'Stopped');
    assert.equal((await tab.response()).status, 'cancelled');
    await tab.page.selectOption('#model', 'antiphon/echo');
    await tab.send('still there?');
    await tab.done(2);
    assert.equal((await tab.answers()).at(-1), 'still there?');
    tab.assertClean();
  },

  async stop_works_after_a_reload({ tab, url }) {
    await tab.open(url, { model: PATIENT });
    await tab.send('Tell me a story.');
    await tab.hasWritten(60);
    await tab.reload();
    await tab.page.click('#stop');
    await tab.done(1, 'cancelled');
    assert.equal((await tab.response()).status, 'cancelled');
    tab.assertClean();
  },

  async a_second_tab_sees_the_same_conversation_live({ tab, another, url }) {
    await tab.open(url, { model: PATIENT });
    await tab.send('Tell me a story.');
    await tab.hasWritten(60);
    const second = await another();
    await second.open(url);
    await second.until(() => document.querySelector('.turn')?.dataset.status === 'running');
    await Promise.all([tab.done(), second.done()]);
    await tab.matchesServer();
    assert.deepEqual(await second.answers(), await tab.answers());
    await second.page.selectOption('#model', 'antiphon/echo');
    await second.send('asked in the other tab');
    await tab.done(2);
    assert.equal((await tab.answers()).at(-1), 'asked in the other tab');
    for (const each of [tab, second]) each.assertClean();
  },

  async a_call_of_a_closed_tab_is_answered_by_the_one_that_is_left({ tab, another, url }) {
    await tab.open(url);
    const second = await another();
    await second.open(url);
    await tab.send('What time is it?');
    await second.until(() => document.querySelector('.entry'));
    await second.page.click('.entry');
    await second.hasWritten(5);
    await tab.page.close();
    await second.done();
    const output = (await second.response()).output.map(({ type }) => type);
    assert.equal(output.filter((type) => type === 'function_call_output').length, 1);
    assert.match((await second.answers()).at(-1), /the tool has answered/);
    second.assertClean();
  },

  async a_call_is_answered_once_although_two_tabs_watch({ tab, another, url }) {
    await tab.open(url);
    const second = await another();
    await second.open(url);
    await tab.send('What time is it?');
    await second.until(() => document.querySelector('.entry'));
    await second.page.click('.entry');
    await Promise.all([tab.done(), second.done()]);
    const output = (await tab.response()).output.map(({ type }) => type);
    assert.equal(output.filter((type) => type === 'function_call_output').length, 1);
    assert.deepEqual(await second.answers(), await tab.answers());
    for (const each of [tab, second]) each.assertClean();
  },
};
