/** What stands over the table or in its place, for everybody and in both themes. */
import assert from 'node:assert/strict';
import { inBothThemes } from './axe.mjs';
import { OpsTab } from './ops_tab.mjs';

export const access = {
  async every_dialog_is_accessible_in_both_themes({ context, url, server }) {
    const driver = server.as('driver');
    const id = await driver.beginAsking();
    const tab = await OpsTab.open(context, url, 'operator', `?run=${id}`);
    const { page } = tab;
    await tab.says('#part-stream', 'One thing first.');
    const dialog = async (opener, name, answer) => {
      await page.click(opener);
      await tab.until(() => document.querySelector('dialog[open]').contains(document.activeElement));
      await inBothThemes(page, `ops-dialog-${name}`);
      if (answer) await page.click(`dialog .${answer}`);
      else await page.keyboard.press('Escape');
      await tab.until(() => !document.querySelector('dialog'));
    };
    await dialog('#panel >> text="Steer"', 'steer');
    assert.equal(await page.isVisible('.steers'), false, 'who goes away from it has said nothing');
    await dialog('#panel .danger', 'cancel');
    await dialog('#hold', 'pause', 'danger');
    await tab.says('#hold', 'Paused: resume');
    await dialog('#hold', 'resume', 'primary');
    await tab.until(() => document.querySelector('#hold').textContent === 'Pause');
    await driver.ask('POST', `/v1/responses/${id}/cancel`);
    tab.assertClean();
  },

  async the_panel_of_a_steered_run_is_accessible_in_both_themes({ context, url, server }) {
    const driver = server.as('driver');
    const id = await driver.beginAsking();
    const tab = await OpsTab.open(context, url, 'operator', `?run=${id}`);
    const { page } = tab;
    await tab.says('#part-stream', 'One thing first.');
    for (const input of ['Take blue. '.repeat(40), 'Or red.'])
      await driver.ask('POST', `/v1/responses/${id}/steer`, { input });
    await tab.says('.steers', 'Queued');
    await tab.showsPart('calls', 'ask_person');
    await inBothThemes(page, 'ops-steered-calls');
    await tab.showsPart('timeline', 'steered');
    await inBothThemes(page, 'ops-steered-timeline');
    await tab.showsPart('people', 'key:operator');
    await inBothThemes(page, 'ops-steered-people');
    await driver.answerCall(id);
    await tab.says('.steers', 'Delivered');
    await tab.says('.chain', 'Goes on');
    await page.click('#tab-stream');
    await inBothThemes(page, 'ops-steered-stream');
    await driver.ask('POST', `/v1/responses/${(await driver.state(id)).terminal.successor}/cancel`);
    tab.assertClean();
  },

  async on_a_phone_every_chip_and_every_figure_can_be_reached({ context, url, server }) {
    const driver = server.as('driver');
    const tab = await OpsTab.open(context, url, 'operator');
    const { page } = tab;
    await page.setViewportSize({ width: 390, height: 844 });
    for (const model of ['fail', 'rate_limited', 'crash']) await driver.begin(`antiphon/script:${model}`);
    await tab.says('#figure-errors p', '3 ');
    const outside = (selector) =>
      page.$$eval(selector, (found) =>
        found.filter((one) => one.getBoundingClientRect().left < 0 || one.getBoundingClientRect().right > innerWidth),
      );
    assert.equal((await outside('.chip')).length, 0, 'chips that do not fit stand in another line');
    const hint = (side) => page.$eval('#figures', (line, where) => getComputedStyle(line, where).content, side);
    await tab.until(() => document.querySelector('#figures').dataset.more === 'after');
    assert.deepEqual([await hint('::before'), await hint('::after')], ['none', '"›" / ""']);
    await inBothThemes(page, 'ops-390-figures');
    await page.hover('#figures');
    await page.mouse.wheel(5_000, 0);
    await tab.until(() => document.querySelector('#figures').dataset.more === 'before');
    assert.deepEqual([await hint('::before'), await hint('::after')], ['"‹" / ""', 'none']);
    assert.equal((await outside('#figure-errors')).length, 0);
    const isCut = await page.$eval('#figure-errors .figure-more', (more) => more.scrollWidth > more.clientWidth);
    assert.equal(isCut, false, 'there is no pointer here that could read the whole in a tooltip');
    await inBothThemes(page, 'ops-390-errors');
    tab.assertClean();
  },

  async a_table_without_runs_is_accessible_in_both_themes_and_says_why({ context, url }) {
    const tab = await OpsTab.open(context, url, 'idle');
    const { page } = tab;
    await tab.says('#empty', 'No runs now');
    await inBothThemes(page, 'ops-empty');
    await page.goto(`${url}ops?tenant=other`);
    await tab.says('#empty', 'There is no such tenant');
    await inBothThemes(page, 'ops-refused');
    await page.goto(`${url}ops?run=resp_unknown`);
    await tab.says('#panel .note', 'There is no such run');
    await inBothThemes(page, 'ops-no-run');
    tab.assertClean(/status of 404/);
  },
};
