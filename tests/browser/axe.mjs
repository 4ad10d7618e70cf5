/** What every page has to pass in both themes, and the pictures that are kept of it. */
import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const AXE = await readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');
/** Kept after the tests; git does not see it. */
const FOLDER = process.env.ANTIPHON_SCREENSHOTS || fileURLToPath(new URL('../artifacts', import.meta.url));

export const THEMES = ['light', 'dark'];

/**
 * No rule of axe-core is violated on the page as it is.
 * @param {import('playwright-core').Page} page @param {string} what for the message
 */
export async function assertAccessible(page, what) {
  // Evaluated, not added as a script, which the page's own policy forbids.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const said = violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes.map(({ html, failureSummary }) => `  ${html}\n  ${failureSummary}`).join('\n')}`,
  );
  assert.deepEqual(said, [], what);
}

/**
 * The page in both themes: accessible, and kept as a picture.
 * @param {import('playwright-core').Page} page @param {string} name of the picture
 */
export async function inBothThemes(page, name) {
  for (const colorScheme of THEMES) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await assertAccessible(page, `${name} in ${colorScheme}`);
    await screenshot(page, `${name}-${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
}

/** @param {import('playwright-core').Page} page @param {string} name */
export async function screenshot(page, name) {
  await mkdir(FOLDER, { recursive: true });
  await page.screenshot({ path: path.join(FOLDER, `${name}.png`) });
}
