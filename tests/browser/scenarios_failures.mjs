/** Refusals and failures, each with the server's sentence and a way on. */
import assert from 'node:assert/strict';
import { inBothThemes } from './axe.mjs';

export const failures = {
  async an_unknown_model_is_refused_with_the_sentence_of_the_server({ tab, url }) {
    await tab.open(url, { model: 'nobody/knows-it' });
    await tab.send('Hello?');
    await tab.done(1, 'refused');
    await tab.says('.outcome', "There is no model 'nobody/knows-it' here.");
    await tab.says('.outcome', 'Choose another model above.');
    await tab.says('.outcome code', 'model_not_found');
    await tab.page.selectOption('#model', 'antiphon/echo');
    await tab.page.click('.outcome button');
    await tab.done();
    assert.deepEqual(await tab.answers(), ['Hello?']);
    tab.assertClean();
  },

  async a_failed_answer_keeps_its_text_and_offers_a_retry({ tab, url }) {
    await tab.open(url, { model: 'antiphon/script:fail' });
    await tab.send('Hello?');
    await tab.done(1, 'failed');
    const { error } = await tab.response();
    await tab.says('.outcome', error.message);
    assert.match((await tab.answers())[0], /^This begins well/);
    await tab.page.selectOption('#model', 'antiphon/echo');
    await tab.page.click('.outcome button');
    await tab.done();
    assert.deepEqual(await tab.answers(), ['Hello?']);
    tab.assertClean();
  },

  async a_lost_history_is_continued_in_a_new_conversation({ tab, url }) {
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send('first');
    await tab.done();
    await tab.send('second');
    await tab.done(2);
    const [run] = await tab.runs();
    const deleted = await tab.page.request.delete(`${url}v1/responses/${run}`);
    assert.equal(deleted.status(), 200);
    // Another connection, which cannot remember the response.
    await tab.reload();
    await tab.done(1);
    await tab.send('third');
    await tab.done(2, 'refused');
    const button = tab.page.locator('.outcome button');
    assert.equal(await button.textContent(), 'Continue in a new conversation');
    await button.click();
    await tab.done(1);
    assert.deepEqual(await tab.answers(), ['third']);
    await tab.says('.carried', '2 messages were sent along');
    assert.equal(await tab.page.locator('.entry').count(), 2);
    tab.assertClean();
  },

  async a_conversation_that_the_server_has_no_more_is_said_to_be_gone({ tab, url }) {
    await tab.page.goto(`${url}?conversation=conv_${'0'.repeat(32)}`);
    await tab.says('#trouble', 'There is no such conversation here, or it is not for you to see.');
    assert.ok(await tab.page.isDisabled('#draft'));
    await tab.page.selectOption('#model', 'antiphon/echo');
    await tab.page.click('#new');
    await tab.send('Hello?');
    await tab.done();
    tab.assertClean(/404/);
  },

  async thoughts_are_folded_away_and_can_be_read({ tab, url }) {
    await tab.open(url, { model: 'antiphon/script:reasoning' });
    await tab.send('Which one?');
    await tab.says('.reasoning', 'Thinking…');
    await tab.done();
    const thoughts = tab.page.locator('.reasoning');
    assert.equal(await thoughts.getAttribute('open'), null);
    await thoughts.locator('summary').click();
    assert.ok((await thoughts.locator('.markdown').textContent()).length > 10);
    await tab.matchesServer();
    tab.assertClean();
  },

  async a_server_that_wants_a_key_is_explained({ tab, url }) {
    await tab.page.goto(url);
    await tab.says('#banner', 'This server asks for an API key');
    await tab.says('#connection', 'Key needed');
    await inBothThemes(tab.page, 'chat-key');
    for (const control of await tab.page.locator('#draft, #send, #suggestions button').all())
      assert.ok(await control.isDisabled());
    await tab.page.fill('#key', 'not the key');
    await tab.page.press('#key', 'Enter');
    await tab.says('#key-hint', 'does not accept');
    await tab.page.fill('#key', 'another-wrong-one');
    await tab.page.press('#key', 'Enter');
    await tab.until(() => document.querySelector('#key').value === '' && !document.querySelector('#unlock').hidden);
    tab.assertClean(/401/);
  },

  async a_key_is_asked_for_and_kept_for_the_tab_only({ tab, url }) {
    const inUrls = [];
    tab.page.on('request', (request) => inUrls.push(request.url()));
    tab.page.on('websocket', (socket) => inUrls.push(socket.url()));
    await tab.page.goto(`${url}?model=antiphon/echo`);
    await tab.says('#banner', 'This server asks for an API key');
    await tab.page.fill('#key', 'secret');
    await tab.page.press('#key', 'Enter');
    await tab.says('#connection', 'Connected');
    assert.ok(await tab.page.isHidden('#unlock'));
    await tab.send('Hello?');
    await tab.done();
    await tab.reload();
    assert.ok(inUrls.some((one) => one.includes('?ticket=tk_')));
    assert.deepEqual(
      inUrls.filter((one) => one.includes('secret')),
      [],
    );
    assert.equal(await tab.page.evaluate(() => JSON.stringify(localStorage).includes('secret')), false);
    await tab.page.evaluate(() => document.querySelector('#forget').click());
    await tab.says('#connection', 'Key needed');
    assert.equal(await tab.page.evaluate(() => JSON.stringify(sessionStorage).includes('"secret"')), false);
    tab.assertClean(/401/);
  },
};
