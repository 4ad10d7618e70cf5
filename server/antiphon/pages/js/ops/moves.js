/** Moving through the table with the keyboard. */

/**
 * Which line a key leads to.
 * @param {string} key @param {number} at -1: none is chosen @param {number} rows @param {number} page
 */
export function target(key, at, rows, page) {
  if (!rows) return null;
  const last = rows - 1;
  if (key === 'Home') return 0;
  if (key === 'End') return last;
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[key];
  if (step === undefined) return null;
  return at < 0 ? 0 : Math.min(last, Math.max(0, at + step));
}
