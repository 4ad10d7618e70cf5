/** What narrows the table down: states to press, names to choose, a text to search. */
import { byId, el, setText } from '../shared/dom.js';
import { StateMark } from './state_mark.js';
import { STATES, count, stateWord } from './words.js';

/**
 * @typedef {import('./address.js').View} View
 * @typedef {ReturnType<typeof import('./arrange.js').choices>} Choices
 */

const NAMED = /** @type {const} */ (['agent', 'model', 'principal']);
const ANY = ['Any agent', 'Any model', 'Anybody'];
/** Typing is over when nothing came for so long. */
const TYPED_MS = 200;

export class FiltersView {
  /** @type {Map<string, {button: HTMLButtonElement, count: HTMLElement}>} */
  #states = new Map();
  /** @type {string[]} */
  #chosen = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;

  /** @param {(changed: Partial<View>) => void} onChange @param {() => void} onClear */
  constructor(onChange, onClear) {
    this.onChange = onChange;
    this.text = byId('text', HTMLInputElement);
    this.selects = NAMED.map((name) => byId(name, HTMLSelectElement));
    this.clear = byId('clear', HTMLButtonElement);
    this.shown = byId('shown', HTMLElement);
    byId('states', HTMLElement).append(...Object.keys(STATES).map((state) => this.#stateButton(state)));
    byId('filters', HTMLFormElement).addEventListener('submit', (event) => event.preventDefault());
    this.clear.addEventListener('click', onClear);
    this.text.addEventListener('input', () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => onChange({ text: this.text.value }), TYPED_MS);
    });
    for (const [index, select] of this.selects.entries()) {
      select.addEventListener('change', () => onChange({ [NAMED[index]]: select.value }));
    }
  }

  /**
   * @param {View} view @param {Choices} choices @param {{shown: number, all: number}} counts
   * @param {boolean} isFiltered
   */
  update(view, choices, { shown, all }, isFiltered) {
    for (const [state, { button, count: counted }] of this.#states) {
      button.setAttribute('aria-pressed', String(view.state.includes(state)));
      setText(counted, count(choices.state.get(state) ?? 0));
    }
    this.#chosen = view.state;
    if (document.activeElement !== this.text && this.text.value !== view.text) this.text.value = view.text;
    for (const [index, select] of this.selects.entries())
      offer(select, ANY[index], choices[NAMED[index]], view[NAMED[index]]);
    this.clear.hidden = !isFiltered;
    const runs = `${count(all)} ${all === 1 ? 'run' : 'runs'}`;
    setText(this.shown, isFiltered ? `${count(shown)} of ${runs}` : runs);
  }

  /** @param {string} state */
  #stateButton(state) {
    const mark = new StateMark();
    mark.update(state);
    const counted = el('span', { class: 'chip-count' }, '0');
    const button = el('button', { class: 'chip', type: 'button', 'aria-pressed': 'false' }, mark.element, counted);
    button.title = `Only runs that are ${stateWord(state).toLowerCase()}`;
    button.addEventListener('click', () => {
      const chosen = this.#chosen;
      this.onChange({ state: chosen.includes(state) ? chosen.filter((one) => one !== state) : [...chosen, state] });
    });
    this.#states.set(state, { button, count: counted });
    return button;
  }
}

/**
 * Names that come and go, without closing a list that somebody has open.
 * @param {HTMLSelectElement} select @param {string} any @param {Map<string, number>} counts @param {string} chosen
 */
function offer(select, any, counts, chosen) {
  const names = [...new Set([...counts.keys(), ...(chosen ? [chosen] : [])])].sort();
  const said = JSON.stringify([names, chosen]);
  if (select.dataset.said === said || document.activeElement === select) return;
  select.dataset.said = said;
  const options = names.map((name) => el('option', { value: name }, name));
  select.replaceChildren(el('option', { value: '' }, any), ...options);
  select.value = chosen;
}
