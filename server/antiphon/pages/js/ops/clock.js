/** What time it is at the server. A browser's own clock may be minutes off, and ages and deadlines would be too. */

export class Clock {
  /** Seconds that the browser is ahead, network included: what was heard quickest is nearest to the truth. */
  #ahead = Infinity;

  /** @param {() => number} local milliseconds since 1970 */
  constructor(local) {
    this.local = local;
  }

  /** @param {number} at Unix seconds of the server, at the latest when it sent this */
  heard(at) {
    this.#ahead = Math.min(this.#ahead, this.local() / 1_000 - at);
  }

  /** Unix seconds. */
  now() {
    const local = this.local() / 1_000;
    return Number.isFinite(this.#ahead) ? local - this.#ahead : local;
  }
}
