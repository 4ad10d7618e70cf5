/** A page that was loaded from an older or a newer server than the one it talks to. */
import assert from 'node:assert/strict';
import { inBothThemes } from './axe.mjs';

/**
 * Stands between the page and its server, on each socket.
 * @param {import('playwright-core').Page} page
 * @param {{said?: (frame: any) => any, heard?: (frame: any) => any[]}} changes what the page says, and what it hears
 * @returns {Promise<() => Promise<void>>} cuts the newest socket
 */
async function between(page, { said = (frame) => frame, heard = (frame) => [frame] }) {
  let newest;
  await page.routeWebSocket(/\/v1\/responses/, (socket) => {
    newest = socket;
    const server = socket.connectToServer();
    socket.onMessage((text) => server.send(JSON.stringify(said(JSON.parse(text)))));
    server.onMessage((text) => heard(JSON.parse(text)).forEach((frame) => socket.send(JSON.stringify(frame))));
  });
  return () => newest.close({ code: 1012 });
}

export const versions = {
  async a_page_that_is_older_or_newer_than_its_server_is_told_to_reload({ tab, url }) {
    let protocol = 1;
    const cut = await between(tab.page, {
      said: (frame) => (frame.type === 'antiphon:hello' ? { ...frame, protocol } : frame),
    });
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send('before the upgrade');
    await tab.done();
    for (const other of [0, 2]) {
      protocol = other;
      await cut();
      await tab.says('#banner', 'This server speaks version 1 of the extension.');
      await tab.says('#banner', 'reload it');
      await tab.says('#connection', 'Not connected');
      assert.ok(await tab.page.isHidden('#trouble'), 'it is said once');
      await inBothThemes(tab.page, 'chat-outdated');
      assert.deepEqual(await tab.answers(), ['before the upgrade'], 'what was read stays readable');
      protocol = 1;
      await tab.page.click('#banner button');
      await tab.says('#connection', 'Connected');
      await tab.until(() => document.querySelector('#banner').hidden);
      await tab.done();
      assert.deepEqual(await tab.answers(), ['before the upgrade']);
    }
    tab.assertClean();
  },

  async what_a_newer_page_or_server_says_beside_the_known_is_passed_over({ tab, url }) {
    const novel = { novel: { of: ['a later', 'release'] } };
    let isRefusing = false;
    await between(tab.page, {
      said: (frame) => (frame.type.startsWith('antiphon:') ? { ...frame, ...novel } : frame),
      heard: (frame) => {
        if (isRefusing && frame.type === 'error') frame.error.code = 'novel_code';
        return [
          { type: 'antiphon:novel', ...novel },
          { ...frame, ...novel },
        ];
      },
    });
    await tab.open(url, { model: 'antiphon/echo' });
    await tab.send('Hello?');
    await tab.done();
    await tab.matchesServer();
    isRefusing = true;
    await tab.page.goto(`${url}?model=nobody/knows-it`);
    await tab.says('#connection', 'Connected');
    await tab.page.click('#new');
    await tab.send('Hello?');
    await tab.done(1, 'refused');
    await tab.says('.outcome', "There is no model 'nobody/knows-it' here.");
    await tab.says('.outcome code', 'novel_code');
    assert.ok(await tab.page.isHidden('#banner'));
    tab.assertClean();
  },
};
