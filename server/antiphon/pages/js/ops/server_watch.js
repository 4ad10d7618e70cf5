/** Asks how the server is, every two seconds while somebody looks. */

/**
 * @typedef {import('./types.js').ServerStatus} ServerStatus
 * @typedef {{id: string, paused: boolean, live_runs: number}} Tenant
 */

const EVERY_MS = 2_000;
/** Tenants come and go less often. */
const TENANTS_EVERY_MS = 10_000;

export class ServerWatch {
  /** @type {ServerStatus | null} */
  status = null;
  /** @type {Tenant[]} */
  tenants = [];
  #answeredAt = 0;
  #askedTenantsAt = -Infinity;
  #isAsking = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;

  /** @param {import('./api.js').Api} api @param {() => void} onChange @param {import('./clock.js').Clock} clock */
  constructor(api, onChange, clock) {
    this.api = api;
    this.onChange = onChange;
    this.clock = clock;
    this.now = clock.local;
  }

  start() {
    this.#answeredAt = this.now();
    this.#timer = setInterval(() => void this.#ask(), EVERY_MS);
    void this.#ask();
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Seconds since the server last said how it is. */
  get silent() {
    return (this.now() - this.#answeredAt) / 1_000;
  }

  /** @param {string} id @returns {boolean | null} null: not known */
  isPaused(id) {
    return this.tenants.find((tenant) => tenant.id === id)?.paused ?? null;
  }

  async askTenants() {
    this.#askedTenantsAt = this.now();
    this.tenants = await this.api.tenants();
    this.onChange();
  }

  async #ask() {
    if (this.#isAsking || document.hidden) return;
    this.#isAsking = true;
    try {
      if (this.now() - this.#askedTenantsAt > TENANTS_EVERY_MS) await this.askTenants();
    } catch {
      // They are asked for again in a while; what is known of them stays.
    }
    try {
      this.status = await this.api.status();
      this.clock.heard(this.status.at);
      this.#answeredAt = this.now();
    } catch {
      // How long nothing was heard is shown; the next round asks again.
    } finally {
      this.#isAsking = false;
      this.onChange();
    }
  }
}
