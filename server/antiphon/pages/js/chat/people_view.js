/** Who else is in the conversation, as a row of names. */
import { el } from '../shared/dom.js';

/** @typedef {import('./people.js').Person} Person */

const DOES = new Map([
  ['typing', 'typing'],
  ['executing', 'at work'],
]);
/** More are counted. */
const MOST_NAMES = 6;

export class PeopleView {
  #shown = '';

  /** @param {HTMLElement} list */
  constructor(list) {
    this.list = list;
  }

  /** Alone, nobody is shown. @param {Person[]} people */
  update(people) {
    const isCompany = people.length > 1 || people.some(({ name, count }) => count > 1 || name !== 'You');
    const shown = isCompany ? JSON.stringify(people) : '';
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.list.hidden = !isCompany;
    if (!isCompany) return;
    const entries = people.slice(0, MOST_NAMES).map(entry);
    if (people.length > MOST_NAMES) entries.push(el('li', {}, `+${people.length - MOST_NAMES}`));
    this.list.replaceChildren(...entries);
  }
}

/** @param {Person} person */
function entry({ name, principal, state, count }) {
  const does = DOES.get(state);
  return el(
    'li',
    { class: 'person', title: principal, 'data-state': state },
    el('span', { class: 'face', 'aria-hidden': 'true' }, [...name][0]?.toUpperCase()),
    el('span', { class: 'person-name' }, name),
    count > 1 && el('span', { class: 'person-count' }, `×${count}`),
    does && el('span', { class: 'person-does' }, does),
  );
}
