/** One call that waits, and more than one answer from the same place: one counts, and the page says which. */
import assert from 'node:assert/strict';
import { ASKING, sameEverywhere, waitingCall } from './scenarios_questions.mjs';
import { NETWORK_NOISE, Tab, canBeDeaf } from './tab.mjs';

export const twice = {
  async of_two_answers_in_one_moment_the_first_counts_and_no_other_can_be_given({ tab, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await waitingCall(tab);
    const sent = [];
    let go;
    const isSeen = new Promise((resolve) => (go = resolve));
    await tab.page.route('**/inject', async (route) => {
      sent.push(route.request().postDataJSON().input[0].output);
      await isSeen;
      return route.continue();
    });
    await tab.page.fill('.reply-field', 'in my words');
    await tab.page.evaluate(() => {
      const [first, second] = document.querySelectorAll('.choices button');
      first.click();
      second.click();
      document.querySelector('.reply').requestSubmit();
    });
    await tab.says('.reply-note', 'Sending your answer');
    assert.ok(await tab.page.isDisabled('.reply-send'));
    assert.ok(await tab.page.isDisabled('.choices button >> nth=1'));
    await tab.page.evaluate(() => document.querySelector('.reply').requestSubmit());
    go();
    await sameEverywhere([tab], 'Red');
    assert.deepEqual(sent, ['Red']);
    tab.assertClean();
  },

  async an_answer_whose_receipt_was_lost_counts_once({ tab, url, behindRelay }) {
    await behindRelay(url, async (relay) => {
      await tab.page.addInitScript(canBeDeaf);
      await tab.open(relay.url, { model: ASKING });
      await tab.send('Ask me.');
      await waitingCall(tab);
      const attempts = [];
      await tab.page.route('**/inject', async (route) => {
        attempts.push(route.request().postDataJSON().input);
        if (attempts.length > 1) return route.continue();
        assert.equal((await route.fetch()).status(), 200, 'the server has it');
        relay.down();
        return route.abort();
      });
      await tab.page.evaluate(() => (window.isDeaf = true));
      await tab.page.click('.choices button >> nth=0');
      await tab.says('#connection', 'Reconnecting');
      await tab.says('.reply-note', 'Sending your answer');
      await tab.page.evaluate(() => window.forget());
      assert.ok(await tab.page.isDisabled('.choices button >> nth=1'));
      relay.up();
      await sameEverywhere([tab], 'Red');
      await tab.says('#connection', 'Connected');
      await tab.until(() => document.querySelector('#banner').hidden);
      assert.ok(await tab.page.isHidden('.reply-note'));
      assert.ok(attempts.length > 1, 'it was sent again');
      assert.deepEqual(attempts[1], attempts[0], 'as the same answer');
    });
    tab.assertClean(NETWORK_NOISE);
  },

  async a_copy_of_the_tab_that_answers_later_is_told({ tab, url }) {
    await tab.open(url, { model: ASKING });
    await tab.send('Ask me.');
    await waitingCall(tab);
    // A page that a page opens has a copy of its session storage, and takes itself for the same tab.
    const [page] = await Promise.all([
      tab.page.waitForEvent('popup'),
      tab.page.evaluate(() => void window.open(location.href)),
    ]);
    const copy = Tab.of(page);
    await copy.page.addInitScript(canBeDeaf);
    await copy.reload();
    const id = () => sessionStorage.getItem('antiphon.tab');
    assert.equal(await copy.page.evaluate(id), await tab.page.evaluate(id));
    await copy.until(() => document.querySelector('.reply.is-open'));
    await copy.page.evaluate(() => (window.isDeaf = true));
    await tab.page.click('.choices button >> nth=0');
    await tab.done();
    await copy.page.click('.choices button >> nth=1');
    await copy.page.evaluate(() => window.hearAgain());
    await sameEverywhere([tab, copy], 'Red');
    await copy.says('.reply-note', 'An earlier answer from this tab counts.');
    assert.ok(await tab.page.isHidden('.reply-note'));
    for (const each of [tab, copy]) each.assertClean(/409/);
  },
};
