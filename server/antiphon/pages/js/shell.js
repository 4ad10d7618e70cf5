/** What surrounds the conversation: how the connection is, what is going on, what went wrong. */
import { byId, setText } from './dom.js';
import { activityWords, connectionWords } from './status.js';

/**
 * @typedef {import('./types.js').ConnectionState} ConnectionState
 * @typedef {import('./types.js').Conversation} Conversation
 */

const OFFLINE = 'You are offline. An answer that has begun goes on at the server and will be here when you are back.';
const LOST = 'The connection is lost. An answer that has begun goes on at the server; this page comes back by itself.';

export class Shell {
  #wasLost = false;
  #notice = '';

  /** @param {() => void} onTryNow */
  constructor(onTryNow) {
    this.connection = byId('connection', HTMLElement);
    this.activity = byId('activity', HTMLElement);
    this.spoken = byId('spoken', HTMLElement);
    this.banner = byId('banner', HTMLElement);
    this.tryNow = /** @type {HTMLButtonElement} */ (this.banner.querySelector('button'));
    this.tryNow.addEventListener('click', onTryNow);
  }

  /** @param {string} message an error that belongs to no answer; gone with the next thing a person does */
  notice(message) {
    this.#notice = message;
  }

  /** Told once, by a screen reader. @param {string} message */
  speak(message) {
    this.spoken.textContent = message;
  }

  /** @param {ConnectionState} state @param {boolean} isOnline @param {Conversation} conversation @param {number} now */
  update(state, isOnline, conversation, now) {
    const { tone, text } = connectionWords(state, isOnline, now);
    this.connection.dataset.tone = tone;
    setText(wordsIn(this.connection), text);
    const activity = activityWords(conversation, state.phase === 'open');
    setText(this.activity, activity?.text ?? '');
    this.activity.classList.toggle('is-busy', activity?.isBusy ?? false);
    this.#updateBanner(state, isOnline);
  }

  /** @param {ConnectionState} state @param {boolean} isOnline */
  #updateBanner({ phase, reason }, isOnline) {
    if (phase === 'open') this.#wasLost = false;
    if (phase === 'waiting') this.#wasLost = true;
    const isAway = phase === 'waiting' || (phase === 'connecting' && this.#wasLost);
    const text = reason ?? (isAway ? (isOnline ? LOST : OFFLINE) : this.#notice);
    setText(wordsIn(this.banner), text);
    this.banner.hidden = !text;
    this.tryNow.hidden = phase !== 'refused' && !isAway;
  }
}

/** @param {HTMLElement} element */
const wordsIn = (element) => /** @type {Element} */ (element.querySelector('.words'));
