/**
 * The two things that the page asks over HTTP, relative to where it was served from.
 *
 * @typedef {import('./types.js').WireResponse} WireResponse
 */

const LIMIT_MS = 8_000;

/**
 * @returns {Promise<{models: string[], status: number}>} status 0: nobody answered
 */
export async function fetchModels() {
  try {
    const answer = await fetch('v1/models', { signal: AbortSignal.timeout(LIMIT_MS) });
    if (!answer.ok) return { models: [], status: answer.status };
    const { data } = await answer.json();
    return { models: data.map((/** @type {{id: string}} */ { id }) => id), status: answer.status };
  } catch {
    return { models: [], status: 0 };
  }
}

/**
 * @param {string} responseId
 * @returns {Promise<{response: WireResponse | null, status: number}>} status 0: nobody answered
 */
export async function fetchResponse(responseId) {
  try {
    const answer = await fetch(`v1/responses/${encodeURIComponent(responseId)}`, {
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    return { response: answer.ok ? await answer.json() : null, status: answer.status };
  } catch {
    return { response: null, status: 0 };
  }
}
