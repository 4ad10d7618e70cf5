/** The figures of the operators' page against what the server counts of the same runs. Needs a server of its own. */
import assert from 'node:assert/strict';
import { count, milliseconds, money } from '../../server/antiphon/pages/js/ops/words.js';
import { OpsTab } from './ops_tab.mjs';

/** How much the sum of a rate over the time it was shown may differ from what was counted: it is drawn once a second. */
const RATE_TOLERANCE = 0.3;

/** Keeps what a figure says, with the time. Runs in the page. @param {string[]} ids */
function recordFigures(ids) {
  window.shown = {};
  for (const id of ids) {
    const value = document.querySelector(`#${id} .figure-value`);
    const keep = () => window.shown[id].push([performance.now(), Number(value.textContent.replaceAll(',', ''))]);
    window.shown[id] = [];
    keep();
    new MutationObserver(keep).observe(value, { childList: true, characterData: true, subtree: true });
  }
}

/** What a rate adds up to over the time it was shown. @param {[number, number][]} shown */
function sumOf(shown) {
  return shown.slice(1).reduce((sum, [at], index) => sum + (shown[index][1] * (at - shown[index][0])) / 1_000, 0);
}

/** @param {import('./ops_tab.mjs').Server} admin @returns {Promise<Map<string, number>>} samples of GET /metrics */
async function metricsOf(admin) {
  const headers = { authorization: `Bearer ${admin.key}` };
  const text = await (await fetch(new URL('/metrics', admin.url), { headers })).text();
  const lines = text.split('\n').filter((line) => line && !line.startsWith('#'));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]));
}

/** Ends with a fault, by code, as GET /metrics has them. @param {Map<string, number>} metrics */
function failuresOf(metrics) {
  const found = {};
  for (const [name, value] of metrics) {
    const code = /^antiphon_runs_ended_total\{(?=.*state="failed").*code="([^"]+)"/.exec(name)?.[1];
    if (code) found[code] = (found[code] ?? 0) + value;
  }
  return found;
}

/** What a figure has to say of errors by code. @param {Record<string, number>} errors */
function errorWords(errors) {
  const sorted = Object.entries(errors).sort((a, b) => b[1] - a[1]);
  return sorted.map(([code, number]) => `${number} ${code}`).join(', ');
}

