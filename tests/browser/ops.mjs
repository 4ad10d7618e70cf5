/**
 * node ops.mjs <url of the server> <scenario>...
 *
 * Plays scenarios in one browser, each in a profile of its own, and exits with 0 if the page did what it should.
 */
import { createInterface } from 'node:readline';
import { access } from './ops_access.mjs';
import { figures } from './ops_figures.mjs';
import { roles } from './ops_roles.mjs';
import { Server } from './ops_tab.mjs';
import { steering } from './ops_steering.mjs';
import { text } from './ops_text.mjs';
import { playAll } from './playing.mjs';
import { watching } from './ops_watching.mjs';
import { launch } from './tab.mjs';

const SCENARIOS = { ...access, ...figures, ...roles, ...steering, ...text, ...watching };
const [url, ...names] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Something that only the caller can do: a line on stdout, answered by one on stdin. @param {string} wish */
async function ask(wish) {
  console.log(wish);
  return (await answers.next()).value;
}

const browser = await launch();

/** @param {string} name */
async function play(name) {
  const context = await browser.newContext({
    locale: 'en-GB',
    timezoneId: 'Europe/Vienna',
    viewport: { width: 1280, height: 800 },
  });
  /** What the pages complained of, also those that never opened. @type {string[]} */
  const complaints = [];
  context.on(
    'console',
    (message) => message.type() === 'error' && complaints.push(`${message.text()} ${message.location().url}`),
  );
  context.on('weberror', (error) => complaints.push(String(error.error().stack)));
  context.on('requestfailed', (request) => complaints.push(`${request.url()} ${request.failure()?.errorText}`));
  const began = Date.now();
  try {
    await SCENARIOS[name]({ context, url: `${url}/`, server: new Server(url), ask });
    console.log(`${name}: ${Date.now() - began} ms`);
    return true;
  } catch (error) {
    console.error(`\n${name}: ${error.stack ?? error}`);
    for (const page of context.pages()) {
      console.error(page.url(), await page.evaluate(() => document.body.innerText.slice(0, 4_000)).catch(String));
    }
    console.error(complaints.join('\n'));
    return false;
  } finally {
    await context.close();
  }
}

try {
  await playAll(names, play);
} finally {
  await browser.close();
}
// Whatever a scenario that failed has left behind.
process.exit();
