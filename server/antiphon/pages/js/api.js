/**
 * What the page asks over HTTP, relative to where it was served from. Every function takes the API key, which is
 * empty where there is none; status 0 means that nobody answered.
 *
 * @typedef {import('./types.js').WireResponse} WireResponse
 */

const LIMIT_MS = 8_000;

/** @param {string} path @param {string} key @param {RequestInit} [more] */
const ask = (path, key, more = {}) =>
  fetch(path, {
    ...more,
    signal: AbortSignal.timeout(LIMIT_MS),
    ...(key && { headers: { Authorization: `Bearer ${key}` } }),
  });

/**
 * @param {string} key
 * @returns {Promise<{models: string[], status: number}>}
 */
export async function fetchModels(key) {
  try {
    const answer = await ask('v1/models', key);
    if (!answer.ok) return { models: [], status: answer.status };
    const { data } = await answer.json();
    return { models: data.map((/** @type {{id: string}} */ { id }) => id), status: answer.status };
  } catch {
    return { models: [], status: 0 };
  }
}

/**
 * @param {string} responseId
 * @param {string} key
 * @returns {Promise<{response: WireResponse | null, status: number}>}
 */
export async function fetchResponse(responseId, key) {
  try {
    const answer = await ask(`v1/responses/${encodeURIComponent(responseId)}`, key);
    return { response: answer.ok ? await answer.json() : null, status: answer.status };
  } catch {
    return { response: null, status: 0 };
  }
}

/**
 * What opens one socket in place of the key, which a socket cannot send and a URL must not hold.
 * @param {string} key
 * @returns {Promise<{ticket: string | null, status: number}>}
 */
export async function fetchTicket(key) {
  try {
    const answer = await ask('v1/tickets', key, { method: 'POST' });
    return { ticket: answer.ok ? (await answer.json()).ticket : null, status: answer.status };
  } catch {
    return { ticket: null, status: 0 };
  }
}
