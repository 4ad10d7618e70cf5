/**
 * Conversations in localStorage, one entry for the head and one for each turn, so that a streaming
 * answer rewrites only itself and two tabs never overwrite each other's turns.
 *
 * @typedef {import('./types.js').Conversation} Conversation
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {Omit<Conversation, 'turns'>} Head
 * @typedef {{kind: 'head', id: string, head: Head | null}
 *   | {kind: 'turn', id: string, turn: Turn | null}} Change
 */

const PREFIX = 'antiphon.1.';
const HEAD = `${PREFIX}head.`;
const TURN = `${PREFIX}turn.`;
/** What a browser keeps is a few megabytes; older conversations make room for newer ones. */
const KEPT = 50;

export class Storage {
  /** @param {globalThis.Storage} area */
  constructor(area) {
    this.area = area;
  }

  /** Newest first. @returns {Head[]} */
  heads() {
    return this.#keys(HEAD)
      .map((key) => this.#read(key))
      .filter((head) => typeof head?.id === 'string')
      .sort((a, b) => b.updatedAt - a.updatedAt);
  }

  /** @param {string} id @returns {Conversation | null} */
  load(id) {
    const head = this.#read(HEAD + id);
    if (!head) return null;
    const turns = this.#keys(`${TURN}${id}.`)
      .map((key) => this.#read(key))
      .filter((turn) => typeof turn?.key === 'string' && Array.isArray(turn.pending))
      .sort((a, b) => a.createdAt - b.createdAt);
    return { ...head, turns };
  }

  /** @param {Conversation} conversation */
  saveHead({ turns: _, ...head }) {
    this.#write(HEAD + head.id, head);
    for (const old of this.heads().slice(KEPT)) this.remove(old.id);
  }

  /** @param {string} id @param {Turn} turn */
  saveTurn(id, turn) {
    this.#write(`${TURN}${id}.${turn.key}`, turn);
  }

  /** @param {string} id */
  remove(id) {
    for (const key of [HEAD + id, ...this.#keys(`${TURN}${id}.`)]) this.area.removeItem(key);
  }

  /** What another tab wrote. @param {StorageEvent} event @returns {Change | null} */
  read({ key, newValue }) {
    const value = parsed(newValue);
    if (key?.startsWith(HEAD)) return { kind: 'head', id: key.slice(HEAD.length), head: value };
    if (!key?.startsWith(TURN)) return null;
    return { kind: 'turn', id: key.slice(TURN.length).split('.')[0], turn: value };
  }

  /** @param {string} name @returns {any} */
  setting(name) {
    return this.#read(PREFIX + name);
  }

  /** @param {string} name @param {unknown} value */
  saveSetting(name, value) {
    this.#write(PREFIX + name, value);
  }

  /** @param {string} prefix */
  #keys(prefix) {
    const keys = [];
    for (let index = 0; index < this.area.length; index += 1) {
      const key = this.area.key(index);
      if (key?.startsWith(prefix)) keys.push(key);
    }
    return keys;
  }

  /** @param {string} key */
  #read(key) {
    return parsed(this.area.getItem(key));
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

/**
 * A storage area of the browser, or one in memory where the browser allows none.
 * @param {() => globalThis.Storage} area
 * @returns {globalThis.Storage}
 */
export function areaOr(area) {
  try {
    return area();
  } catch {
    return memoryArea();
  }
}

/** @returns {globalThis.Storage} */
export function memoryArea() {
  /** @type {Map<string, string>} */
  const kept = new Map();
  return {
    get length() {
      return kept.size;
    },
    key: (index) => [...kept.keys()][index] ?? null,
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, String(value)),
    removeItem: (key) => void kept.delete(key),
    clear: () => kept.clear(),
  };
}
