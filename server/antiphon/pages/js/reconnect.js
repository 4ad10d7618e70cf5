/** When to come back after a connection ended, as arithmetic without a clock. */

const BASE_MS = 500;
const CAP_MS = 30_000;

/**
 * Full jitter: anywhere between now and the exponential limit, so that the clients of a restarted
 * server do not return as one crowd.
 * @param {number} attempt failed attempts in a row, from 0
 * @param {() => number} random
 */
export function delayMs(attempt, random) {
  return Math.round(random() * Math.min(CAP_MS, BASE_MS * 2 ** Math.min(attempt, 16)));
}

const REASONS = new Map([
  [1008, 'The server closed the connection because of a policy.'],
  [1009, 'A message was too large for the server.'],
  [4501, 'The server found a protocol error in what this page sent.'],
  [4502, 'The server does not allow this connection.'],
  [4503, 'There are too many connections open to this server.'],
  [4504, 'The server does not accept connections from this address.'],
  [4505, 'This page is of another version than the server. Reload it.'],
]);

/**
 * Why the connection stays closed, or null if coming back is right (PROTOCOL, close codes).
 * @param {number} code
 * @returns {string | null}
 */
export function finalReason(code) {
  const staysAway = code === 1008 || code === 1009 || (code >= 4500 && code <= 4999);
  return staysAway ? (REASONS.get(code) ?? `The server closed the connection for good (${code}).`) : null;
}
