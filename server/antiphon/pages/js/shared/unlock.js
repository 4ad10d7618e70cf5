/**
 * The API key of this tab: kept until the tab is closed, never in a URL. Sockets get a ticket for it.
 */

const NAME = 'antiphon.key';
/** What can stand in a header; nothing else is a key. */
const KEY = /^[\x21-\x7e]{1,16384}$/;
const ASKING = 'It stays in this tab, and is forgotten when you close it.';
const WRONG = 'The server does not accept this key.';

export class Unlock {
  #hint = ASKING;

  /**
   * @param {{form: HTMLFormElement, field: HTMLInputElement, hint: HTMLElement, forget: HTMLElement}} parts
   * @param {Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>} area
   * @param {() => void} onChange the key is another one now, or none
   */
  constructor(parts, area, onChange) {
    this.parts = parts;
    this.area = area;
    parts.form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.#take(parts.field.value.trim())) onChange();
    });
    parts.forget.addEventListener('click', () => {
      this.#forget();
      onChange();
    });
  }

  /** @returns {string} empty if there is none */
  get key() {
    return this.area.getItem(NAME) ?? '';
  }

  /** What the client takes as `auth`: asked for anew for each request and socket. */
  auth = () => this.key;

  /** The server does not let this page in: with the key it has, or because it has none. */
  refused() {
    this.#hint = this.key ? WRONG : this.#hint;
    this.#forget();
  }

  /** @param {boolean} isLocked */
  update(isLocked) {
    const { form, field, hint, forget } = this.parts;
    if (form.hidden && isLocked) {
      form.hidden = false;
      field.focus();
    }
    form.hidden = !isLocked;
    hint.textContent = this.#hint;
    forget.hidden = isLocked || !this.key;
  }

  /** @param {string} given @returns {boolean} whether it can be a key */
  #take(given) {
    this.parts.field.value = '';
    if (!KEY.test(given)) {
      this.#hint = WRONG;
      this.parts.hint.textContent = WRONG;
      return false;
    }
    this.#hint = ASKING;
    this.area.setItem(NAME, given);
    return true;
  }

  #forget() {
    this.area.removeItem(NAME);
  }
}
