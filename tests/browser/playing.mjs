/**
 * Plays scenarios one after another, all of them whatever fails; the process then exits with 1 and names those that did.
 * @param {string[]} names
 * @param {(name: string) => Promise<boolean>} play whether the page did what it should
 */
export async function playAll(names, play) {
  const failed = [];
  for (const name of names) if (!(await play(name))) failed.push(name);
  if (failed.length) {
    console.error(`failed: ${failed.join(', ')}`);
    process.exitCode = 1;
  }
}
