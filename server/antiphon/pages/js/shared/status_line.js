/** How the connection is: the line in the bar, and the banner when it is lost. */
import { byId, setText } from './dom.js';

/**
 * @typedef {'idle' | 'connecting' | 'open' | 'reconnecting' | 'fallback' | 'closed'} Status as the client has it
 * @typedef {'locked' | 'refused' | null} Barred `locked`: a key is needed; `refused`: trying again alone changes nothing
 */

const OFFLINE = 'You are offline. What has begun goes on at the server and will be here when you are back.';
const LOST = 'The connection is lost. What has begun goes on at the server; this page comes back by itself.';
export const LOCKED = 'This server asks for an API key.';

/**
 * @param {Status} status @param {Barred} barred @param {boolean} isOnline
 * @returns {{tone: 'good' | 'busy' | 'bad', text: string}}
 */
export function connectionWords(status, barred, isOnline) {
  if (barred === 'locked') return { tone: 'bad', text: 'Key needed' };
  if (barred === 'refused') return { tone: 'bad', text: 'Not connected' };
  if (status === 'open') return { tone: 'good', text: 'Connected' };
  if (!isOnline) return { tone: 'bad', text: 'Offline' };
  if (status === 'fallback') return { tone: 'busy', text: 'Connected without a socket' };
  if (status === 'reconnecting') return { tone: 'busy', text: 'Reconnecting…' };
  if (status === 'closed') return { tone: 'bad', text: 'Not connected' };
  return { tone: 'busy', text: 'Connecting…' };
}

/** Needs `#connection` (with `.dot` and `.words`) and `#banner` (with `.words` and a button) in the page. */
export class StatusLine {
  #notice = '';
  #wasLost = false;

  /** @param {() => void} onTryNow */
  constructor(onTryNow) {
    this.line = byId('connection', HTMLElement);
    this.banner = byId('banner', HTMLElement);
    this.tryNow = /** @type {HTMLButtonElement} */ (this.banner.querySelector('button'));
    this.tryNow.addEventListener('click', onTryNow);
  }

  /** @param {string} message an error of the whole page, until the next one or an empty one */
  notice(message) {
    this.#notice = message;
  }

  /**
   * @param {Status} status @param {Barred} barred @param {string} why the sentence of a barred page
   * @param {boolean} isOnline
   */
  update(status, barred, why, isOnline) {
    const { tone, text } = connectionWords(status, barred, isOnline);
    this.line.dataset.tone = tone;
    setText(wordsIn(this.line), text);
    if (status === 'open') this.#wasLost = false;
    if (status === 'reconnecting') this.#wasLost = true;
    const isAway = !barred && this.#wasLost;
    const words = barred ? why : isAway ? (isOnline ? LOST : OFFLINE) : this.#notice;
    setText(wordsIn(this.banner), words);
    this.banner.dataset.tone = isAway ? 'busy' : 'bad';
    this.banner.hidden = !words;
    this.tryNow.hidden = barred !== 'refused' && !isAway;
  }
}

/** @param {HTMLElement} element */
const wordsIn = (element) => /** @type {Element} */ (element.querySelector('.words'));
