/** The conversations that this browser keeps, in a column or (on a phone) a drawer. */
import { el, icon } from '../shared/dom.js';

/**
 * @typedef {{
 *   open: (id: string) => void, remove: (id: string) => void,
 *   isRunning: (id: string) => boolean,
 * }} Actions
 */

export class ListView {
  /**
   * @param {{list: HTMLElement, sidebar: HTMLElement, opener: HTMLElement, shade: HTMLElement}} parts
   * @param {Actions} actions
   */
  constructor(parts, actions) {
    this.parts = parts;
    this.actions = actions;
    parts.opener.addEventListener('click', () => this.#show(!this.isOpen));
    parts.shade.addEventListener('click', () => this.close());
  }

  get isOpen() {
    return this.parts.sidebar.classList.contains('is-open');
  }

  close() {
    if (!this.isOpen) return;
    this.#show(false);
    this.parts.opener.focus();
  }

  /** @param {{id: string, title: string}[]} heads @param {string} currentId */
  update(heads, currentId) {
    this.parts.list.replaceChildren(...heads.map((head) => this.#entry(head, head.id === currentId)));
  }

  /** @param {{id: string, title: string}} head @param {boolean} isCurrent */
  #entry({ id, title }, isCurrent) {
    const name = title || 'Untitled';
    const open = el('button', { class: 'entry', type: 'button', title: name }, name);
    if (isCurrent) open.setAttribute('aria-current', 'true');
    if (this.actions.isRunning(id)) open.append(el('span', { class: 'dot', role: 'img', 'aria-label': 'in progress' }));
    open.addEventListener('click', () => {
      this.close();
      this.actions.open(id);
    });
    const remove = el(
      'button',
      {
        class: 'square',
        type: 'button',
        title: 'Remove from this browser',
        'aria-label': `Remove “${name}” from this browser`,
      },
      icon('trash'),
    );
    remove.addEventListener('click', () => this.actions.remove(id));
    return el('li', {}, open, remove);
  }

  /** @param {boolean} isOpen */
  #show(isOpen) {
    const { sidebar, opener, shade } = this.parts;
    sidebar.classList.toggle('is-open', isOpen);
    shade.hidden = !isOpen;
    opener.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) sidebar.querySelector('button')?.focus();
  }
}
