/** Several people in one conversation, on devices that know nothing of each other. */
import assert from 'node:assert/strict';
import { inBothThemes } from './axe.mjs';
import { PATIENT } from './scenarios_basics.mjs';

const ASKING = 'antiphon/script:asking';
const READING = 'antiphon/script:reading';
/** Names of people are as hostile as anything else: this one is written by test_chat_page.py. */
export const ANNA = '<b>anna</b>';

/** Opens a page of a server that wants a key. @param {import('./tab.mjs').Tab} tab @param {string} url @param {string} key */
export async function signIn(tab, url, key) {
  await tab.page.goto(url);
  await tab.says('#connection', 'Key needed');
  await tab.page.fill('#key', key);
  await tab.page.press('#key', 'Enter');
  await tab.says('#connection', 'Connected');
}

export const sharing = {
  /** Played by tests/examples/test_vscode_like.py, while its program answers the calls. */
  async the_run_of_an_ide_is_watched_in_the_page({ tab, url }) {
    await tab.page.goto(`${url}?conversation=${process.env.CONVERSATION}`);
    await tab.done();
    await tab.says('.turn', 'Done: discounts are taken off again, and the tests pass.');
    const { output } = await tab.response();
    const calls = output.filter(({ type }) => type === 'function_call').map(({ name }) => name);
    assert.deepEqual(calls, ['read_file', 'run_tests', 'apply_patch', 'run_tests']);
    for (const name of calls) await tab.says('.turn', name);
    await tab.matchesText();
    tab.assertClean();
  },

  async a_link_brings_a_signed_in_person_into_the_running_conversation({ tab, elsewhere, url }) {
    await signIn(tab, `${url}?model=antiphon/echo`, 'anna');
    await tab.send('the first question');
    await tab.done();
    await tab.page.selectOption('#model', ASKING);
    await tab.send('Ask us.');
    await tab.until(() => document.querySelector('.reply.is-open'));
    await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.page.click('#share');
    await tab.says('#share', 'Link copied');
    const link = await tab.page.evaluate(() => navigator.clipboard.readText());
    assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/\?conversation=conv_[0-9a-f]{32}$/, 'ids only');

    const bob = await elsewhere();
    await signIn(bob, link, 'bob');
    await bob.until(() => document.querySelectorAll('.turn').length === 2 && document.querySelector('.reply.is-open'));
    assert.deepEqual(await bob.page.$$eval('.turn > .asked', (all) => all.map((one) => one.textContent)), [
      'the first question',
      'Ask us.',
    ]);
    assert.deepEqual(await bob.page.$$eval('.author', (all) => all.map((one) => one.textContent)), [ANNA, ANNA]);
    assert.equal((await bob.answers())[0], 'the first question');
    await tab.says('#people', 'bob');
    await bob.says('#people', ANNA);
    await inBothThemes(bob.page, 'chat-together');

    await bob.page.type('#draft', 'I thi');
    await tab.says('#activity', 'bob is typing');
    await tab.page.type('.reply-field', 'my ans');
    await bob.says('.reply-note', `${ANNA} is writing an answer`);
    await bob.page.fill('.reply-field', 'from bob');
    await bob.page.press('.reply-field', 'Enter');
    for (const each of [tab, bob])
      await each.until(() => document.querySelectorAll('.turn')[1]?.dataset.status === 'completed');
    await tab.says('.reply-note', 'Answered by bob');
    assert.ok(await bob.page.isHidden('.reply-note'));
    await bob.page.fill('#draft', '');
    await bob.page.selectOption('#model', 'antiphon/echo');
    await bob.send('now from bob');
    for (const each of [tab, bob]) await each.done(3);
    await tab.until(() => [...document.querySelectorAll('.author')].at(-1)?.textContent === 'bob');
    assert.deepEqual(await bob.page.$$eval('.author', (all) => all.map((one) => one.textContent)), [ANNA, ANNA, 'You']);
    assert.equal(await tab.page.locator('.turn b').count(), 0, 'a name is no markup');

    const foreign = await elsewhere();
    await signIn(foreign, link, 'stranger');
    await foreign.says('#trouble', 'not for you to see');
    assert.deepEqual(await foreign.answers(), []);
    for (const each of [tab, bob]) each.assertClean(/401/);
  },

  async a_second_device_comes_in_mid_answer_with_the_whole_history({ tab, elsewhere, url }) {
    await tab.open(url, { model: 'antiphon/echo' });
    for (let n = 0; n < 22; n += 1) {
      await tab.send(`number ${n}`);
      await tab.done(n + 1);
    }
    await tab.page.selectOption('#model', PATIENT);
    await tab.send('Tell me a story.');
    await tab.hasWritten(60);
    const device = await elsewhere();
    await device.page.goto(await tab.link());
    await device.until(() => [...document.querySelectorAll('.turn')].at(-1)?.dataset.status === 'running');
    await device.page.click('#older');
    await device.until(() => document.querySelectorAll('.turn').length === 23);
    for (const each of [tab, device]) await each.done(23);
    assert.deepEqual(await device.answers(), await tab.answers());
    assert.equal(await device.page.textContent('.entry'), await device.page.textContent('#title'));
    await device.matchesServer();
    for (const each of [tab, device]) each.assertClean();
  },

  async what_is_said_into_a_running_answer_is_followed_by_both({ tab, elsewhere, url }) {
    await tab.open(url, { model: PATIENT });
    await tab.send('Tell me a story.');
    await tab.hasWritten(30);
    const other = await elsewhere();
    await other.page.goto(await tab.link());
    await other.hasWritten(30);
    await tab.send('Make it <i>shorter</i>.');
    for (const each of [tab, other]) {
      await each.until(() => document.querySelectorAll('.turn').length === 2);
      await each.until(() => document.querySelectorAll('.turn > .asked')[1]?.textContent === 'Make it <i>shorter</i>.');
      await each.done(2);
      assert.equal(await each.page.locator('.said .asked').count(), 0);
    }
    assert.deepEqual(await other.answers(), await tab.answers());
    for (const each of [tab, other]) each.assertClean();
  },

  async a_selected_text_is_read_only_after_a_yes({ tab, url }) {
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send('the <u>passage</u> in question');
    await tab.done();
    await tab.page.selectOption('#model', READING);
    await tab.send('Explain what I select.');
    await tab.until(() => document.querySelector('.reply.is-open'));
    await tab.says('.reply-question', 'May I read a text that you select or paste? To explain it.');
    assert.ok(await tab.page.isDisabled('.reply-send'), 'there is nothing to share yet');
    await tab.page.evaluate(() => document.getSelection().selectAllChildren(document.querySelector('.answer')));
    await tab.until(() => document.querySelector('.reply textarea').value === 'the <u>passage</u> in question');
    const { status, output } = await tab.response();
    assert.equal(status, 'in_progress', 'nothing is read by itself');
    assert.equal(
      output.some(({ type }) => type === 'function_call_output'),
      false,
    );
    await tab.page.click('.reply-send');
    await tab.done(2);
    const given = (await tab.response()).output.find(({ type }) => type === 'function_call_output');
    assert.deepEqual(JSON.parse(given.output), { text: 'the <u>passage</u> in question' });
    assert.equal(await tab.page.textContent('.reply-box .asked'), 'the <u>passage</u> in question');
    tab.assertClean();
  },
};
