/** The choice of a model or an agent. One that the server does not offer can stay chosen: it says so itself. */
import { el } from '../shared/dom.js';

export const DEFAULT_MODEL = 'antiphon/demo';
const SCENARIO = 'antiphon/script:';
const AGENT = 'agent:';

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

  /** @param {string[]} models @param {string[]} agents names */
  offer(models, agents) {
    this.#offered = [...models, ...agents.map((name) => AGENT + name)];
    this.show(this.select.value || DEFAULT_MODEL);
  }

  /** @param {string} model */
  show(model) {
    const isKnown = !this.isFilled || this.#offered.includes(model);
    const names = this.#offered.includes(model) ? this.#offered : [model, ...this.#offered];
    const label = (/** @type {string} */ name) => {
      const words = name.startsWith(AGENT) ? name.slice(AGENT.length) : name;
      return name === model && !isKnown ? `${words} (not offered)` : words;
    };
    const options = (/** @type {(name: string) => boolean} */ chosen) =>
      names.filter(chosen).map((name) => el('option', { value: name }, label(name)));
    const groups = [
      { title: 'Agents', options: options((name) => name.startsWith(AGENT)) },
      { title: 'Test scenarios', options: options((name) => name.startsWith(SCENARIO)) },
    ];
    this.select.replaceChildren(...options((name) => !name.startsWith(AGENT) && !name.startsWith(SCENARIO)));
    for (const { title, options: some } of groups)
      if (some.length) this.select.append(el('optgroup', { label: title }, ...some));
    this.select.value = model;
  }

  /** What to begin with: the one that was used last, unless this server has only others. @param {string | null} last */
  first(last) {
    const wanted = [last, DEFAULT_MODEL].filter((model) => model && this.#offered.includes(model));
    return wanted[0] ?? this.#offered[0] ?? last ?? DEFAULT_MODEL;
  }
}
