/**
 * What this browser keeps: the list of conversations with their titles, and creates that the server has not
 * confirmed yet. What was said is the server's to keep.
 *
 * @typedef {import('./types.js').Head} Head
 * @typedef {import('./types.js').Unsent} Unsent
 */

const PREFIX = 'antiphon.2.';
const HEAD = `${PREFIX}head.`;
const UNSENT = `${PREFIX}unsent.`;
const SETTING = `${PREFIX}setting.`;
/** Older ones make room; the server still has them, and a link brings them back. */
const KEPT = 100;

export class Shelf {
  /** @param {globalThis.Storage} area */
  constructor(area) {
    this.area = area;
  }

  /** Newest first. @returns {Head[]} */
  heads() {
    return this.#all(HEAD)
      .filter((head) => typeof head?.id === 'string' && typeof head.title === 'string')
      .sort((a, b) => b.updatedAt - a.updatedAt);
  }

  /** @param {string} id @returns {Head | null} */
  head(id) {
    return parsed(this.area.getItem(HEAD + id));
  }

  /** Also by the name it had before the server gave it one. @param {string} id @returns {Head | null} */
  find(id) {
    return this.head(id) ?? this.heads().find(({ was }) => was === id) ?? null;
  }

  /** @param {Head} head */
  save(head) {
    this.#write(HEAD + head.id, head);
    for (const old of this.heads().slice(KEPT)) this.remove(old.id);
  }

  /** The server has named a conversation. @param {Head} head as it was @param {string} id @returns {Head} */
  rename(head, id) {
    const named = { ...head, id, was: head.id };
    this.save(named);
    for (const unsent of this.unsent(head.id)) this.keep({ ...unsent, conversation: id });
    this.area.removeItem(HEAD + head.id);
    return named;
  }

  /** @param {string} id */
  remove(id) {
    for (const { key } of this.unsent(id)) this.drop(key);
    this.area.removeItem(HEAD + id);
  }

  /** Of one conversation, oldest first. @param {string} conversation @returns {Unsent[]} */
  unsent(conversation) {
    return this.#all(UNSENT)
      .filter((unsent) => unsent?.conversation === conversation && typeof unsent.key === 'string')
      .sort((a, b) => a.createdAt - b.createdAt);
  }

  /** @param {Unsent} unsent */
  keep(unsent) {
    this.#write(UNSENT + unsent.key, unsent);
  }

  /** @param {string} key */
  drop(key) {
    this.area.removeItem(UNSENT + key);
  }

  /** The conversation that another tab changed, null if it was nothing of ours. @param {{key: string | null}} event */
  changed({ key }) {
    return key?.startsWith(HEAD) ? key.slice(HEAD.length) : null;
  }

  /** @param {string} name @returns {any} */
  setting(name) {
    return parsed(this.area.getItem(SETTING + name));
  }

  /** @param {string} name @param {unknown} value */
  saveSetting(name, value) {
    this.#write(SETTING + name, value);
  }

  /** @param {string} prefix @returns {any[]} */
  #all(prefix) {
    const keys = Array.from({ length: this.area.length }, (_, index) => this.area.key(index) ?? '');
    return keys.filter((key) => key.startsWith(prefix)).map((key) => parsed(this.area.getItem(key)));
  }

  /** @param {string} key @param {unknown} value */
  #write(key, value) {
    const text = JSON.stringify(value);
    for (;;) {
      try {
        this.area.setItem(key, text);
        return;
      } catch {
        // Full, or forbidden: the oldest conversation makes room; with none left the page works on, unkept.
        const oldest = this.heads().at(-1);
        if (!oldest || key.includes(oldest.id)) return;
        this.remove(oldest.id);
      }
    }
  }
}

/** @param {string | null} text @returns {any} */
function parsed(text) {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
