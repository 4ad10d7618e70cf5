/** Who may see and do what on the operators' page, and that everybody can use it. */
import assert from 'node:assert/strict';
import { assertAccessible, inBothThemes, screenshot } from './axe.mjs';
import { OpsTab } from './ops_tab.mjs';

const REFUSED = /the server responded with a status of (401|403|429|503)/;

export const roles = {
  async a_viewer_signs_in_and_is_offered_nothing_that_changes_anything({ context, url, server }) {
    const driver = server.as('driver');
    const shared = await driver.beginAsking();
    const secret = await driver.beginAsking({ visibility: 'private' });
    const foreign = await server.as('foreign').begin('antiphon/echo');
    const tab = await OpsTab.in(context);
    const { page } = tab;
    await page.goto(`${url}ops`);
    await tab.says('#connection', 'Key needed');
    await inBothThemes(page, 'ops-sign-in');
    await page.fill('#key', 'wrong');
    await page.press('#key', 'Enter');
    await tab.says('#key-hint', 'does not accept');
    await page.fill('#key', 'viewer');
    await page.press('#key', 'Enter');
    await tab.isLive();
    await tab.shows(shared, 'waiting_for_tool');
    assert.ok(!page.url().includes('viewer'), 'no key in the address');
    const ids = await tab.ids();
    assert.ok(!ids.includes(secret) && !ids.includes(foreign), 'neither private nor foreign runs');
    await page.click(`#row-${shared}`);
    await tab.says('#part-stream', 'One thing first.');
    for (const name of ['#server', '#hold', '#tenant', '#panel .danger', '#panel >> text="Steer"']) {
      assert.equal(await page.isVisible(name), false, `${name} is not offered`);
    }
    await tab.says('#figure-first-token', 'admins see it');
    await page.goto(`${url}ops?tenant=other`);
    await tab.says('#empty', 'There is no such tenant');
    for (const id of [shared, secret]) await driver.ask('POST', `/v1/responses/${id}/cancel`);
    await page.click('#forget');
    await tab.says('#connection', 'Key needed');
    tab.assertClean(REFUSED);
  },

  async an_operator_pauses_its_tenant_and_resumes_it({ context, url, server }) {
    const driver = server.as('driver');
    const tab = await OpsTab.open(context, url, 'operator');
    const { page } = tab;
    await tab.says('#hold', 'Pause');
    await page.click('#hold');
    assert.match(await page.textContent('dialog h2'), /Pause the tenant acme\?/);
    await page.click('dialog .danger');
    await tab.says('#hold', 'Paused: resume');
    const refused = await driver.ask('POST', '/v1/responses', { model: 'antiphon/echo', input: 'x' });
    assert.equal(refused.body.error.code, 'tenant_paused');
    await page.click('#hold');
    await page.click('dialog .primary');
    await tab.until(() => document.querySelector('#hold').textContent === 'Pause');
    const taken = await driver.ask('POST', '/v1/responses', { model: 'antiphon/echo', input: 'x' });
    assert.equal(taken.status, 200);
    tab.assertClean();
  },

  async an_admin_sees_the_runs_of_all_tenants({ context, url, server }) {
    const ours = await server.as('driver').begin('antiphon/echo');
    const theirs = await server.as('foreign').begin('antiphon/echo');
    const tab = await OpsTab.open(context, url, 'admin', '?tenant=*');
    await tab.shows(ours);
    await tab.shows(theirs);
    assert.equal(await tab.page.textContent(`#row-${theirs} .cell-tenant`), 'other');
    await tab.page.selectOption('#tenant', 'other');
    await tab.until((id) => !document.getElementById(`row-${id}`), ours);
    await tab.shows(theirs);
    assert.equal(new URL(tab.page.url()).search, '?tenant=other');
    tab.assertClean();
  },

  async an_open_breaker_is_said_in_the_bar_and_in_the_panel({ context, url, server }) {
    const driver = server.as('driver');
    for (let count = 0; count < 8; count += 1) await driver.ended(await driver.begin('dead-model'));
    const tab = await OpsTab.open(context, url, 'operator');
    await tab.says('#server', '1 breaker open');
    await tab.page.click('#server');
    await tab.until(() => location.search === '?panel=server');
    for (const words of ['Ready', 'this one', 'dead', 'Open', 'sqlite', 'memory', 'Healthy'])
      await tab.says('#panel', words);
    await inBothThemes(tab.page, 'ops-server');
    await tab.page.keyboard.press('Escape');
    await tab.until(() => location.search === '' && document.querySelector('#panel').hidden);
    tab.assertClean();
  },

  async it_is_accessible_in_both_themes_and_fits_a_phone({ context, url, server }) {
    const driver = server.as('driver');
    const tab = await OpsTab.open(context, url, 'operator');
    const { page } = tab;
    const models = [
      'antiphon/script:watched',
      'antiphon/script:fail',
      'antiphon/script:refuse',
      'antiphon/echo',
      'antiphon/script:watched',
    ];
    const ids = await Promise.all([driver.beginAsking(), ...models.map((model) => driver.begin(model))]);
    await tab.shows(ids[0], 'waiting_for_tool');
    await tab.shows(ids[2], 'failed');
    await inBothThemes(page, 'ops-1280');
    await page.click(`#row-${ids[0]}`);
    await tab.says('#part-stream', 'One thing first.');
    for (const part of ['calls', 'people', 'timeline']) {
      await page.click(`#tab-${part}`);
      await assertAccessible(page, part);
      await screenshot(page, `ops-run-${part}`);
    }
    await page.setViewportSize({ width: 1920, height: 1080 });
    await page.click('#tab-stream');
    await inBothThemes(page, 'ops-1920');

    await page.setViewportSize({ width: 390, height: 844 });
    await tab.until(() => document.querySelector('#overview').inert);
    const covered = await page.$eval('#panel', (panel) => panel.getBoundingClientRect().toJSON());
    assert.deepEqual([covered.x, covered.y, covered.width, covered.height], [0, 0, 390, 844]);
    await inBothThemes(page, 'ops-run-390');
    await page.click('#panel .panel-head >> text="Close"');
    await tab.until(() => !document.querySelector('#overview').inert);
    await inBothThemes(page, 'ops-390');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, 'nothing sticks out');

    // The switch goes before what the system wants, and is kept.
    await page.emulateMedia({ colorScheme: 'light' });
    for (const wanted of ['light', 'dark']) {
      await page.click('#theme');
      await tab.until((theme) => document.documentElement.dataset.theme === theme, wanted);
    }
    await page.reload();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(21, 23, 22)');
    await screenshot(page, 'ops-chosen-dark');
    for (const id of ids) await driver.ask('POST', `/v1/responses/${id}/cancel`);
    tab.assertClean();
  },
};
