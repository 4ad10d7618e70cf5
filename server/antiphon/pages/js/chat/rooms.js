/** The conversations that this tab follows: the one on the page, and those in which something still goes on. */
import { isNamed, newHead } from './heads.js';
import { Thread } from './thread.js';

/**
 * @typedef {import('./types.js').Head} Head
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {{
 *   now: () => number, newId: () => string, onNotice: (message: string) => void, onList: () => void,
 *   onChange: (thread: Thread, turn: Turn | null) => void, places: import('./surroundings.js').Places,
 * }} Owner
 */

export class Rooms {
  /** @type {Set<Thread>} */ #threads = new Set();
  /** @type {Thread} */ current;

  /**
   * @param {import('../../vendor/antiphon.js').Antiphon} client
   * @param {import('./shelf.js').Shelf} shelf
   * @param {Owner} owner
   */
  constructor(client, shelf, owner) {
    this.client = client;
    this.shelf = shelf;
    this.owner = owner;
    this.current = this.#enter(newHead(owner.newId(), '', owner.now()));
  }

  /** @param {string} id of the list, or of the server where somebody followed a link */
  open(id) {
    const now = this.owner.now();
    const fresh = { id, title: '', model: this.current.head.model, createdAt: now, updatedAt: now };
    const head = this.shelf.find(id) ?? fresh;
    this.#show(this.#find(head.id) ?? this.#enter(head));
  }

  /** @param {string} model */
  startNew(model) {
    this.#show(this.#enter(newHead(this.owner.newId(), model, this.owner.now())));
  }

  /** @param {string} id */
  remove(id) {
    this.shelf.remove(id);
    const thread = this.#find(id);
    if (thread === this.current) this.startNew(thread.head.model);
    if (thread) this.#leave(thread);
    this.owner.onList();
  }

  /** @param {string} id @param {string} title */
  retitle(id, title) {
    const thread = this.#find(id);
    const head = thread?.head ?? this.shelf.head(id);
    if (!head || !title.trim()) return;
    const named = { ...head, title: title.trim() };
    if (thread) thread.head = named;
    this.shelf.save(named);
    this.owner.onList();
  }

  /** @param {string} id */
  isRunning(id) {
    return this.#find(id)?.isRunning ?? false;
  }

  /** Another tab changed its list. @param {StorageEvent} event */
  onStored(event) {
    const id = this.shelf.changed(event);
    if (!id) return;
    const head = this.shelf.head(id);
    const thread = this.#find(id);
    if (head && thread) thread.head = { ...thread.head, title: head.title };
    if (head?.was && !thread) this.#find(head.was)?.named(id, head);
    // It may have been given its name there, which is told next.
    if (!head && thread && isNamed(id)) this.remove(id);
    this.owner.onList();
  }

  /** Nobody is signed in any more: nothing of what was read stays. */
  forget() {
    const old = [...this.#threads];
    this.startNew(this.current.head.model);
    for (const thread of old) this.#leave(thread);
  }

  /** @param {string} id */
  #find(id) {
    return [...this.#threads].find(({ head }) => head.id === id);
  }

  /** @param {Head} head */
  #enter(head) {
    const thread = new Thread(this.client, head, this.shelf, {
      now: this.owner.now,
      newId: this.owner.newId,
      onChange: this.owner.onChange,
      onHead: () => this.owner.onList(),
      onNotice: this.owner.onNotice,
      places: this.owner.places,
    });
    this.#threads.add(thread);
    return thread;
  }

  /** @param {Thread} thread */
  #show(thread) {
    const before = this.current;
    this.current = thread;
    if (before !== thread && !before.isRunning) this.#leave(before);
    this.owner.onList();
    this.owner.onChange(thread, null);
  }

  /** @param {Thread} thread */
  #leave(thread) {
    thread.close();
    this.#threads.delete(thread);
  }
}
