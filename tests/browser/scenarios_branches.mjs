/** Two people who write to the same answer at the same moment. */
import assert from 'node:assert/strict';
import { inBothThemes } from './axe.mjs';
import { ANNA, signIn } from './scenarios_sharing.mjs';
import { canBeDeaf } from './tab.mjs';

const FIRST = 'the first question';

/** Waits until a page shows these questions, and no others. @param {import('./tab.mjs').Tab} tab */
const shows = (tab, asked) =>
  tab.until(
    (wanted) =>
      JSON.stringify([...document.querySelectorAll('.turn > .asked')].map((one) => one.textContent)) === wanted,
    JSON.stringify(asked),
  );

/** Both send before either hears of the other. @param {import('./tab.mjs').Tab[]} tabs @param {string[]} texts */
async function sendAtOnce(tabs, texts) {
  for (const tab of tabs) await tab.page.evaluate(() => (window.isDeaf = true));
  for (const [index, tab] of tabs.entries()) await tab.send(texts[index]);
  for (const tab of tabs) await tab.until(() => window.missed.some(({ data }) => data.includes('response.completed')));
  for (const tab of tabs) await tab.page.evaluate(() => window.hearAgain());
}

/** Keeps what a screen reader is told. Runs in the page. */
function recordSpoken() {
  window.spoken = [];
  const region = document.querySelector('#spoken');
  new MutationObserver(() => window.spoken.push(region.textContent)).observe(region, { childList: true });
}

export const branches = {
  async two_who_write_at_once_see_both_branches_and_go_on_in_the_one_they_choose({ tab, elsewhere, url }) {
    await tab.page.addInitScript(canBeDeaf);
    await signIn(tab, `${url}?model=antiphon/echo`, 'anna');
    await tab.send(FIRST);
    await tab.done();
    const bob = await elsewhere();
    await bob.page.addInitScript(canBeDeaf);
    await signIn(bob, `${await tab.link()}&model=antiphon/echo`, 'bob');
    await shows(bob, [FIRST]);

    await tab.page.evaluate(recordSpoken);
    await sendAtOnce([tab, bob], ['from <i>Anna</i>', 'from Bob']);
    await tab.says('.fork:not([hidden]) p', 'bob also wrote here at the same moment.');
    await bob.says('.fork:not([hidden]) p', `${ANNA} also wrote here at the same moment.`);
    await tab.until(() => window.spoken.some((text) => text.startsWith('bob also wrote here')));
    await shows(tab, [FIRST, 'from <i>Anna</i>']);
    await shows(bob, [FIRST, 'from Bob']);
    assert.equal(await tab.page.textContent('.fork [aria-pressed=true]'), 'You: from <i>Anna</i>');
    await inBothThemes(tab.page, 'chat-branches');

    // Back from the field to write in, without a mouse, to the branch of Bob.
    for (let presses = 0; presses < 12; presses += 1) {
      if ((await tab.page.evaluate(() => document.activeElement.ariaPressed)) === 'false') break;
      await tab.page.keyboard.press('Shift+Tab');
    }
    await tab.page.keyboard.press('Enter');
    await shows(tab, [FIRST, 'from Bob']);
    await tab.until(() => document.activeElement.textContent === 'bob: from Bob');
    assert.equal(await tab.page.evaluate(() => document.activeElement.ariaPressed), 'true');
    await tab.send('further with Bob');
    for (const each of [tab, bob]) {
      await shows(each, [FIRST, 'from Bob', 'further with Bob']);
      await each.done(3);
    }
    const [, parent, run] = await bob.runs();
    const answer = await bob.page.request.get(`${url}v1/responses/${run}`, {
      headers: { Authorization: 'Bearer bob' },
    });
    assert.equal((await answer.json()).previous_response_id, parent);

    await tab.reload();
    await shows(tab, [FIRST, 'from Bob', 'further with Bob']);
    await tab.page.click('.fork [aria-pressed=false]');
    await shows(tab, [FIRST, 'from <i>Anna</i>']);
    await tab.reload();
    await tab.says('.fork:not([hidden]) p', 'bob also wrote here at the same moment.');
    await shows(tab, [FIRST, 'from <i>Anna</i>']);
    const guest = await elsewhere();
    await signIn(guest, await tab.link(), 'bob');
    await shows(guest, [FIRST, 'from Bob', 'further with Bob']);
    await guest.says('.fork:not([hidden]) p', `${ANNA} also wrote here at the same moment.`);
    assert.equal(await tab.page.locator('.asked i, .answer i, .fork i, .fork b').count(), 0);
    for (const each of [tab, bob, guest]) each.assertClean(/401/);
  },
};
