/**
 * Keeps turns and their runs together over connections that come and go: sends creates, attaches
 * again where a run was left, notices gaps, cancels. Everything about *how* a run is followed is here.
 */
import { Fallback } from './fallback.js';
import * as frames from './frames.js';
import { Held } from './held.js';
import { Lanes } from './lanes.js';
import { TERMINAL_EVENTS, adoptResponse, applyEvent, isOver, refuse, rewind, withdraw } from './turn.js';

/**
 * @typedef {import('./types.js').Frame} Frame
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {{turn: Turn, kind: 'attach' | 'cancel', after?: number | 'start'}} Command
 */

/** The server closes this connection itself, after the answers that are still running. */
const DRAINING = 'server_draining';
/** Refusals that concern the connection, not the request: the same create is right on the next one. */
const SEND_AGAIN = new Set(['websocket_connection_limit_reached', DRAINING]);
/** Frames about a run that are not in its log (PROTOCOL section 1). */
const UNNUMBERED = /^(keepalive$|response\.steer\.)/;
/** How long until an attach that ended is tried again. */
const AGAIN_MS = 1_000;

export class Runs {
  /** @type {Map<string, Turn>} */ #followed = new Map();
  /** @type {Map<string, Command>} */ #commands = new Map();
  /** Turns that wait for an attach to bring what is missing. @type {Set<string>} */ #catchingUp = new Set();
  #lanes = new Lanes();

  /**
   * @param {Pick<import('./connection.js').Connection, 'isOpen' | 'connectionId' | 'send' | 'commandId' | 'renew'>} connection
   * @param {{
   *   onChange: (turn: Turn, important: boolean) => void, onNotice: (message: string) => void,
   *   fetchResponse: typeof import('./api.js').fetchResponse, later: (run: () => void, ms: number) => void,
   *   now: () => number,
   * }} owner important: worth storing at once
   */
  constructor(connection, owner) {
    this.connection = connection;
    this.owner = owner;
    this.fallback = new Fallback({
      fetchResponse: owner.fetchResponse,
      later: owner.later,
      isFollowing: (turn) => this.isFollowing(turn),
      onEnd: (turn) => this.#ended(turn),
    });
    this.held = new Held(connection, {
      now: owner.now,
      onChange: (turn) => owner.onChange(turn, false),
      onNotice: owner.onNotice,
    });
  }

  get isBusy() {
    return this.#followed.size > 0;
  }

  /** @param {Turn} turn */
  isFollowing(turn) {
    return this.#followed.has(turn.key);
  }

  /** @param {Turn} turn */
  follow(turn) {
    if (isOver(turn) || this.isFollowing(turn)) return;
    this.#followed.set(turn.key, turn);
    if (this.connection.isOpen) this.#resume(turn);
  }

  /** Another tab saw the end, or the person threw the conversation away. @param {Turn} turn */
  forget(turn) {
    this.#followed.delete(turn.key);
  }

  /** @param {Turn} turn */
  stop(turn) {
    turn.stopping = true;
    // What was never sent needs no server to be stopped.
    if (!turn.sent && !turn.responseId) {
      withdraw(turn);
      this.#ended(turn);
      return;
    }
    this.owner.onChange(turn, true);
    this.#sendCancel(turn);
  }

  /** The connection was welcomed: nothing of the one before counts. */
  onOpen() {
    this.#lanes.clear();
    this.#commands.clear();
    this.#catchingUp.clear();
    this.held.onOpen();
    for (const turn of this.#followed.values()) this.#resume(turn);
  }

  /** No socket for a while; an answer that has ended can be read over HTTP. */
  async pollOnce() {
    const known = [...this.#followed.values()].filter((turn) => turn.responseId);
    await Promise.all(known.map((turn) => this.fallback.look(turn)));
  }

  /** @param {Frame} frame */
  onFrame(frame) {
    if (frame.type === 'error') this.#refused(frame);
    else if (frame.type.startsWith('response.inject.')) this.held.onReply(frame);
    else if (frame.type.startsWith('antiphon:')) this.#onExtension(frame);
    else this.#onEvent(frame);
  }

  /** @param {Turn} turn */
  #resume(turn) {
    if (turn.responseId) this.#attach(turn, turn.sequence < 0 ? 'start' : turn.sequence);
    else this.#create(turn);
    if (turn.stopping) this.#sendCancel(turn);
  }

  /** @param {Turn} turn */
  #create(turn) {
    const lane = this.#lanes.take(turn.key);
    if (lane) {
      turn.sent = this.connection.send(frames.create(turn, lane));
      this.owner.onChange(turn, true);
    } else this.owner.later(() => this.#again(turn), AGAIN_MS);
  }

  /** @param {Turn} turn @param {number | 'start'} after */
  #attach(turn, after) {
    const id = this.connection.commandId('attach');
    this.#commands.set(id, { turn, kind: 'attach', after });
    this.#catchingUp.add(turn.key);
    this.connection.send(frames.attach(id, turn, after));
  }

