/** Says of a line that scrolls where there is more of it, so that the style sheet can show it. */

/** Keeps `data-more` true: `before`, `after`, both or empty. @param {HTMLElement} line */
export function markEdges(line) {
  const mark = () => {
    const after = line.scrollWidth - line.clientWidth - line.scrollLeft;
    // Positions are fractions of a pixel on some screens.
    line.dataset.more = `${line.scrollLeft > 1 ? 'before ' : ''}${after > 1 ? 'after' : ''}`.trim();
  };
  line.addEventListener('scroll', mark, { passive: true });
  const observer = new ResizeObserver(mark);
  for (const element of [line, ...line.children]) observer.observe(element);
}
