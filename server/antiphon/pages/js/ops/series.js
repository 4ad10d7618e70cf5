/** What the charts draw: the last minutes, one sample a second. */

/** Three minutes. */
export const SAMPLES = 180;

export class Series {
  /** Unix seconds. @type {number[]} */
  times = [];
  /** @type {(number | null)[][]} */
  values;

  /** @param {number} width how many values a sample has */
  constructor(width) {
    this.values = Array.from({ length: width }, () => []);
  }

  /** @param {number} at Unix seconds @param {readonly (number | null)[]} sample */
  push(at, sample) {
    this.times.push(at);
    for (const [index, list] of this.values.entries()) list.push(sample[index] ?? null);
    if (this.times.length > SAMPLES) for (const list of [this.times, ...this.values]) list.shift();
  }

  /** @param {number} index @returns {number | null} the newest value there is */
  last(index) {
    return this.values[index].findLast((value) => value !== null) ?? null;
  }
}

/** Told once a second and read once a second, a counter would seem to stand still in one second and leap in the next. */
const WINDOW = 4;
const SHORTEST_S = 0.5;

/** The growth of a counter, a second, over the last few readings. A counter that fell has begun anew. */
export class Growth {
  /** @type {{at: number, value: number}[]} */
  #read = [];

  /** @param {number} at Unix seconds @param {number} value @returns {number | null} null at the first one */
  at(at, value) {
    const last = this.#read.at(-1);
    if (last && value < last.value) this.#read = [];
    this.#read.push({ at, value });
    if (this.#read.length > WINDOW) this.#read.shift();
    const first = this.#read[0];
    // What was read twice in one moment, because it came late, says nothing about a second.
    return at - first.at >= SHORTEST_S ? (value - first.value) / (at - first.at) : null;
  }

  /** What was not watched is not known. */
  forget() {
    this.#read = [];
  }
}

/** Counters with names that come up as they come: the ones with the largest sums get a line of their own. */
export class NamedGrowth {
  /** @type {Map<string, number>} */
  #before = new Map();
  /** Growth since they were first taken. @type {Map<string, number>} */
  sums = new Map();
  #isFirst = true;

  /** @param {boolean} [beganWithUs] what they say at the first look has grown since the page was opened, too */
  constructor(beganWithUs = false) {
    this.#isFirst = !beganWithUs;
  }

  /** @param {Iterable<[string, number]>} counters @returns {Map<string, number>} what is new, by name */
  take(counters) {
    const grown = new Map();
    for (const [name, value] of counters) {
      const before = this.#before.get(name) ?? 0;
      const more = value < before ? value : value - before;
      this.#before.set(name, value);
      if (this.#isFirst || more === 0) continue;
      grown.set(name, more);
      this.sums.set(name, (this.sums.get(name) ?? 0) + more);
    }
    this.#isFirst = false;
    return grown;
  }

  /** @param {number} most @returns {[string, number][]} the largest first */
  largest(most) {
    return [...this.sums].sort((a, b) => b[1] - a[1]).slice(0, most);
  }
}
