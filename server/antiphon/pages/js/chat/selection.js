/** The text that was selected in the page last. Writing somewhere else does not forget it. */

/** @param {() => void} onChange @returns {() => string} */
export function watchSelection(onChange) {
  let selected = '';
  document.addEventListener('selectionchange', () => {
    const selection = document.getSelection();
    // What is selected in a field, a key perhaps, is no range of the page.
    const text = !selection || selection.isCollapsed ? '' : selection.toString().trim();
    if (!text || text === selected) return;
    selected = text;
    onChange();
  });
  return () => selected;
}
