/** Keeps one connection to the server: comes back, falls back to HTTP, and says where it stands. */
import { delayMs, type Backoff } from '../core/backoff.js';
import { attemptsAfter, FALLBACK_AFTER, nextStatus, type ConnectionSignal, type Status } from '../core/connection.js';
import { AuthenticationError, ConnectionFailed, toError, type AntiphonError } from '../core/errors.js';
import type { Goaway, Welcome } from '../wire/index.js';
import type { Http } from './http.js';
import { Socket, type Frame } from './socket.js';
import { isPage, onWake, pause, type SocketConstructor } from './surroundings.js';

/** A connection that lived this long was a good one: the next failure counts from nothing. */
const PROVEN_AFTER_MS = 5_000;
const HEALTH_LIMIT_MS = 3_000;

export interface ConnectorOptions {
  readonly http: Http;
  /** null: there are no sockets here. */
  readonly create: SocketConstructor | null;
  readonly backoff: Backoff;
  readonly idleMs: number;
  /** The fields of the hello, without its token. */
  readonly hello: () => object;
  /** Makes ready what stands in for a socket, before there is a need of it. */
  readonly loadFallback: () => Promise<void>;
}

/** Who is told. */
export interface ConnectorOwner {
  onStatus(status: Status, problem: AntiphonError | null): void;
  onFrame(frame: Frame): void;
}

interface Waiting {
  resolve(socket: Socket | null): void;
  reject(error: unknown): void;
}

/** What whoever still waits is told when the owner of the client closes it. */
export function closedByOwner(): AntiphonError {
  return new ConnectionFailed('This client was closed.', 'closed', false);
}

export class Connector {
  status: Status = 'idle';
  /** Why it is closed. */
  problem: AntiphonError | null = null;
  welcome: Welcome | null = null;
  /** Only while it is open. */
  socket: Socket | null = null;
  #attempts = 0;
  /** Attempts since the last welcome. */
  #misses = 0;
  #openedAt = 0;
  /** Ends what is being tried or waited for. */
  #stop = new AbortController();
  #endWaking = () => {};
  #hasRenewed = false;
  #waiting: Waiting[] = [];

  constructor(
    private readonly options: ConnectorOptions,
    private readonly owner: ConnectorOwner,
  ) {}

  /** The open socket, or null where only HTTP is to be had. Waits for either; throws what closed the connection. */
  async ready(): Promise<Socket | null> {
    if (this.socket || this.status === 'fallback') return this.socket;
    if (this.status === 'closed') throw this.problem ?? closedByOwner();
    this.connect();
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** Begins to connect, unless that was done. */
  connect(): void {
    if (this.status !== 'idle' && this.status !== 'closed') return;
    this.problem = null;
    this.#attempts = this.#misses = 0;
    this.#hasRenewed = false;
    this.#endWaking = onWake(() => this.wake());
    this.#enter('wanted');
    this.#try();
  }

  /** Says hello again: what this client can do has changed. */
  greet(): void {
    this.socket?.command('antiphon:hello', this.options.hello()).catch(() => {}); // The next connection says it too.
  }

  close(): void {
    this.#drop();
    this.#endWaking();
    this.#enter('closed');
  }

  /** The network or the person came back: no timer is waited for, and a socket has to show that it lives. */
  wake(): void {
    if (this.socket) this.socket.probe();
    else if (this.status === 'reconnecting' || this.status === 'fallback') this.#try();
  }

  /** Leaves this connection for another one at a random moment within `spreadMs`. */
  async renew(spreadMs: number): Promise<void> {
    const { socket } = this;
    await pause(Math.random() * spreadMs, this.#stop.signal);
    if (socket && this.socket === socket) this.#lost(null);
  }

  #try(): void {
    this.#drop();
    void this.#attempt(this.#stop.signal);
  }

  async #attempt(stop: AbortSignal): Promise<void> {
    const { http, create, hello, idleMs } = this.options;
    if (!create) return this.#miss(stop);
    try {
      const token = await http.token();
      const ticket =
        token && isPage
          ? ((await http.request('POST', '/v1/tickets', { signal: stop })) as { ticket: string }).ticket
          : null;
      if (stop.aborted) return;
      const url = `${http.origin.replace(/^http/, 'ws')}/v1/responses${ticket ? `?ticket=${encodeURIComponent(ticket)}` : ''}`;
      const fields = token && !ticket ? { ...hello(), token } : hello();
      const socket: Socket = new Socket(
        create,
        url,
        fields,
        {
          onWelcome: (welcome) => this.#welcomed(socket, welcome),
          onFrame: (frame) => this.#frame(frame),
          onEnd: (error, code) => this.#ended(error, stop, code),
        },
        idleMs,
      );
      stop.addEventListener('abort', () => socket.close());
    } catch (error) {
      if (!stop.aborted) this.#ended(toProblem(error), stop);
    }
  }