/** Reads a run as any client does, over a request of its own. @returns {Promise<() => void>} ends it */
async function watch({ url, key }, id) {
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${key}` };
  const address = new URL(`/v1/responses/${id}?stream=true`, url);
  const { body } = await fetch(address, { headers, signal: stop.signal });
  await body.getReader().read();
  return () => stop.abort();
}

export const figures = {
  async errors_by_code_begin_with_the_page_and_are_counted_exactly({ context, url, server }) {
    const [driver, admin] = [server.as('driver'), server.as('admin')];
    for (let n = 0; n < 3; n += 1) await driver.ended(await driver.begin('antiphon/script:fail'));
    const before = failuresOf(await metricsOf(admin));
    assert.deepEqual(before, { server_error: 3 });
    const [tab, small] = [
      await OpsTab.open(context, url, 'admin', '?tenant=acme'),
      await OpsTab.open(context, url, 'operator'),
    ];
    for (const one of [tab, small]) {
      // Runs that failed before are in the table, not in the figure, which says since when it counts.
      await one.until(() => /^0 none since \d\d:\d\d$/.test(document.querySelector('#figure-errors p').textContent));
      assert.equal((await one.counts()).failed, 3);
    }
    const models = ['fail', 'rate_limited', 'rate_limited', 'fail', 'rate_limited'];
    const ids = await Promise.all(models.map((name) => driver.begin(`antiphon/script:${name}`)));
    for (const id of ids) assert.equal(await driver.ended(id), 'failed');
    const after = failuresOf(await metricsOf(admin));
    const grown = Object.fromEntries(Object.entries(after).map(([code, n]) => [code, n - (before[code] ?? 0)]));
    assert.equal(grown.server_error, 2);
    assert.equal(
      Object.values(grown).reduce((sum, more) => sum + more, 0),
      5,
    );
    await tab.says('#figure-errors .figure-words', `5 ${errorWords(grown)} since`);

    // Who may not see the sums of all tenants sees those of the runs in the table, by their own codes.
    const own = {};
    for (const id of ids) {
      const { code } = (await driver.state(id)).terminal;
      own[code] = (own[code] ?? 0) + 1;
    }
    await small.says('#figure-errors .figure-words', `5 ${errorWords(own)} since`);
    for (const one of [tab, small]) one.assertClean();
  },

  async tokens_costs_and_first_tokens_are_those_that_the_server_counts({ context, url, server }) {
    const [driver, admin] = [server.as('driver'), server.as('admin')];
    const tab = await OpsTab.open(context, url, 'admin', '?tenant=acme');
    const ids = await Promise.all([1, 2, 3].map(() => driver.begin('antiphon/script:priced')));
    for (const id of ids) {
      await driver.ended(id);
      await tab.shows(id, 'completed');
      const { usage, cost } = await driver.state(id);
      // 1,000 tokens at 2 a million, and 400 at 10.
      assert.deepEqual([usage.input_tokens, usage.output_tokens, cost], [1_000, 400, 0.006]);
      assert.equal(await tab.page.textContent(`#row-${id} .cell-tokens`), count(usage.output_tokens));
      assert.equal(await tab.page.textContent(`#row-${id} .cell-cost`), money(cost));
    }
    const { totals } = (await admin.ask('GET', '/v1/admin/status')).body;
    const { p50, p99 } = totals.first_token_ms;
    assert.ok(p99 >= 500, `three of the runs were silent for half a second, and p99 is ${p99} ms`);
    await tab.says('#figure-first-token .figure-words', `${milliseconds(p50)} p99 ${milliseconds(p99)}`);

    const metrics = await metricsOf(admin);
    assert.equal(totals.output_tokens, metrics.get('antiphon_tokens_total{direction="output"}'));
    assert.equal(totals.runs_started, metrics.get('antiphon_runs_started_total'));
    await tab.page.click('#server');
    await tab.says('#panel .note', `${count(totals.runs_started)} runs and ${count(totals.events)} events`);
    tab.assertClean();
  },

  async what_a_cancelled_run_used_is_said_to_be_an_estimate({ context, url, server }) {
    const driver = server.as('driver');
    const tab = await OpsTab.open(context, url, 'operator');
    const id = await driver.begin('antiphon/script:steady');
    await tab.shows(id, 'running');
    await tab.page.click(`#row-${id}`);
    await tab.says('#part-stream', 'word2');
    await driver.ask('POST', `/v1/responses/${id}/cancel`);
    await tab.shows(id, 'cancelled');
    const { usage, usage_estimated: isEstimate, cost } = await driver.state(id);
    assert.ok(isEstimate && usage.output_tokens > 0 && cost > 0);
    const [input, output] = [usage.input_tokens, usage.output_tokens].map(count);
    assert.equal(await tab.page.textContent(`#row-${id} .cell-tokens`), `~${output}`);
    await tab.says('#panel .facts', `~${input} in, ~${output} out`);
    await tab.says('#panel .facts', `~${money(cost)}`);
    await tab.page.click('#panel .panel-head >> text="Close"');
    assert.equal(await tab.page.textContent(`#row-${id} .cell-cost`), `~${money(cost)}`);
    tab.assertClean();
  },

  async clients_are_those_that_are_attached({ context, url, server }) {
    const driver = server.as('driver');
    const id = await driver.beginAsking();
    const tab = await OpsTab.open(context, url, 'operator');
    const { page } = tab;
    const shows = async (number) => {
      const same = ([run, wanted]) => document.querySelector(`#row-${run} .cell-clients`)?.textContent === wanted;
      await tab.until(same, [id, String(number)]);
      assert.equal((await driver.state(id)).participants.length, number);
    };
    await tab.shows(id, 'waiting_for_tool');
    await shows(0);
    const ends = [await watch(driver, id), await watch(driver, id)];
    await shows(2);
    await page.click(`#row-${id}`);
    await shows(3);
    await tab.says('#tab-people', 'Attached 3');
    ends[0]();
    await shows(2);
    await page.click('#panel .panel-head >> text="Close"');
    await shows(1);
    ends[1]();
    await shows(0);
    await driver.ask('POST', `/v1/responses/${id}/cancel`);
    tab.assertClean();
  },

  async rates_add_up_to_what_the_runs_wrote({ context, url, server }) {
    const driver = server.as('driver');
    const tab = await OpsTab.open(context, url, 'operator');
    await tab.says('#figure-events', '0.0');
    await tab.page.evaluate(recordFigures, ['figure-events', 'figure-tokens']);
    const ids = [await driver.begin('antiphon/script:steady'), await driver.begin('antiphon/script:steady')];
    for (const id of ids) await driver.ended(id);
    // The rates are of the last seconds: when they are zero again they have said everything.
    for (const figure of ['events', 'tokens']) {
      await tab.until((id) => document.querySelector(`#figure-${id} .figure-value`).textContent === '0.0', figure);
    }
    const states = await Promise.all(ids.map((id) => driver.state(id)));
    const events = states.reduce((sum, { head }) => sum + head + 1, 0);
    const tokens = states.reduce((sum, { usage }) => sum + usage.output_tokens, 0);
    assert.equal(tokens, 400, 'as many words as the scripts have');
    const shown = await tab.page.evaluate(() => window.shown);
    near(sumOf(shown['figure-events']), events, 'events');
    near(sumOf(shown['figure-tokens']), tokens, 'tokens');
    tab.assertClean();
  },
};

/** @param {number} found @param {number} wanted @param {string} what */
function near(found, wanted, what) {
  const words = `${what}: the page showed ${found.toFixed(0)} in all, the server counts ${wanted}`;
  assert.ok(Math.abs(found - wanted) <= wanted * RATE_TOLERANCE, words);
}
