/** One feed for each tenant that is watched, their rows in one table. */
import { Rows } from './rows.js';

/**
 * @typedef {import('../../vendor/antiphon.js').Antiphon} Antiphon
 * @typedef {import('../../vendor/antiphon.js').AntiphonError} AntiphonError
 * @typedef {ReturnType<Antiphon['feed']>} Feed
 * @typedef {'connecting' | 'live' | 'stale' | 'reset'} Standing
 */

/** What the server lets one connection subscribe to. */
export const MOST_FEEDS = 16;
/** How long a table that began anew says so. */
const ANEW_MS = 10_000;

export class Feeds {
  rows = new Rows();
  /** @type {Map<string, Feed>} by tenant; empty: the caller's own */
  #feeds = new Map();
  /** @type {Map<Feed, {status: string, since: number}>} */
  #standing = new Map();

  /**
   * @param {Antiphon} client
   * @param {{changed: () => void, failed: (error: AntiphonError) => void}} does
   * @param {import('./clock.js').Clock} clock
   */
  constructor(client, does, clock) {
    this.client = client;
    this.does = does;
    this.clock = clock;
    this.now = clock.local;
  }

  /** Whose runs are watched. */
  get tenants() {
    return [...this.#feeds.keys()];
  }

  /** @param {readonly string[]} tenants whose runs are to be watched from now on; empty name: the caller's own */
  watch(tenants) {
    for (const [tenant, feed] of this.#feeds) if (!tenants.includes(tenant)) this.#close(tenant, feed);
    for (const tenant of tenants) if (!this.#feeds.has(tenant)) this.#open(tenant);
    this.does.changed();
  }

  /** The worst of all, and since when (milliseconds). @returns {{status: Standing, since: number}} */
  standing() {
    /** @type {{status: Standing, since: number}} */
    let worst = { status: 'live', since: this.now() };
    if (!this.#feeds.size) return { status: 'connecting', since: this.now() };
    for (const feed of this.#feeds.values()) {
      const one = this.#standingOf(feed);
      const weight = WEIGHTS[one.status] - WEIGHTS[worst.status];
      if (weight > 0 || (weight === 0 && one.since < worst.since)) worst = one;
    }
    return worst;
  }

  /** @param {string} tenant */
  #open(tenant) {
    const feed = this.client.feed({ mode: 'latest', ...(tenant && { tenant }) });
    this.#feeds.set(tenant, feed);
    this.#standing.set(feed, { status: 'connecting', since: this.now() });
    feed.on('change', ({ upserted, removed }) => {
      for (const run of upserted) this.rows.upsert(run, this.clock.now());
      for (const id of removed) this.rows.remove(id);
      this.does.changed();
    });
    feed.on('event', ({ at }) => this.clock.heard(at));
    feed.on('progress', (moved) => {
      this.rows.progress(moved, this.clock.now());
      this.does.changed();
    });
    feed.on('status', (status) => {
      // What it begins with was there before; a change may tell of that together with what came since.
      if (status === 'live') for (const run of feed.rows.values()) this.rows.upsert(run, this.clock.now(), true);
      const before = this.#standing.get(feed);
      // Live again after it began anew: that is worth knowing for a while.
      if (!before || (status === 'live' && before.status === 'reset')) return;
      this.#standing.set(feed, { status, since: status === 'stale' ? feed.updatedAt : this.now() });
      this.does.changed();
    });
    feed.on('error', (error) => this.does.failed(error));
  }

  /** @param {Feed} feed @returns {{status: Standing, since: number}} */
  #standingOf(feed) {
    const { status, since } = this.#standing.get(feed) ?? { status: 'connecting', since: this.now() };
    if (status === 'reset' && feed.status === 'live' && this.now() - since > ANEW_MS) {
      this.#standing.set(feed, { status: 'live', since: this.now() });
      return { status: 'live', since: this.now() };
    }
    return { status: /** @type {Standing} */ (status === 'closed' ? 'stale' : status), since };
  }

  /** @param {string} tenant @param {Feed} feed */
  #close(tenant, feed) {
    this.#feeds.delete(tenant);
    this.#standing.delete(feed);
    for (const id of feed.rows.keys()) this.rows.remove(id);
    feed.close();
  }
}

const WEIGHTS = { live: 0, reset: 1, connecting: 2, stale: 3 };

/**
 * The tenants that are watched where all are wanted: as many as one connection may, the busiest first, but none is left
 * for another that is only a little busier.
 * @param {readonly {id: string, live_runs: number}[]} tenants @param {readonly string[]} watched @param {number} [most]
 */
export function busiest(tenants, watched, most = MOST_FEEDS) {
  const weight = (/** @type {{id: string, live_runs: number}} */ { id, live_runs: live }) =>
    live + (watched.includes(id) ? 5 : 0);
  const sorted = [...tenants].sort((a, b) => weight(b) - weight(a) || (a.id < b.id ? -1 : 1));
  return sorted.slice(0, most).map(({ id }) => id);
}