  #welcomed(socket: Socket, welcome: Welcome): void {
    this.socket = socket;
    this.welcome = welcome;
    this.#misses = 0;
    this.#hasRenewed = false;
    this.#openedAt = Date.now();
    this.#enter('welcomed');
  }

  #frame(frame: Frame): void {
    if (frame.type === 'antiphon:goaway') void this.#goaway(frame as unknown as Goaway);
    this.owner.onFrame(frame);
  }

  /**
   * A draining server still sends what it can and then closes; it is left when it refuses something. A connection that
   * is too old is left, one whose token runs out gets a newer one.
   */
  async #goaway({ reason, spread_ms: spreadMs }: Goaway): Promise<void> {
    if (reason === 'connection_age') return this.renew(spreadMs);
    if (reason !== 'token_expiring' || !this.options.http.canRenew) return;
    const token = await this.options.http.token().catch(() => null);
    if (token) await this.socket?.command('antiphon:auth', { token }).catch(() => {});
  }

  /** The attempt, or the connection it became, is over. */
  #ended(error: AntiphonError | null, stop: AbortSignal, code = 0): void {
    if (stop.aborted) return;
    if (!error || error.retryable) return this.#lost(stop, code);
    if (error instanceof AuthenticationError && this.options.http.canRenew && !this.#hasRenewed) {
      this.#hasRenewed = true;
      return this.#lost(stop);
    }
    this.problem = error;
    this.#drop();
    this.#endWaking();
    this.#enter('refused');
  }

  #lost(stop: AbortSignal | null, code = 0): void {
    const wasOpen = this.socket !== null;
    if (wasOpen) {
      this.#attempts = attemptsAfter(this.#attempts, Date.now() - this.#openedAt >= PROVEN_AFTER_MS, code);
      this.#drop();
      this.#enter('lost');
      stop = this.#stop.signal;
      void this.#retry(stop);
    } else void this.#miss(stop!);
  }

  /** No socket this time. After some of those HTTP is asked whether the server is there. */
  async #miss(stop: AbortSignal): Promise<void> {
    const { http, create, loadFallback } = this.options;
    this.#misses += 1;
    if (!create || this.#misses >= FALLBACK_AFTER) {
      const isThere = await http
        .request('GET', '/health', { signal: stop, limitMs: HEALTH_LIMIT_MS })
        .then(loadFallback)
        .then(
          () => true,
          () => false,
        );
      if (stop.aborted) return;
      this.#enter(isThere ? 'only_http' : 'lost');
      if (isThere && !create) return;
    } else this.#enter('lost');
    await this.#retry(stop);
  }

  async #retry(stop: AbortSignal): Promise<void> {
    await pause(delayMs(this.#attempts++, Math.random(), this.options.backoff), stop);
    if (!stop.aborted) this.#try();
  }

  #drop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.socket?.close();
    this.socket = null;
  }

  #enter(signal: ConnectionSignal): void {
    const before = this.status;
    this.status = nextStatus(before, signal);
    if (this.status === before) return;
    const waiting = this.#waiting;
    if (this.status === 'reconnecting') return this.owner.onStatus(this.status, null);
    this.#waiting = [];
    for (const { resolve, reject } of waiting) {
      if (this.status === 'closed') reject(this.problem ?? closedByOwner());
      else resolve(this.socket);
    }
    this.owner.onStatus(this.status, this.problem);
  }
}

/** What stopped an attempt: a refusal, or anything else, which is no reason to stay away. */
function toProblem(error: unknown): AntiphonError {
  return error instanceof Error && 'retryable' in error
    ? (error as AntiphonError)
    : toError({ code: 'connection_failed', message: String(error), retryable: true });
}
