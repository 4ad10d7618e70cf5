/** Names and texts that hold HTML, in every place of the operators' page where a name or a text can stand. */
import assert from 'node:assert/strict';
import { OpsTab } from './ops_tab.mjs';

/** Leaves a trace wherever it is taken for markup, and says where it came from. @param {string} where */
const trap = (where) => `<img src=x onerror="window.ran='${where}'"><script>window.ran='${where}'</script> ${where}`;

/** Whatever the server calls so holds HTML for the page: most of it is refused by the server, but not by every version. */
const PLANTED = new Set([
  ...['agent', 'model', 'upstream', 'principal', 'current_tool', 'fallback_from', 'name', 'holder', 'label', 'by'],
  ...['code', 'role', 'version', 'breaker', 'kind', 'detail'],
]);

/** @param {any} value of a frame or an answer @param {string} [key] @returns {any} the same with HTML in its names */
function planted(value, key = '') {
  if (typeof value === 'string') return PLANTED.has(key) ? trap(key) : value;
  if (Array.isArray(value)) return value.map((one) => planted(one, key));
  if (!value || typeof value !== 'object') return value;
  const found = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, planted(one, name)]));
  // A run's own tenant is only shown; that of a frame says to which subscription it belongs.
  if ('response_id' in found && 'tenant' in found)
    Object.assign(found, { tenant: trap('tenant'), fallback_from: trap('fallback_from') });
  return found;
}

/** @param {import('playwright-core').Page} page */
async function plant(page) {
  await page.routeWebSocket(/./, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((frame) => socket.send(JSON.stringify(planted(JSON.parse(String(frame))))));
  });
  const changed = (change) => async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: change(await answer.json()) });
  };
  await page.route('**/v1/admin/status', changed(withNodes));
  await page.route(/\/v1\/runs\/resp_/, changed(withMoments));
  const refusal = (where) => ({ status: 409, json: { error: { code: 'refused', message: trap(where), type: 'x' } } });
  await page.route('**/steer', (route) => route.fulfill(refusal('refusal')));
  await page.route('**/pause', (route) => route.fulfill(refusal('banner')));
}

/** @param {any} status */
function withNodes(status) {
  const nodes = status.nodes.map((node) => ({ ...node, id: trap('node') }));
  const errors = { [trap('error')]: withNodes.errors++ };
  const bus = { ...planted(status.bus), detail: trap('detail') };
  return { ...planted(status), nodes, bus, totals: { ...status.totals, errors } };
}
withNodes.errors = 1;

/** @param {any} answer */
function withMoments(answer) {
  const moment = { event: `run.${trap('event')}`, at: answer.run.created_at, data: { name: trap('moment'), ok: true } };
  return { run: planted(answer.run), timeline: [...answer.timeline, moment] };
}

/** @param {OpsTab} tab @param {string} selector @param {...string} places of what it says as it stands */
async function saysAll(tab, selector, ...places) {
  for (const place of places) await tab.says(selector, trap(place));
  const made = await tab.page.$$eval('[onerror], body img:not(.brand img), body script', (found) => found.length);
  assert.equal(made, 0, `${selector} made elements of a text`);
  assert.equal(await tab.page.evaluate(() => window.ran), undefined);
}

export const text = {
  async html_in_any_name_or_text_is_shown_and_never_run({ context, url, server }) {
    const driver = server.as('driver');
    const failed = await driver.begin('antiphon/script:fail');
    await driver.ended(failed);
    const asking = await driver.beginAsking({ labels: { note: trap('l').slice(0, 60) } });
    const tab = await OpsTab.in(context);
    const { page } = tab;
    await plant(page);
    await page.addInitScript(() => sessionStorage.setItem('antiphon.key', 'admin'));
    await page.goto(`${url}ops?tenant=*`);
    await tab.shows(asking, 'waiting_for_tool');
    await driver.ask('POST', `/v1/responses/${asking}/steer`, { input: 'Blue!' });

    const row = `#row-${asking}`;
    for (const [cell, place] of Object.entries({ agent: 'agent', model: 'model', tenant: 'tenant', by: 'principal' }))
      await saysAll(tab, `${row} .cell-${cell}`, place);
    await saysAll(tab, row, 'current_tool', 'name');
    await saysAll(tab, '#agent', 'agent');
    await saysAll(tab, '#model', 'model');
    await saysAll(tab, '#principal', 'principal');
    await saysAll(tab, '#figure-errors', 'error');
    await tab.until(
      (words) => document.querySelector('#figure-errors .figure-more').title.includes(words),
      trap('error'),
    );

    await page.click(row);
    await saysAll(tab, '#panel .facts', 'agent', 'model', 'fallback_from', 'upstream', 'principal', 'tenant', 'name');
    await tab.says('#panel .facts', trap('l').slice(0, 60));
    await saysAll(tab, '.steers', 'principal');
    await tab.showsPart('calls', trap('name'));
    await tab.showsPart('calls', '<img src=x onerror=alert(1)> Which colour?');
    await tab.showsPart('timeline', trap('moment'));
    await tab.says('#part-timeline', trap('event').replaceAll(/[._]/g, ' '));
    await tab.showsPart('people', trap('principal'));
    await page.click('#tab-stream');
    await saysAll(tab, '#part-stream', 'name');
    await page.click('#panel .danger');
    await saysAll(tab, 'dialog', 'principal');
    await page.keyboard.press('Escape');
    await page.click('#panel >> text="Steer"');
    await page.fill('dialog textarea', trap('said'));
    await page.click('dialog >> text="Steer"');
    await saysAll(tab, '.steers', 'said', 'refusal');

    await page.click(`#row-${failed}`);
    await saysAll(tab, '#panel .note', 'code');
    await page.click('#server');
    await saysAll(tab, '#panel', 'node', 'name', 'breaker', 'kind', 'detail', 'version');
    await page.keyboard.press('Escape');
    await page.selectOption('#tenant', 'acme');
    await page.click('#hold');
    await page.click('dialog .danger');
    await saysAll(tab, '#banner', 'banner');
    await page.fill('#text', trap('search'));
    await tab.says('#empty', 'No run matches');
    await page.goto(`${url}ops?tenant=${encodeURIComponent(trap('address'))}`);
    await tab.says('#empty', 'There is no such tenant');

    await driver.ask('POST', `/v1/responses/${asking}/cancel`);
    tab.assertClean(/status of 409/);
  },
};
