/** What pages ask over HTTP, relative to where they were served from. */

const LIMIT_MS = 8_000;

/**
 * @param {string} path without a slash in front
 * @param {string} key the API key, empty where there is none
 * @param {RequestInit} [more]
 * @returns {Promise<{status: number, body: any}>} status 0: nobody answered; body null: there was no JSON
 */
export async function ask(path, key, more = {}) {
  const headers = {
    ...(more.body && { 'Content-Type': 'application/json' }),
    ...(key && { Authorization: `Bearer ${key}` }),
  };
  try {
    const answer = await fetch(path, { signal: AbortSignal.timeout(LIMIT_MS), ...more, headers });
    return { status: answer.status, body: await answer.json().catch(() => null) };
  } catch {
    return { status: 0, body: null };
  }
}
