/** One WebSocket from hello to its end: commands and their answers, and a watch over whether it still lives. */
import { hasSlept, LIVENESS } from '../core/connection.js';
import { ConnectionFailed, finalClose, toError, type AntiphonError, type Refusal } from '../core/errors.js';
import type { Welcome } from '../wire/index.js';
import type { SocketConstructor, SocketLike } from './surroundings.js';

export type Frame = { type: string; id?: string; stream_id?: string } & Record<string, any>;

/** Who is told. After `onEnd` nothing more is said. */
export interface SocketOwner {
  onWelcome(welcome: Welcome): void;
  onFrame(frame: Frame): void;
  /** `error`: why there is no way back, else null. `code`: it was closed with, 0 if it was not. */
  onEnd(error: AntiphonError | null, code: number): void;
}

/** The connection was lost before the answer came: whether the command was carried out is not known. */
export class ConnectionLost extends ConnectionFailed {
  constructor() {
    super('The connection was lost.', 'connection_lost');
  }
}

interface Waiting {
  /** Called at once: frames behind the answer may be read before any promise is. */
  act: ((frame: Frame) => void) | undefined;
  resolve(frame: Frame): void;
  reject(error: AntiphonError): void;
}

export class Socket {
  #socket: SocketLike | null;
  #isOpen = false;
  #commands = 0;
  #heardAt = Date.now();
  #tickAt = Date.now();
  #limit: ReturnType<typeof setTimeout> | undefined;
  #tick: ReturnType<typeof setInterval> | undefined;
  /** What the server said before it closed: more than a close code can say. */
  #refusal: AntiphonError | null = null;
  readonly #waiting = new Map<string, Waiting>();
  readonly #gone = new AbortController();

  constructor(
    create: SocketConstructor,
    url: string,
    hello: object,
    private readonly owner: SocketOwner,
    private readonly idleMs: number,
  ) {
    const socket = (this.#socket = new create(url));
    this.#within(LIVENESS.welcomeMs);
    socket.onopen = () => this.#hello(hello);
    socket.onmessage = ({ data }) => this.#receive(String(data));
    socket.onclose = ({ code }) => this.#end(finalClose(code), code);
    // Not every platform has a close follow where no connection could be made.
    socket.onerror = () => this.#end(null);
  }

  /** Aborts with the connection. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** False if it could not be sent. */
  send(frame: object): boolean {
    if (!this.#isOpen) return false;
    this.#socket!.send(JSON.stringify(frame));
    return true;
  }

  /** The answer to a command; `act` has it before the frames that follow. Throws the refusal, or ConnectionLost. */
  command(type: string, fields: object, act?: (frame: Frame) => void): Promise<Frame> {
    const id = `c${++this.#commands}`;
    return new Promise((resolve, reject) => {
      if (!this.#socket) return reject(new ConnectionLost());
      this.#waiting.set(id, { act, resolve, reject });
      this.#socket.send(JSON.stringify({ type, id, ...fields }));
    });
  }

  /** Asks whether anybody is there; anything that comes in time is the answer. */
  probe(limitMs = LIVENESS.wakePongMs): void {
    if (!this.#isOpen || this.#limit) return;
    this.command('antiphon:ping', {}).catch(() => {});
    this.#within(limitMs);
  }

  /** Lets go of the socket; nobody is told. */
  close(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#isOpen = false;
    this.#gone.abort();
    clearTimeout(this.#limit);
    clearInterval(this.#tick);
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const one of waiting) one.reject(new ConnectionLost());
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
    try {
      socket.close();
    } catch {
      // It never opened.
    }
  }

  #hello(fields: object): void {
    this.command('antiphon:hello', fields, (welcome) => this.#welcomed(welcome as unknown as Welcome)).catch(
      (error: AntiphonError) => {
        if (!(error instanceof ConnectionLost)) this.#end(error);
      },
    );
  }

  #welcomed(welcome: Welcome): void {
    this.#isOpen = true;
    this.#disarm();
    this.#tickAt = Date.now();
    this.#tick = setInterval(() => this.#watch(), this.idleMs / 5);
    this.owner.onWelcome(welcome);
  }

  #watch(): void {
    const now = Date.now();
    const slept = hasSlept(this.idleMs / 5, now - this.#tickAt);
    this.#tickAt = now;
    if (slept) this.probe();
    else if (now - this.#heardAt >= this.idleMs) this.probe(this.idleMs * LIVENESS.pongShare);
  }

  #receive(text: string): void {
    this.#heardAt = Date.now();
    if (this.#isOpen) this.#disarm();
    const frame = JSON.parse(text) as Frame;
    const waiting = frame.id === undefined ? undefined : this.#waiting.get(frame.id);
    if (waiting) {
      this.#waiting.delete(frame.id!);
      if (frame.type === 'antiphon:error') waiting.reject(toError(frame));
      else {
        waiting.act?.(frame);
        waiting.resolve(frame);
      }
    } else if (!this.#isOpen && frame.type === 'error') {
      this.#refusal = toError(frame['error'] as Refusal, Number(frame['status']));
    } else this.owner.onFrame(frame);
  }

  #within(limitMs: number): void {
    this.#limit = setTimeout(() => this.#end(null), limitMs);
  }

  #disarm(): void {
    clearTimeout(this.#limit);
    this.#limit = undefined;
  }

  #end(error: AntiphonError | null, code = 0): void {
    if (!this.#socket) return;
    this.close();
    this.owner.onEnd(error && (this.#refusal ?? error), code);
  }
}
