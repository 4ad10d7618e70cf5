/** What a person does on a good day. The scripts are written by test_chat_page.py. */
import assert from 'node:assert/strict';
import { inBothThemes } from './axe.mjs';

/** Takes two seconds for an answer. */
export const SLOW = 'antiphon/script:page';
/** Takes long enough to do something about it on a busy machine. */
export const PATIENT = 'antiphon/script:patient';

/** Keeps every text that the last answer ever showed. Runs in the page. */
function recordTexts() {
  window.texts = [];
  new MutationObserver(() => {
    const text = [...document.querySelectorAll('.answer')].at(-1)?.textContent ?? '';
    if (text && text !== window.texts.at(-1)) window.texts.push(text);
  }).observe(document.querySelector('#turns'), { childList: true, subtree: true, characterData: true });
}

export const basics = {
  async text_grows_while_it_is_written({ tab, url }) {
    await tab.open(url, { model: SLOW });
    await tab.page.evaluate(recordTexts);
    await tab.send('Tell me a story.');
    await tab.says('#activity', 'Writing');
    await tab.done();
    await tab.matchesServer();
    const texts = await tab.page.evaluate(() => window.texts);
    const [whole] = await tab.answers();
    assert.ok(texts.length >= 5, `the text was seen at ${texts.length} lengths`);
    for (const [index, text] of texts.entries()) {
      assert.ok(whole.startsWith(text), `“${text}” is no beginning of the answer`);
      assert.ok(index === 0 || text.length > texts[index - 1].length, 'the text only grows');
    }
    tab.assertClean();
  },

  async demo_calls_the_clock_of_the_page({ tab, url }) {
    await tab.open(url);
    assert.equal(await tab.page.inputValue('#model'), 'antiphon/demo');
    await tab.page.click('#suggestions button >> nth=0');
    await tab.done();
    const card = tab.page.locator('.card');
    assert.equal(await card.count(), 1);
    assert.equal(await card.locator('.card-name').textContent(), 'get_local_time');
    assert.equal(await card.getAttribute('data-state'), 'done');
    const [asked, given] = await card.locator('.card-part pre').allTextContents();
    assert.equal(JSON.parse(asked).timezone, 'Europe/Vienna', 'the zone of this browser');
    assert.ok(given, 'the card shows a result');
    assert.equal((await tab.runs()).length, 1, 'the call was answered in the same run');
    const line = tab.page.locator('.line');
    assert.match(await line.locator('summary').textContent(), /^current_time of antiphon$/);
    await line.locator('summary').click();
    assert.match(await line.locator('pre').innerText(), /"timezone":"UTC"/);
    const answer = (await tab.answers()).at(-1);
    const { local_time, timezone } = JSON.parse(given);
    assert.ok(answer.includes(`the local time is ${local_time} and the timezone is ${timezone}.`), answer);
    tab.assertClean();
  },

  async a_conversation_goes_on_over_several_questions({ tab, url }) {
    await tab.open(url, { model: 'antiphon/echo' });
    for (const [count, text] of ['first', 'second', 'third'].entries()) {
      await tab.send(text);
      await tab.done(count + 1);
    }
    assert.deepEqual(await tab.answers(), ['first', 'second', 'third']);
    const runs = await tab.runs();
    const responses = await Promise.all(runs.map((run) => tab.response(run)));
    assert.deepEqual(
      responses.map((response) => response.previous_response_id),
      [null, runs[0], runs[1]],
    );
    tab.assertClean();
  },

  async conversations_are_listed_named_opened_and_removed({ tab, url }) {
    const titles = () => tab.page.locator('.entry').allTextContents();
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send('the first one');
    await tab.done();
    await tab.page.click('#new');
    await tab.until(() => !document.querySelector('#empty').hidden);
    await tab.send('the second one');
    await tab.done();
    assert.deepEqual(await titles(), ['the second one', 'the first one']);
    await tab.page.click('.entry >> nth=1');
    await tab.until(() => document.querySelector('.answer')?.textContent === 'the first one');
    await tab.page.click('#title');
    await tab.page.fill('dialog .text', 'My <b>own</b> title');
    await tab.page.keyboard.press('Enter');
    await tab.until(() => document.querySelector('#title').textContent === 'My <b>own</b> title');
    assert.deepEqual(await titles(), ['the second one', 'My <b>own</b> title']);
    await tab.page.click('[aria-label="Remove “My <b>own</b> title” from this browser"]', { force: true });
    await tab.until(() => !document.querySelector('#empty').hidden);
    assert.deepEqual(await titles(), ['the second one']);
    tab.assertClean();
  },

  async keys_send_break_lines_and_keep_a_draft({ tab, url }) {
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.page.focus('#draft');
    await tab.page.keyboard.type('one');
    await tab.page.keyboard.press('Shift+Enter');
    await tab.page.keyboard.type('two');
    await tab.reload();
    assert.equal(await tab.page.inputValue('#draft'), 'one\ntwo');
    await tab.page.press('#draft', 'Enter');
    await tab.done();
    assert.equal(await tab.page.textContent('.asked'), 'one\ntwo');
    assert.equal(await tab.page.inputValue('#draft'), '');
    tab.assertClean();
  },

  async what_a_model_writes_stays_text({ tab, url }) {
    const hostile =
      '<img src=x onerror=alert(1)> **bold** [bad](javascript:alert(2)) [good](https://example.org/) `<script>`';
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send(hostile);
    await tab.done();
    const found = await tab.page.$eval('.answer', (answer) => ({
      tags: [...answer.querySelectorAll('*')].map(({ tagName }) => tagName),
      href: answer.querySelector('a').getAttribute('href'),
    }));
    assert.deepEqual(found, { tags: ['P', 'STRONG', 'A', 'CODE'], href: 'https://example.org/' });
    assert.match(
      (await tab.answers())[0],
      /^<img src=x onerror=alert\(1\)> bold \[bad\]\(javascript:alert\(2\)\) good <script>$/,
    );
    tab.assertClean();
  },

  async somebody_who_reads_further_up_is_left_there({ tab, url }) {
    await tab.page.setViewportSize({ width: 500, height: 420 });
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send('word '.repeat(600));
    await tab.done();
    const place = () =>
      tab.page.$eval('#scroller', ({ scrollTop, scrollHeight, clientHeight }) => ({
        scrollTop,
        isAtEnd: scrollHeight - scrollTop - clientHeight < 2,
      }));
    assert.ok((await place()).isAtEnd);
    await tab.page.selectOption('#model', SLOW);
    await tab.send('And now slowly.');
    await tab.hasWritten(50);
    assert.ok((await place()).isAtEnd, 'it follows while nobody reads');
    await tab.page.hover('#scroller');
    await tab.page.mouse.wheel(0, -300);
    await tab.until(() => !document.querySelector('#latest').hidden);
    const { scrollTop } = await place();
    await tab.done(2);
    assert.equal((await place()).scrollTop, scrollTop);
    await tab.page.click('#latest');
    assert.ok((await place()).isAtEnd);
    tab.assertClean();
  },

  async an_empty_page_is_read_from_its_top({ tab, url }) {
    await tab.page.setViewportSize({ width: 320, height: 400 });
    await tab.open(url, { model: 'antiphon/echo' });
    const place = () => tab.page.$eval('#scroller', (it) => [it.scrollTop, it.scrollHeight > it.clientHeight]);
    assert.deepEqual(await place(), [0, true]);
    assert.ok(await tab.page.isHidden('#latest'));
    assert.equal(await tab.page.$eval('.recent', (it) => getComputedStyle(it).display), 'none');
    assert.equal(await tab.page.$eval('.field', (it) => getComputedStyle(it).boxShadow), 'none', 'no ring unasked');
    const group = '#model > optgroup[label="Test scenarios"]:last-child > option';
    assert.ok((await tab.page.$$eval(group, (all) => all.map(({ value }) => value))).includes(SLOW));
    assert.equal(await tab.page.locator('#model > option[value^="antiphon/script:"]').count(), 0);
    await tab.send('word '.repeat(300));
    await tab.done();
    assert.notEqual(await tab.page.$eval('.recent', (it) => getComputedStyle(it).display), 'none');
    assert.notEqual(await tab.page.$eval('.field', (it) => getComputedStyle(it).boxShadow), 'none');
    assert.ok((await place())[0] > 0);
    await tab.page.evaluate(() => document.querySelector('#new').click());
    await tab.until(() => !document.querySelector('#empty').hidden);
    assert.deepEqual(await place(), [0, true]);
    tab.assertClean();
  },

  async it_fits_a_small_phone_and_every_control_has_a_name({ tab, url }) {
    await tab.page.setViewportSize({ width: 320, height: 640 });
    await tab.open(url);
    await tab.page.click('#suggestions button >> nth=0');
    await tab.done();
    const overflow = await tab.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${overflow} pixels too wide`);
    await tab.page.click('#open-list');
    await tab.until(() => document.querySelector('#sidebar').contains(document.activeElement));
    await tab.page.keyboard.press('Escape');
    assert.equal(await tab.page.getAttribute('#open-list', 'aria-expanded'), 'false');
    const nameless = await tab.page.$$eval('button, select, textarea, input, a', (controls) =>
      controls
        .filter((control) => !(control.ariaLabel || control.labels?.[0]?.textContent || control.textContent).trim())
        .map(({ outerHTML }) => outerHTML),
    );
    assert.deepEqual(nameless, []);
    tab.assertClean();
  },

  async every_state_of_the_page_is_accessible_in_both_themes({ tab, url }) {
    await tab.page.setViewportSize({ width: 1280, height: 800 });
    await tab.open(url);
    await inBothThemes(tab.page, 'chat-empty');
    await tab.send('What time is it?');
    await tab.done();
    await tab.page.selectOption('#model', 'antiphon/script:asking');
    await tab.send('Ask me.');
    await tab.until(() => document.querySelector('.reply.is-open'));
    await inBothThemes(tab.page, 'chat-question');
    await tab.page.keyboard.press('Escape');
    await tab.done(2, 'cancelled');
    await tab.page.click('#title');
    await tab.until(() => document.querySelector('dialog[open]'));
    await inBothThemes(tab.page, 'chat-rename');
    await tab.page.keyboard.press('Escape');
    await tab.page.click('#theme');
    assert.equal(await tab.page.evaluate(() => document.documentElement.dataset.theme), 'light');
    await tab.page.click('#theme');
    await tab.reload();
    assert.equal(await tab.page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), 'dark');
    await tab.page.click('#theme');
    await tab.page.setViewportSize({ width: 390, height: 844 });
    await tab.done(2, 'cancelled');
    await inBothThemes(tab.page, 'chat-phone');
    await tab.page.click('#open-list');
    await inBothThemes(tab.page, 'chat-phone-list');
    await tab.page.click('#new');
    await tab.until(() => !document.querySelector('#empty').hidden);
    await inBothThemes(tab.page, 'chat-phone-empty');
    tab.assertClean();
  },
};
