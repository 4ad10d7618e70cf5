/**
 * Which turn the events of a `stream_id` belong to, on one connection. Names for creates are used
 * again, because a connection may name at most 32; those of attachments come from the server.
 */

/** As many as a connection may have running at once. */
const OWN_LANES = 16;

export class Lanes {
  /** @type {Map<string, string>} */ #turns = new Map();

  /** A free lane for a create, or null if all are taken. @param {string} key @returns {string | null} */
  take(key) {
    for (let number = 1; number <= OWN_LANES; number += 1) {
      const lane = `page.${number}`;
      if (!this.#turns.has(lane)) {
        this.#turns.set(lane, key);
        return lane;
      }
    }
    return null;
  }

  /** @param {string} lane @param {string} key */
  bind(lane, key) {
    this.#turns.set(lane, key);
  }

  /** @param {string | undefined} lane @returns {string | undefined} */
  turnOf(lane) {
    return lane === undefined ? undefined : this.#turns.get(lane);
  }

  /** @param {string | undefined} lane */
  free(lane) {
    if (lane !== undefined) this.#turns.delete(lane);
  }

  /** A new connection knows none of the old lanes. */
  clear() {
    this.#turns.clear();
  }
}
