/** Names that a browser makes up. */

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
