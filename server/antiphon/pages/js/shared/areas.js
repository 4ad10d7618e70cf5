/** Storage areas of the browser, or of memory where it allows none. */

/**
 * @param {() => globalThis.Storage} area
 * @returns {globalThis.Storage}
 */
export function areaOr(area) {
  try {
    return area();
  } catch {
    return memoryArea();
  }
}

/** @returns {globalThis.Storage} */
export function memoryArea() {
  /** @type {Map<string, string>} */
  const kept = new Map();
  return {
    get length() {
      return kept.size;
    },
    key: (index) => [...kept.keys()][index] ?? null,
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, String(value)),
    removeItem: (key) => void kept.delete(key),
    clear: () => kept.clear(),
  };
}

/** Kept as long as this tab, over its reloads. */
export const tabArea = () => areaOr(() => window.sessionStorage);

/** Kept by this browser, for all its tabs. */
export const browserArea = () => areaOr(() => window.localStorage);
