/** Takes one sample a second of everything that the charts draw. */
import { totals } from './arrange.js';
import { Growth, NamedGrowth } from './series.js';

export class Sampler {
  #events = new Growth();
  #tokens = new Growth();
  #errors = new NamedGrowth();

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
    // What has grown is only known from the second look on, so that nothing may stand for the first one.
    const errors = isWaiting ? new Map() : this.#errors.take(sums ? Object.entries(sums.errors) : rows.failures);
    return {
      at: now,
      totals: totals(rows.byId.values()),
      eventsPerS: isLive ? this.#events.at(now, rows.events) : null,
      tokensPerS: isLive ? this.#tokens.at(now, rows.tokens) : null,
      firstToken: sums ? sums.first_token_ms : isWaiting ? null : undefined,
      errors,
      errorSums: this.#errors.largest(Infinity),
    };
  }
}