  /** @param {Turn} turn */
  #sendCancel(turn) {
    if (!turn.responseId || !this.connection.isOpen) return;
    const id = this.connection.commandId('cancel');
    this.#commands.set(id, { turn, kind: 'cancel' });
    this.connection.send(frames.cancel(id, turn));
  }

  /** @param {Turn} turn */
  #again(turn) {
    if (this.connection.isOpen && this.isFollowing(turn)) this.#resume(turn);
  }

  /** @param {Frame} frame */
  #onEvent(frame) {
    const turn = this.#onLane(frame);
    const isLast = TERMINAL_EVENTS.has(frame.type);
    if (isLast) this.#lanes.free(frame.stream_id);
    if (!turn || UNNUMBERED.test(frame.type)) return;
    const isNew = !turn.responseId;
    const verdict = applyEvent(turn, frame);
    if (verdict === 'gap' && (isLast || !this.#catchingUp.has(turn.key))) {
      this.#catchingUp.add(turn.key);
      this.#resume(turn);
    }
    if (verdict !== 'applied') return;
    if (isNew) this.#catchingUp.delete(turn.key);
    if (isNew && turn.stopping) this.#sendCancel(turn);
    if (isOver(turn)) this.#ended(turn);
    else {
      this.held.consider(turn);
      this.owner.onChange(turn, isNew);
    }
  }

  /** @param {Frame} frame */
  #onLane(frame) {
    return this.#followed.get(this.#lanes.turnOf(frame.stream_id) ?? '');
  }

  /** @param {Turn} turn */
  #ended(turn) {
    this.#followed.delete(turn.key);
    this.#catchingUp.delete(turn.key);
    this.held.consider(turn);
    this.owner.onChange(turn, true);
  }

  /** @param {Frame} frame */
  #refused(frame) {
    const turn = this.#onLane(frame);
    const code = frame.error?.code;
    this.#lanes.free(frame.stream_id);
    if (SEND_AGAIN.has(code)) {
      if (code !== DRAINING) this.connection.renew(AGAIN_MS);
    } else if (turn && !turn.responseId) {
      refuse(turn, frame);
      this.#ended(turn);
    } else this.owner.onNotice(frame.error?.message ?? 'The server reported an error.');
  }

  /** @param {Frame} frame */
  #onExtension(frame) {
    const command = this.#commands.get(frame.id);
    this.#commands.delete(frame.id);
    if (frame.type === 'antiphon:attached' && command) this.#attached(command, frame);
    else if (frame.type === 'antiphon:error') this.#failed(command, frame);
    else if (frame.type === 'antiphon:caught_up') this.#catchingUp.delete(this.#lanes.turnOf(frame.stream_id) ?? '');
    else if (frame.type === 'antiphon:detached') this.#detached(frame);
    else if (frame.type === 'antiphon:run') this.#describe(frame.state ?? frame);
  }

  /** @param {Command} command @param {Frame} frame */
  #attached({ turn, after }, frame) {
    if (isOver(turn)) return;
    this.#lanes.bind(frame.stream_id ?? '', turn.key);
    if (frame.epoch !== turn.epoch) turn.epoch = frame.epoch;
    if (frame.response) adoptResponse(turn, frame.response, frame.head);
    else if (after === 'start') rewind(turn);
    if (frame.mode !== 'replay') this.#catchingUp.delete(turn.key);
    if (isOver(turn)) this.#ended(turn);
    else this.#describe(frame.state ?? {}, turn);
    if (!isOver(turn)) this.owner.onChange(turn, true);
  }

  /** @param {Frame} frame */
  #detached(frame) {
    const turn = this.#onLane(frame);
    this.#lanes.free(frame.stream_id);
    if (!turn || isOver(turn)) return;
    this.#catchingUp.delete(turn.key);
    if (frame.reason === 'epoch_changed') this.#attach(turn, 'start');
    else this.owner.later(() => this.#again(turn), AGAIN_MS);
  }

  /** What is not in the log: the epoch, and what the run waits for. @param {any} state @param {Turn} [known] */
  #describe(state, known) {
    const turn = known ?? [...this.#followed.values()].find(({ responseId }) => responseId === state.response_id);
    if (!turn) return;
    const waiting = state.state === 'waiting_for_tool';
    const pending = state.pending_calls ?? [];
    const changed =
      waiting !== turn.waiting ||
      (state.epoch && state.epoch !== turn.epoch) ||
      JSON.stringify(pending) !== JSON.stringify(turn.pending);
    turn.waiting = waiting;
    turn.pending = pending;
    if (state.epoch) turn.epoch = state.epoch;
    this.held.consider(turn);
    if (changed) this.owner.onChange(turn, true);
  }

  /** @param {Command | undefined} command @param {Frame} error */
  #failed(command, error) {
    if (!command) {
      this.owner.onNotice(error.message ?? 'The server reported an error.');
      return;
    }
    const { turn, kind } = command;
    if (isOver(turn) || !this.isFollowing(turn)) return;
    if (kind === 'cancel') {
      turn.stopping = false;
      this.owner.onNotice(error.message);
      this.owner.onChange(turn, true);
    } else if (['epoch_changed', 'cursor_in_future'].includes(error.code)) this.#attach(turn, 'start');
    else if (error.retryable) this.owner.later(() => this.#again(turn), error.retry_after_ms ?? AGAIN_MS);
    else void this.fallback.insist(turn);
  }
}
