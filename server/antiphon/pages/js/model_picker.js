/** The choice of a model. A model that the server does not offer can stay chosen: it says so itself. */
import { el } from './dom.js';

export const DEFAULT_MODEL = 'antiphon/demo';
const SCENARIO = 'antiphon/script:';

export class ModelPicker {
  /** @type {string[]} */ #offered = [];

  /** @param {HTMLSelectElement} select @param {(model: string) => void} onPick */
  constructor(select, onPick) {
    this.select = select;
    this.onPick = onPick;
    select.addEventListener('change', () => onPick(select.value));
  }

  get isFilled() {
    return this.#offered.length > 0;
  }

  /** @param {string[]} models */
  offer(models) {
    this.#offered = models;
    this.show(this.select.value || DEFAULT_MODEL);
  }

  /** @param {string} model */
  show(model) {
    const isKnown = !this.isFilled || this.#offered.includes(model);
    const names = this.#offered.includes(model) ? this.#offered : [model, ...this.#offered];
    const options = (/** @type {string[]} */ some) =>
      some.map((name) => el('option', { value: name }, name === model && !isKnown ? `${name} (not offered)` : name));
    const scenarios = names.filter((name) => name.startsWith(SCENARIO));
    this.select.replaceChildren(...options(names.filter((name) => !name.startsWith(SCENARIO))));
    if (scenarios.length) this.select.append(el('optgroup', { label: 'Test scenarios' }, ...options(scenarios)));
    this.select.value = model;
  }

  /** What to begin with: the one that was used last, unless this server has only others. @param {string | null} last */
  first(last) {
    const wanted = [last, DEFAULT_MODEL].filter((model) => model && this.#offered.includes(model));
    return wanted[0] ?? this.#offered[0] ?? last ?? DEFAULT_MODEL;
  }
}
