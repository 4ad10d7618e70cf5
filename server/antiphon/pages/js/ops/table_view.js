/** The table: only the lines that are in view exist. Arrow keys move through it, Enter opens a run. */
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '../../vendor/virtual-core.js';
import { el, setText } from '../shared/dom.js';
import { target } from './moves.js';
import { COLUMNS, RowView } from './row_view.js';

/**
 * @typedef {import('./types.js').Row} Row
 * @typedef {import('./address.js').View} View
 * @typedef {import('./address.js').SortKey} SortKey
 */

/** Lines above and below the view that exist already. */
const OVERSCAN = 6;

export class TableView {
  /** @type {Row[]} */
  #rows = [];
  /** @type {Map<string, RowView>} by id of the run */
  #views = new Map();
  /** @type {RowView[]} */
  #spare = [];
  #rowHeight = 36;
  #headHeight = 0;
  #active = '';
  #open = '';

  /**
   * @param {HTMLElement} grid
   * @param {{open: (id: string) => void, sort: (key: SortKey) => void, draw: () => void}} does
   *   `draw`: the table asks to be drawn with the next frame
   */
  constructor(grid, does) {
    this.grid = grid;
    this.does = does;
    this.heads = COLUMNS.map((column) => this.#head(column));
    this.head = el('div', { class: 'row head', role: 'row', 'aria-rowindex': '1' }, ...this.heads);
    this.body = el('div', { class: 'rows', role: 'rowgroup' });
    grid.append(el('div', { class: 'head-group', role: 'rowgroup' }, this.head), this.body);
    grid.setAttribute('aria-colcount', String(COLUMNS.length));
    this.virtual = new Virtualizer(this.#options());
    this.virtual._didMount();
    this.virtual._willUpdate();
    grid.addEventListener('keydown', (event) => this.#key(event));
    grid.addEventListener('click', (event) => this.#click(event));
    new ResizeObserver(() => this.#measure()).observe(grid);
    this.#measure();
  }

  /** @param {Row[]} rows in their order @param {View} view @param {number} now Unix seconds */
  update(rows, view, now) {
    this.#rows = rows;
    this.#open = view.run;
    this.grid.setAttribute('aria-rowcount', String(rows.length + 1));
    this.grid.classList.toggle('has-tenants', view.tenant === '*');
    for (const [index, { sort }] of COLUMNS.entries()) {
      if (sort) this.heads[index].setAttribute('aria-sort', sortWord(view, sort));
    }
    this.virtual.setOptions(this.#options());
    this.virtual._willUpdate();
    this.body.style.height = `${this.virtual.getTotalSize()}px`;
    this.#draw(now);
  }

  focus() {
    this.grid.focus();
  }

  /** @param {string} id */
  activate(id) {
    this.#active = id;
    const index = this.#rows.findIndex((row) => row.id === id);
    if (index >= 0) this.virtual.scrollToIndex(index);
    this.does.draw();
  }

  /** @param {number} now */
  #draw(now) {
    const items = this.virtual.getVirtualItems();
    const wanted = new Set(items.map(({ index }) => this.#rows[index]?.id));
    for (const [id, view] of this.#views) {
      if (wanted.has(id)) continue;
      this.#views.delete(id);
      view.element.remove();
      this.#spare.push(view);
    }
    for (const { index, start } of items) {
      const row = this.#rows[index];
      if (row) this.#drawRow(row, index, start - this.#headHeight, now);
    }
    const active = this.#views.get(this.#active);
    if (active) this.grid.setAttribute('aria-activedescendant', active.element.id);
    else this.grid.removeAttribute('aria-activedescendant');
  }

  /** @param {Row} row @param {number} index @param {number} top @param {number} now */
  #drawRow(row, index, top, now) {
    let view = this.#views.get(row.id);
    if (!view) {
      view = this.#spare.pop() ?? new RowView();
      this.#views.set(row.id, view);
      this.body.append(view.element);
    }
    view.update(row, index, top, now);
    view.element.classList.toggle('is-active', row.id === this.#active);
    setAttribute(view.element, 'aria-selected', String(row.id === this.#open));
  }

  #options() {
    return {
      count: this.#rows.length,
      getScrollElement: () => this.grid,
      estimateSize: () => this.#rowHeight,
      paddingStart: this.#headHeight,
      scrollPaddingStart: this.#headHeight,
      overscan: OVERSCAN,
      getItemKey: (/** @type {number} */ index) => this.#rows[index]?.id ?? index,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      onChange: () => this.does.draw(),
    };
  }

  /** The style sheet decides how high a line is; on a phone it has two. */
  #measure() {
    const height = Number.parseFloat(getComputedStyle(this.grid).getPropertyValue('--row-height')) || 36;
    const head = this.head.offsetHeight;
    if (height === this.#rowHeight && head === this.#headHeight) return;
    this.#rowHeight = height;
    this.#headHeight = head;
    this.virtual.setOptions(this.#options());
    this.virtual.measure();
    this.does.draw();
  }

  /** @param {import('./row_view.js').Column} column */
  #head({ name, title, sort, isNumber }) {
    const head = el('span', { class: `cell cell-${name}${isNumber ? ' is-number' : ''}`, role: 'columnheader' });
    if (!sort) setText(head, title);
    else {
      const button = el('button', { class: 'sort', type: 'button' }, title);
      button.addEventListener('click', () => this.does.sort(sort));
      head.append(button);
    }
    return head;
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const line = /** @type {Element} */ (event.target).closest('[data-id]');
    const id = line instanceof HTMLElement && line.dataset.id;
    if (!id || getSelection()?.toString()) return;
    this.#active = id;
    this.does.open(id);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.target !== this.grid || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === 'Enter' && this.#views.has(this.#active)) {
      event.preventDefault();
      this.does.open(this.#active);
      return;
    }
    const at = this.#rows.findIndex(({ id }) => id === this.#active);
    const to = target(event.key, at, this.#rows.length, Math.floor(this.grid.clientHeight / this.#rowHeight) - 1);
    if (to === null) return;
    event.preventDefault();
    this.activate(this.#rows[to].id);
  }
}

/** @param {View} view @param {SortKey} key */
function sortWord(view, key) {
  if (view.sort !== key) return 'none';
  return view.descending ? 'descending' : 'ascending';
}

/** @param {Element} element @param {string} name @param {string} value */
function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
