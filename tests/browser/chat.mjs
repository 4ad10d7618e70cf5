/**
 * node chat.mjs <scenario> <url of the server>
 *
 * Runs one scenario in a fresh browser profile and exits with 0 if the page did what it should. A
 * scenario may ask its caller for something (a line on stdout) and is answered with a line on stdin.
 */
import { createInterface } from 'node:readline';
import { basics } from './scenarios_basics.mjs';
import { behindRelay, continuity } from './scenarios_continuity.mjs';
import { failures } from './scenarios_failures.mjs';
import { questions } from './scenarios_questions.mjs';
import { Tab, launch } from './tab.mjs';

const SCENARIOS = { ...basics, ...continuity, ...failures, ...questions };
const [name, url] = process.argv.slice(2);

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
/** @param {string} wish @returns {Promise<string>} */
async function ask(wish) {
  console.log(wish);
  return (await answers.next()).value;
}

const browser = await launch();
/** @type {Tab[]} */
const tabs = [];
try {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Vienna' });
  const another = async () => tabs[tabs.push(await Tab.in(context)) - 1];
  await SCENARIOS[name]({ tab: await another(), context, url: `${url}/`, another, ask, behindRelay });
} catch (error) {
  for (const tab of tabs) console.error(await tab.describe());
  throw error;
} finally {
  process.stdin.destroy();
  await browser.close();
}
