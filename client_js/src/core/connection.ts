/** Where the connection of a client stands. The table is all there is: what is not in it changes nothing. */
export type Status = 'idle' | 'connecting' | 'open' | 'reconnecting' | 'fallback' | 'closed';

export type ConnectionSignal =
  /** Somebody needs a connection. */
  | 'wanted'
  /** The server said welcome. */
  | 'welcomed'
  /** The socket is gone, or could not be had; the way back is open. */
  | 'lost'
  /** No socket can be had, but the server answers over HTTP. */
  | 'only_http'
  /** The server will not have us. */
  | 'refused'
  /** The owner of the client is done with it. */
  | 'closed';

const NEXT: Record<Status, Partial<Record<ConnectionSignal, Status>>> = {
  idle: { wanted: 'connecting', closed: 'closed' },
  connecting: { welcomed: 'open', lost: 'reconnecting', only_http: 'fallback', refused: 'closed', closed: 'closed' },
  open: { lost: 'reconnecting', refused: 'closed', closed: 'closed' },
  reconnecting: { welcomed: 'open', only_http: 'fallback', refused: 'closed', closed: 'closed' },
  // Attempts to get a socket go on behind it; that they fail is no news.
  fallback: { welcomed: 'open', lost: 'reconnecting', refused: 'closed', closed: 'closed' },
  closed: { wanted: 'connecting' },
};

/** The status after a signal. */
export function nextStatus(status: Status, signal: ConnectionSignal): Status {
  return NEXT[status][signal] ?? status;
}

/** Close codes of a server that asks for time: it has too much to do, or this client went too fast (PROTOCOL 13). */
const LATER = new Set([1013, 4001, 4029]);

/** How many attempts a new one counts as: none before it after a good connection, some where time was asked for. */
export function attemptsAfter(attempts: number, wasGood: boolean, closeCode: number): number {
  const counted = wasGood ? 0 : attempts;
  return LATER.has(closeCode) ? Math.max(counted, 5) : counted;
}

/** Attempts without a welcome after which HTTP is asked whether the server is there at all. */
export const FALLBACK_AFTER = 2;

/**
 * Silence after which a socket is asked whether anybody is there, and the share of that which the answer may take; less
 * patience after a sleep, and for the welcome the time a handshake behind slow proxies takes.
 */
export const LIVENESS = { idleMs: 25_000, pongShare: 0.4, wakePongMs: 4_000, welcomeMs: 15_000 };

/**
 * Whether this tick of a timer came so late that the machine must have slept: a socket that says it is open then is
 * most likely dead (PROTOCOL 7.1; browsers also slow the timers of hidden tabs to one a minute).
 */
export function hasSlept(expectedMs: number, passedMs: number): boolean {
  return passedMs > expectedMs + 5_000;
}
