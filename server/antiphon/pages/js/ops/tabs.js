/** Parts of a panel of which one is to be seen: arrow keys lead from one to the next. */
import { el, setText } from '../shared/dom.js';

export class Tabs {
  /** @type {Map<string, {tab: HTMLButtonElement, count: HTMLElement, part: HTMLElement}>} */
  #parts = new Map();
  chosen = '';

  /** @param {string} label @param {Record<string, {title: string, content: HTMLElement}>} parts @param {() => void} onChange */
  constructor(label, parts, onChange) {
    this.onChange = onChange;
    this.list = el('div', { class: 'tabs', role: 'tablist', 'aria-label': label });
    this.element = el('div', { class: 'tabbed' }, this.list);
    for (const [name, { title, content }] of Object.entries(parts)) this.#add(name, title, content);
    this.list.addEventListener('keydown', (event) => this.#key(event));
    this.choose(Object.keys(parts)[0]);
  }

  /** @param {string} name */
  choose(name) {
    this.chosen = name;
    for (const [one, { tab, part }] of this.#parts) {
      tab.setAttribute('aria-selected', String(one === name));
      tab.tabIndex = one === name ? 0 : -1;
      part.hidden = one !== name;
    }
  }

  /** @param {string} name @param {number} number shown beside its title; 0: nothing */
  count(name, number) {
    const part = this.#parts.get(name);
    if (part) setText(part.count, number ? String(number) : '');
  }

  /** @param {string} name @param {string} title @param {HTMLElement} content */
  #add(name, title, content) {
    const counted = el('span', { class: 'chip-count' });
    const tab = el(
      'button',
      { type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': `part-${name}` },
      title,
      ' ',
      counted,
    );
    tab.addEventListener('click', () => this.#take(name));
    const part = el('div', { role: 'tabpanel', id: `part-${name}`, 'aria-labelledby': tab.id, tabIndex: 0 }, content);
    this.#parts.set(name, { tab, count: counted, part });
    this.list.append(tab);
    this.element.append(part);
  }

  /** @param {string} name */
  #take(name) {
    this.choose(name);
    this.onChange();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const names = [...this.#parts.keys()];
    const next = names[(names.indexOf(this.chosen) + step + names.length) % names.length];
    this.#take(next);
    this.#parts.get(next)?.tab.focus();
  }
}
