/** Tells the others that the person here is writing, and that they have stopped. */

/** Said again after so long, for those who came meanwhile. */
const AGAIN_MS = 3_000;
/** Who writes nothing for so long is not writing. */
const IDLE_MS = 5_000;

export class Typing {
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #idle;
  #saidAt = 0;
  #label = '';

  /** @param {(state: 'typing' | 'watching', label?: string) => void} tell @param {() => number} now */
  constructor(tell, now) {
    this.tell = tell;
    this.now = now;
  }

  /** A key was pressed. @param {string} [label] the call that is answered, empty for a message */
  on(label = '') {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.off(), IDLE_MS);
    if (label === this.#label && this.now() - this.#saidAt < AGAIN_MS) return;
    this.#saidAt = this.now();
    this.#label = label;
    this.tell('typing', label || undefined);
  }

  /** It was sent, or thrown away. */
  off() {
    clearTimeout(this.#idle);
    if (!this.#saidAt) return;
    this.#saidAt = 0;
    this.tell('watching');
  }
}
