/**
 * node chat.mjs <url of the server> <scenario>...
 *
 * Plays scenarios in one browser, each in a profile of its own, and exits with 0 if the page did what it should. A
 * scenario may ask its caller for something (a line on stdout) and is answered with a line on stdin.
 */
import { createInterface } from 'node:readline';
import { basics } from './scenarios_basics.mjs';
import { branches } from './scenarios_branches.mjs';
import { playAll } from './playing.mjs';
import { behindRelay, continuity } from './scenarios_continuity.mjs';
import { failures } from './scenarios_failures.mjs';
import { hostility } from './scenarios_hostile.mjs';
import { questions } from './scenarios_questions.mjs';
import { sharing } from './scenarios_sharing.mjs';
import { twice } from './scenarios_twice.mjs';
import { versions } from './scenarios_versions.mjs';
import { Tab, launch } from './tab.mjs';

const SCENARIOS = {
  ...basics,
  ...branches,
  ...continuity,
  ...failures,
  ...hostility,
  ...questions,
  ...sharing,
  ...twice,
  ...versions,
};
const [, , first, ...names] = process.argv;
/** Of the server as it is now. */
let url = first;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
/** Starts the server anew. @returns {Promise<string>} its new address */
async function restart() {
  console.log('restart');
  url = (await answers.next()).value;
  return url;
}

const browser = await launch();
const profile = () => browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Vienna' });

/** @param {string} name */
async function play(name) {
  const context = await profile();
  /** @type {Tab[]} */
  const tabs = [];
  const another = async () => tabs[tabs.push(await Tab.in(context)) - 1];
  /** A tab of somebody else, whose browser knows nothing. */
  const elsewhere = async () => tabs[tabs.push(await Tab.in(await profile())) - 1];
  try {
    await SCENARIOS[name]({ tab: await another(), context, url: `${url}/`, another, elsewhere, restart, behindRelay });
    return true;
  } catch (error) {
    console.error(`\n${name}: ${error.stack ?? error}`);
    for (const tab of tabs) console.error(await tab.describe().catch(String));
    return false;
  } finally {
    for (const tab of tabs) await tab.page.context().close();
  }
}

try {
  await playAll(names, play);
} finally {
  process.stdin.destroy();
  await browser.close();
}
