/**
 * One WebSocket that keeps coming back. It says hello, knows when it is really open (welcome, not
 * just the upgrade), notices a path that died without a close, and hands every other frame on.
 */
import { hello, ping } from './frames.js';
import { delayMs, finalReason } from './reconnect.js';

/**
 * @typedef {import('./types.js').Frame} Frame
 * @typedef {import('./types.js').ConnectionState} ConnectionState
 * @typedef {{
 *   open: (url: string) => WebSocket, setTimeout: (run: () => void, ms: number) => any,
 *   clearTimeout: (timer: any) => void, now: () => number, random: () => number,
 * }} Surroundings
 */

/** How a socket is closed whose credentials do not count (PROTOCOL 13). */
const UNAUTHORIZED = 4500;
/** The upgrade and the welcome together; a handshake behind a slow proxy takes a few seconds. */
const WELCOME_LIMIT_MS = 10_000;
/** The server sends a keepalive after 15 s of silence on a running lane; half as long again is suspicious. */
const SILENCE_LIMIT_MS = 23_000;
const PONG_LIMIT_MS = 4_000;
const WATCH_EVERY_MS = 5_000;
/** A connection that lived this long was a good one: the next failure counts from nothing. */
const PROVEN_AFTER_MS = 5_000;

export class Connection {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {ConnectionState} */ #state = { phase: 'connecting', retryAt: null, reason: null };
  #attempt = 0;
  #commands = 0;
  #openedAt = 0;
  /** What the server calls this connection. */
  connectionId = '';
  #heardAt = 0;
  /** @type {any} */ #limit = null;
  /** @type {any} */ #watch = null;
  /** @type {any} */ #retry = null;
  /** @type {any} */ #renewal = null;
  /** The attempt that is being made; another one, or none, once it has been left. @type {object | null} */
  #approach = null;

  /**
   * `ticket`: what opens a socket, null where none is needed; `onUnauthorized`: the server does not know this page.
   * @param {string} url
   * @param {string} instanceId
   * @param {{
   *   onState: (state: ConnectionState) => void, onFrame: (frame: Frame) => void, isBusy: () => boolean,
   *   ticket: () => Promise<{ticket: string | null, status: number}> | null, onUnauthorized: () => void,
   * }} owner
   * @param {Surroundings} around
   */
  constructor(url, instanceId, owner, around) {
    this.url = url;
    this.instanceId = instanceId;
    this.owner = owner;
    this.around = around;
  }

  get state() {
    return this.#state;
  }

  get isOpen() {
    return this.#state.phase === 'open';
  }

  /** @param {string} prefix @returns {string} an id for a command, unique on this page */
  commandId(prefix) {
    this.#commands += 1;
    return `${prefix}${this.#commands}`;
  }

  connect() {
    this.#leave();
    const approach = {};
    this.#approach = approach;
    this.#enter({ phase: 'connecting', retryAt: null, reason: null });
    this.#limit = this.around.setTimeout(() => this.#lost(1006), WELCOME_LIMIT_MS);
    const asked = this.owner.ticket();
    if (!asked) this.#open(this.url);
    else void asked.then((answer) => this.#approach === approach && this.#show(answer));
  }

  /** @param {{ticket: string | null, status: number}} answer */
  #show({ ticket, status }) {
    if (ticket) this.#open(`${this.url}?ticket=${encodeURIComponent(ticket)}`);
    else if (status === 401) this.owner.onUnauthorized();
    else this.#lost(1006);
  }

