/** Times to wait before the next attempt. */
export interface Backoff {
  /** The most the first wait can be. */
  readonly baseMs: number;
  /** The most any wait can be. */
  readonly capMs: number;
}

export const DEFAULT_BACKOFF: Backoff = { baseMs: 250, capMs: 20_000 };

/**
 * Full jitter: anything from nothing up to a bound that doubles with each attempt, so that thousands of clients of one
 * server that restarts do not come back together. `attempt` counts from 0, `random` is in [0, 1).
 */
export function delayMs(attempt: number, random: number, { baseMs, capMs }: Backoff = DEFAULT_BACKOFF): number {
  return random * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30));
}
