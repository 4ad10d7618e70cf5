/** Takes one sample a second of everything that the charts draw. */
import { totals } from './arrange.js';
import { Growth, NamedGrowth } from './series.js';

export class Sampler {
  #events = new Growth();
  #tokens = new Growth();
  /** @type {NamedGrowth | null} */
  #errors = null;
  /** @type {number | null} */
  #errorsSince = null;

  /**
   * @param {import('./rows.js').Rows} rows
   * @param {import('./types.js').ServerStatus | null} status
   * @param {{now: number, isLive: boolean, mayAsk: boolean}} how `now` in Unix seconds
   * @returns {Parameters<import('./figures_view.js').FiguresView['take']>[0]}
   */
  sample(rows, status, { now, isLive, mayAsk }) {
    if (!isLive) {
      this.#events.forget();
      this.#tokens.forget();
    }
    const sums = status?.totals;
    const isWaiting = mayAsk && !status;
    const errors = isWaiting ? new Map() : this.#takeErrors(rows, sums ?? null, now);
    return {
      at: now,
      totals: totals(rows.byId.values()),
      eventsPerS: isLive ? this.#events.at(now, rows.events) : null,
      tokensPerS: isLive ? this.#tokens.at(now, rows.tokens) : null,
      firstToken: sums ? sums.first_token_ms : isWaiting ? null : undefined,
      errors,
      errorSums: this.#errors?.largest(Infinity) ?? [],
      errorsSince: this.#errorsSince,
    };
  }

  /**
   * The server's sums began long before the page did, those of the rows with it.
   * @param {import('./rows.js').Rows} rows @param {import('./types.js').Totals | null} sums @param {number} now
   */
  #takeErrors(rows, sums, now) {
    this.#errors ??= new NamedGrowth(sums === null);
    this.#errorsSince ??= now;
    return this.#errors.take(sums ? Object.entries(sums.errors) : rows.failures);
  }
}
