/** One line of the table. It is used again for another run when its own has left the view. */
import { el } from '../shared/dom.js';
import { age, clients, firstDeadline } from './arrange.js';
import { isEstimated } from './rows.js';
import { StateMark } from './state_mark.js';
import { ENDED, count, money, rate, shortId, span, untilDeadline } from './words.js';

/**
 * @typedef {import('./types.js').Row} Row
 * @typedef {import('./address.js').SortKey} SortKey
 *
 * @typedef {object} Column
 * @property {string} name
 * @property {SortKey} [sort] what a press on its head orders by
 * @property {boolean} [isNumber]
 * @property {string} title
 * @property {(row: Row, now: number) => string} [text]
 */

/** @type {readonly Column[]} */
export const COLUMNS = [
  { name: 'state', title: 'State', sort: 'state' },
  { name: 'run', title: 'Run', sort: 'created', text: ({ id }) => shortId(id) },
  { name: 'agent', title: 'Agent', sort: 'agent', text: ({ run }) => run.agent ?? '' },
  { name: 'model', title: 'Model', sort: 'model', text: ({ run }) => run.model },
  { name: 'tenant', title: 'Tenant', sort: 'tenant', text: ({ run }) => run.tenant },
  { name: 'by', title: 'By', text: ({ run }) => run.principal },
  { name: 'step', title: 'Step', sort: 'step', isNumber: true, text: ({ run }) => String(run.step ?? 0) },
  { name: 'tool', title: 'Tool', sort: 'tool', text: ({ run }) => run.current_tool ?? '' },
  { name: 'pending', title: 'Waits for', sort: 'pending', text: pendingWords },
  { name: 'clients', title: 'Clients', sort: 'clients', isNumber: true, text: clientWords },
  { name: 'age', title: 'Age', sort: 'age', isNumber: true, text: ageWords },
  { name: 'tokens', title: 'Tokens', sort: 'tokens', isNumber: true, text: tokenWords },
  { name: 'rate', title: 'Tok/s', sort: 'rate', isNumber: true, text: rateWords },
  { name: 'cost', title: 'Cost', sort: 'cost', isNumber: true, text: costWords },
];

/** Of a run that has ended the last state lists who was there. @param {Pick<Row, 'run'>} row */
export function clientWords(row) {
  return row.run.terminal ? '' : String(clients(row));
}

/** @param {Pick<Row, 'run'>} row @param {number} now */
export function pendingWords(row, now) {
  const calls = row.run.pending_calls ?? [];
  if (!calls.length) return '';
  const deadline = firstDeadline(row);
  const more = calls.length > 1 ? ` +${calls.length - 1}` : '';
  // The time comes first: it is still to be read where there is little room.
  return `${Number.isFinite(deadline) ? `${untilDeadline(deadline, now)}, ` : ''}${calls[0].name}${more}`;
}

/** @param {Pick<Row, 'run'>} row @param {number} now */
export function ageWords(row, now) {
  const seconds = age(row, now);
  return ENDED.has(row.run.state) && seconds < 10 ? `${seconds.toFixed(1)} s` : span(seconds);
}

/** @param {Row} row */
export function tokenWords(row) {
  return about(isEstimated(row), count(row.outputTokens));
}

/** @param {Pick<Row, 'run'>} row */
export function costWords({ run }) {
  return about(run.usage_estimated === true, money(run.cost));
}

/** @param {boolean} isEstimate @param {string} words of a number; empty: it is not known */
export const about = (isEstimate, words) => (isEstimate && words ? `~${words}` : words);

/** @param {Row} row */
function rateWords({ run, tokensPerS }) {
  return ENDED.has(run.state) || !tokensPerS ? '' : rate(tokensPerS);
}

export class RowView {
  id = '';
  #top = -1;
  /** @type {string[]} */
  #shown = [];

  constructor() {
    this.mark = new StateMark();
    this.cells = COLUMNS.map(({ name, isNumber }) =>
      el('span', { class: `cell cell-${name}${isNumber ? ' is-number' : ''}`, role: 'gridcell' }),
    );
    this.cells[0].append(this.mark.element);
    this.element = el('div', { class: 'row', role: 'row' }, ...this.cells);
  }

  /**
   * @param {Row} row @param {number} index in the table @param {number} top pixels
   * @param {number} now Unix seconds
   */
  update(row, index, top, now) {
    this.#place(row, index, top);
    this.mark.update(row.run.state);
    for (const [at, { text }] of COLUMNS.entries()) {
      if (!text) continue;
      const words = text(row, now);
      if (this.#shown[at] === words) continue;
      this.#shown[at] = words;
      this.cells[at].textContent = words;
    }
  }

  /** @param {Row} row @param {number} index @param {number} top */
  #place(row, index, top) {
    if (this.id !== row.id) {
      this.id = row.id;
      this.element.id = `row-${row.id}`;
      this.element.dataset.id = row.id;
      this.cells[1].title = row.id;
    }
    this.element.dataset.state = row.run.state;
    if (this.#top === top) return;
    this.#top = top;
    this.element.style.transform = `translateY(${top}px)`;
    // The head of the table is its first row.
    this.element.setAttribute('aria-rowindex', String(index + 2));
  }
}
