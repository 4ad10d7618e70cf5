/** What an operator sees and does while runs come and go. The scripts are written by test_ops_page.py. */
import assert from 'node:assert/strict';
import { Relay } from './relay.mjs';
import { NETWORK_NOISE } from './tab.mjs';
import { ENDED, OpsTab } from './ops_tab.mjs';

const WATCHED = 'antiphon/script:watched';

/** Every kind of end; most are quick. */
const KINDS = [
  { model: 'antiphon/echo' },
  { model: 'antiphon/script:fail' },
  { model: 'antiphon/script:cut' },
  { model: 'antiphon/script:refuse' },
  { model: 'antiphon/script:short' },
  { model: 'antiphon/script:watched', isCancelled: true },
];

/** Keeps every run that ever was in the table, with its last state. Runs in the page. */
function recordRows() {
  window.seen = {};
  const look = () => {
    for (const { dataset } of document.querySelectorAll('.rows .row')) window.seen[dataset.id] = dataset.state;
  };
  new MutationObserver(look).observe(document.querySelector('.rows'), {
    childList: true,
    subtree: true,
    attributes: true,
  });
}

export const watching = {
  async every_one_of_two_hundred_runs_is_seen_to_begin_and_to_end({ context, url, server }) {
    const driver = server.as('driver');
    const tab = await OpsTab.open(context, url, 'operator');
    // So high that every line is there: this is about the runs, not about what is in view.
    await tab.page.setViewportSize({ width: 1280, height: 9_000 });
    await tab.page.evaluate(recordRows);
    const ids = [];
    for (let round = 0; round < 20; round += 1) {
      const kinds = Array.from({ length: 10 }, (_, index) => KINDS[(round * 10 + index) % KINDS.length]);
      ids.push(
        ...(await Promise.all(
          kinds.map(async ({ isCancelled, model, ...more }) => {
            const id = await driver.begin(model, more);
            if (isCancelled) await driver.ask('POST', `/v1/responses/${id}/cancel`);
            return id;
          }),
        )),
      );
    }
    const ends = Object.fromEntries(await Promise.all(ids.map(async (id) => [id, await driver.ended(id)])));
    assert.deepEqual(new Set(Object.values(ends)), new Set(ENDED), 'every kind of end is among them');
    await tab.until((wanted) => Object.entries(wanted).every(([id, end]) => window.seen[id] === end), ends);
    assert.equal(ids.length, 200);

    let page = {};
    let truth = null;
    // Ended runs leave both after a minute, not in the same moment.
    for (const end = Date.now() + 90_000; JSON.stringify(page) !== truth && Date.now() < end;) {
      const counts = await server.as('operator').counts();
      page = sorted(await tab.counts());
      truth = JSON.stringify(sorted(counts));
      await tab.page.evaluate(() => new Promise(requestAnimationFrame));
    }
    assert.equal(JSON.stringify(page), truth, 'the counts are those of GET /v1/runs');
    assert.equal(page.running ?? page.queued ?? page.waiting_for_tool, undefined, 'no stale line');
    await tab.until(() => document.querySelector('#figure-runs .figure-value').textContent === '0');
    await tab.says('#figure-errors', 'server_error');
    tab.assertClean();
  },

  async a_run_is_opened_with_the_keyboard_and_cancelled_after_a_question({ context, url, server }) {
    const driver = server.as('driver');
    const waiting = await driver.beginAsking();
    const running = await driver.begin(WATCHED);
    const tab = await OpsTab.open(context, url, 'operator');
    const { page } = tab;
    await tab.shows(waiting, 'waiting_for_tool');
    assert.match(await page.textContent(`#row-${waiting} .cell-pending`), /left, ask_person/);

    await page.focus('#grid');
    await page.keyboard.press('ArrowDown');
    await tab.until(
      (id) => document.querySelector('#grid').getAttribute('aria-activedescendant') === `row-${id}`,
      running,
    );
    await page.keyboard.press('Enter');
    await tab.until((id) => location.search === `?run=${id}`, running);
    await tab.until(() => document.activeElement.id === 'panel-title');
    await tab.says('#part-stream', 'word3 word4');
    await tab.says('.speeds', 'Live');

    await page.click('#panel .danger');
    assert.match(await page.textContent('dialog h2'), /Cancel the run .* of key:driver\?/);
    await page.keyboard.press('Escape');
    await tab.until(() => !document.querySelector('dialog') && !document.querySelector('#panel').hidden);
    assert.equal(await driver.status(running), 'in_progress', 'a no changes nothing');
    await page.click('#panel .danger');
    await page.click('dialog .danger');
    await tab.shows(running, 'cancelled');
    await tab.says('#panel .note', 'Cancelled by key:operator.');
    assert.equal(await driver.status(running), 'cancelled');
    await tab.until(() => document.querySelector('#panel .danger').hidden);

    await page.keyboard.press('Escape');
    await tab.until(() => document.querySelector('#panel').hidden && document.activeElement.id === 'grid');
    await page.click(`#row-${waiting}`);
    await tab.showsPart('calls', 'Waiting,');
    await tab.showsPart('timeline', 'tool waiting');
    await tab.showsPart('people', 'key:operator');
    await page.click('#panel >> text="Steer"');
    await page.fill('dialog textarea', 'Take <b>blue</b>.');
    await page.click('dialog >> text="Steer"');
    await tab.showsPart('timeline', 'steered');
    await driver.ask('POST', `/v1/responses/${waiting}/cancel`);
    tab.assertClean();
  },

  async an_ended_run_is_played_again_from_its_start({ context, url, server }) {
    const driver = server.as('driver');
    const id = await driver.begin('antiphon/script:brief');
    await driver.ended(id);
    const tab = await OpsTab.open(context, url, 'viewer', `?run=${id}`);
    await tab.says('#part-stream', 'word39');
    await tab.says('.played-words', 'events');
    const whole = await tab.page.textContent('.stream');
    await tab.page.evaluate(() => {
      window.texts = [];
      new MutationObserver(() => window.texts.push(document.querySelector('.stream').textContent)).observe(
        document.querySelector('.stream'),
        { childList: true, subtree: true, characterData: true },
      );
    });
    for (const speed of ['1×', '4×']) {
      await tab.page.evaluate(() => (window.texts.length = 0));
      await tab.page.click(`.speeds >> text="${speed}"`);
      await tab.until(() => document.querySelector('.played').value < document.querySelector('.played').max);
      await tab.says('.played-words', 'spread evenly over');
      await tab.until((text) => document.querySelector('.stream').textContent === text, whole);
      const grown = (await tab.page.evaluate(() => window.texts)).filter((text) => text && text !== whole);
      assert.ok(grown.length >= 2, `at ${speed} the text grew in ${grown.length} steps`);
      assert.ok(
        grown.every((text) => whole.startsWith(text)),
        'each is a beginning of the whole',
      );
    }
    await tab.page.click('.speeds >> text="Instant"');
    await tab.until(() => document.querySelector('.speeds [aria-pressed="true"]').textContent === 'Instant');
    assert.equal(await tab.page.textContent('.stream'), whole);
    await tab.page.click('.speeds >> text="Whole"');
    await tab.until((text) => document.querySelector('.stream').textContent === text, whole);
    tab.assertClean();
  },

  async what_runs_hold_stays_text({ context, url, server }) {
    const html = '<img src=x onerror=alert(1)><script>alert(2)</script>';
    const driver = server.as('driver');
    const asking = await driver.beginAsking({ labels: { note: html.slice(0, 40) } });
    const echo = await driver.begin('antiphon/echo', { input: html });
    await driver.ended(echo);
    const tab = await OpsTab.open(context, url, 'operator', `?run=${echo}&text=${encodeURIComponent(html)}&tenant=`);
    await tab.says('#part-stream', html);
    await tab.says('#empty', 'No run matches');
    await tab.page.click('#clear');
    await tab.shows(asking);
    await tab.page.click(`#row-${asking}`);
    await tab.says('#panel .facts', '<img src=x onerror=alert(1)>');
    await tab.showsPart('calls', '<img src=x onerror=alert(1)> Which colour?');
    assert.equal(await tab.page.$$eval('main img, main script', (found) => found.length), 0);
    await driver.ask('POST', `/v1/responses/${asking}/cancel`);
    tab.assertClean();
  },

  async filters_stand_in_the_address({ context, url, server }) {
    const driver = server.as('driver');
    const waiting = await driver.beginAsking({ labels: { app: 'shop' } });
    const ended = await driver.begin('antiphon/echo', { antiphon: { labels: { app: 'desk' } } });
    await driver.ended(ended);
    const tab = await OpsTab.open(context, url, 'viewer');
    const { page } = tab;
    const isAlone = (id) =>
      tab.until(
        (one) =>
          [...document.querySelectorAll('.rows .row')].every(({ dataset }) => dataset.id === one) &&
          document.getElementById(`row-${one}`),
        id,
      );
    await tab.shows(ended, 'completed');
    await page.click('.chip:has-text("Waiting")');
    await isAlone(waiting);
    assert.equal(new URL(page.url()).search, '?state=waiting_for_tool');
    await tab.page.reload();
    await tab.isLive();
    await isAlone(waiting);
    assert.equal(await page.getAttribute('.chip:has-text("Waiting")', 'aria-pressed'), 'true');
    assert.match(await page.textContent('#shown'), /^1 of \d+ runs$/);

    await page.click('#clear');
    await tab.shows(ended);
    await page.selectOption('#model', 'antiphon/echo');
    await page.fill('#text', 'app=desk');
    await isAlone(ended);
    await page.goBack();
    await tab.until(() => location.search === '');
    await tab.shows(waiting);
    await page.click('.cell-model .sort');
    await tab.until(() => location.search === '?sort=model');
    assert.equal(await page.getAttribute('.head .cell-model', 'aria-sort'), 'ascending');
    const models = () =>
      page.$$eval('.rows .row', (rows) =>
        rows.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.querySelector('.cell-model').textContent),
      );
    await tab.until(
      () => document.querySelector('.rows .row[aria-rowindex="2"] .cell-model').textContent === 'antiphon/echo',
    );
    assert.deepEqual(await models(), (await models()).sort());
    await page.goto(`${url}ops?state=nonsense&sort=nothing&run=resp_unknown`);
    await tab.says('#panel .note', 'There is no such run');
    await driver.ask('POST', `/v1/responses/${waiting}/cancel`);
    tab.assertClean(/status of 404/);
  },

  async without_a_network_it_says_since_when_and_then_misses_nothing({ context, url, server }) {
    const driver = server.as('driver');
    const relay = await Relay.to(url);
    const before = await driver.begin(WATCHED);
    const tab = await OpsTab.open(context, relay.url, 'operator');
    await tab.shows(before, 'running');
    // A socket that is open outlives it when the device goes offline, so the network is cut first.
    relay.down();
    await tab.until(() => /^Stale since \d+ s$/.test(document.querySelector('#connection').textContent.trim()));
    await tab.says('#banner', 'The connection is lost.');
    await context.setOffline(true);
    await tab.says('#banner', 'This device is offline.');
    await tab.until(() => Number(/\d+/.exec(document.querySelector('#connection').textContent)[0]) >= 2);
    const meanwhile = await Promise.all(Array.from({ length: 5 }, () => driver.begin('antiphon/echo')));
    await Promise.all(meanwhile.map((id) => driver.ended(id)));
    await driver.ask('POST', `/v1/responses/${before}/cancel`);
    relay.up();
    await context.setOffline(false);
    await tab.isLive();
    for (const id of meanwhile) await tab.shows(id, 'completed');
    await tab.shows(before, 'cancelled');
    await tab.until(() => document.querySelector('#banner').hidden);
    await relay.close();
    tab.assertClean(NETWORK_NOISE);
  },

  async a_feed_that_began_anew_is_said_to({ context, url, server, ask }) {
    const relay = await Relay.to(url);
    await server.begin('antiphon/echo');
    const waiting = await server.beginAsking();
    const tab = await OpsTab.open(context, relay.url);
    await tab.shows(waiting, 'waiting_for_tool');
    const fresh = await ask('restart');
    relay.target(fresh);
    await tab.says('#connection', 'Began anew');
    await tab.shows(waiting, 'waiting_for_tool');
    await tab.until(() => document.querySelectorAll('.rows .row').length === 1);
    await tab.page.click(`#row-${waiting}`);
    await tab.says('#part-stream', 'One thing first.');
    await relay.close();
    tab.assertClean(NETWORK_NOISE);
  },
};

/** @param {Record<string, number>} counts */
const sorted = (counts) => Object.fromEntries(Object.entries(counts).sort());
