/** What the browser gives: clock, storage, network, names. Nothing else reaches for them. */
import { Storage, areaOr } from './storage.js';

export const storage = new Storage(areaOr(() => window.localStorage));
/** Kept as long as this tab, over its reloads. */
export const tab = areaOr(() => window.sessionStorage);

export const now = () => Date.now();

/** @param {() => void} run @param {number} ms */
export const later = (run, ms) => void setTimeout(run, ms);

/** Not crypto.randomUUID, which exists on https and loopback only. */
export function newId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** This tab's name for the server: the same one after a reload. */
export function tabId() {
  const id = tab.getItem('antiphon.tab') ?? newId();
  tab.setItem('antiphon.tab', id);
  return id;
}

/** The socket beside the page, wherever a proxy has put it. */
export function socketUrl() {
  const url = new URL('v1/responses', document.baseURI);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}

/** @type {import('./connection.js').Surroundings} */
export const forConnection = {
  open: (url) => new WebSocket(url),
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer),
  now,
  random: Math.random,
};