  /** @param {string} url */
  #open(url) {
    const socket = this.around.open(url);
    this.#socket = socket;
    socket.onopen = () => this.#write(hello(this.commandId('hello'), this.instanceId));
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = ({ code }) => this.#lost(code);
  }

  /** Stays away, with a sentence for the person. @param {'refused' | 'locked'} phase @param {string} reason */
  giveUp(phase, reason) {
    this.#leave();
    this.#enter({ phase, retryAt: null, reason });
  }

  /** @param {object} frame @returns {boolean} whether it was handed to an open socket */
  send(frame) {
    if (!this.isOpen) return false;
    this.#write(frame);
    return true;
  }

  /** The network or the person came back: do not wait for a timer that a sleeping tab may have missed. */
  wake() {
    if (this.#state.phase === 'waiting') this.connect();
    else if (this.isOpen) this.probe();
  }

  /** Asks on this very socket whether anybody is there; any frame within the limit is an answer. */
  probe() {
    if (!this.isOpen || this.#limit) return;
    this.#write(ping(this.commandId('ping')));
    this.#limit = this.around.setTimeout(() => this.#lost(1006), PONG_LIMIT_MS);
  }

  /** Moves to a new connection, a little later than the others do. @param {number} spreadMs */
  renew(spreadMs) {
    if (this.#renewal) return;
    this.#renewal = this.around.setTimeout(() => this.connect(), this.around.random() * spreadMs);
  }

  /** @param {unknown} data */
  #receive(data) {
    this.#heardAt = this.around.now();
    if (this.isOpen) this.#disarm();
    /** @type {Frame} */
    const frame = JSON.parse(String(data));
    if (frame.type === 'antiphon:welcome') this.#welcomed(frame);
    else if (!this.isOpen && frame.type === 'antiphon:error') this.giveUp('refused', frame.message);
    else if (frame.type === 'antiphon:goaway') this.#asked(frame);
    else if (frame.type !== 'antiphon:pong') this.owner.onFrame(frame);
  }

  /**
   * Only an old connection is left early: a draining server still streams what it can and then closes, and a new
   * connection with the same key would run out at the same time.
   * @param {Frame} frame
   */
  #asked({ reason, spread_ms: spreadMs }) {
    if (reason === 'connection_age') this.renew(spreadMs ?? 1000);
  }

  /** @param {Frame} welcome */
  #welcomed(welcome) {
    this.#disarm();
    this.connectionId = welcome.connection_id;
    this.#openedAt = this.around.now();
    this.#enter({ phase: 'open', retryAt: null, reason: null });
    this.#watchSilence();
  }

  #watchSilence() {
    this.#watch = this.around.setTimeout(() => {
      if (this.owner.isBusy() && this.around.now() - this.#heardAt > SILENCE_LIMIT_MS) this.probe();
      this.#watchSilence();
    }, WATCH_EVERY_MS);
  }

  /** @param {number} code */
  #lost(code) {
    const proven = this.isOpen && this.around.now() - this.#openedAt >= PROVEN_AFTER_MS;
    this.#leave();
    if (code === UNAUTHORIZED) {
      this.owner.onUnauthorized();
      return;
    }
    const reason = finalReason(code);
    if (reason) {
      this.#enter({ phase: 'refused', retryAt: null, reason });
      return;
    }
    const wait = delayMs(proven ? 0 : this.#attempt, this.around.random);
    this.#attempt = proven ? 1 : this.#attempt + 1;
    this.#enter({ phase: 'waiting', retryAt: this.around.now() + wait, reason: null });
    this.#retry = this.around.setTimeout(() => this.connect(), wait);
  }

  /** Lets go of the socket at once; whatever it still says is for nobody. */
  #leave() {
    const socket = this.#socket;
    this.#socket = this.#approach = null;
    for (const timer of [this.#watch, this.#retry, this.#renewal]) this.around.clearTimeout(timer);
    this.#watch = this.#retry = this.#renewal = null;
    this.#disarm();
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #disarm() {
    this.around.clearTimeout(this.#limit);
    this.#limit = null;
  }

  /** @param {object} frame */
  #write(frame) {
    this.#socket?.send(JSON.stringify(frame));
  }

  /** @param {ConnectionState} state */
  #enter(state) {
    this.#state = state;
    this.owner.onState(state);
  }
}
