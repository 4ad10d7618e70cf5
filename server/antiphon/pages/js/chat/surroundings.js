/**
 * Names that a browser makes up, and where a tab is.
 *
 * @typedef {{get: (conversation: string) => string | null, keep: (conversation: string, runId: string) => void}} Places
 *   the run at the end of the branch that a tab looks at, of conversations that have branches
 */

/** Not crypto.randomUUID, which exists on https and loopback only. */
export function newId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** This tab's name for the server: the same one after a reload. @param {Pick<Storage, 'getItem' | 'setItem'>} area */
export function tabId(area) {
  const id = area.getItem('antiphon.tab') ?? newId();
  area.setItem('antiphon.tab', id);
  return id;
}

/** The same ones after a reload. @param {Pick<Storage, 'getItem' | 'setItem'>} area @returns {Places} */
export function placesIn(area) {
  const name = (/** @type {string} */ conversation) => `antiphon.branch.${conversation}`;
  return {
    get: (conversation) => area.getItem(name(conversation)),
    keep: (conversation, runId) => area.setItem(name(conversation), runId),
  };
}
