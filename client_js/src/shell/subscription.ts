/** Something that is asked for anew with each connection: a conversation, a feed. */
import type { AntiphonError } from '../core/errors.js';
import type { RunState } from '../wire/index.js';
import { Emitter } from './emitter.js';
import type { Run } from './run.js';
import type { Session } from './session.js';
import { ConnectionLost, type Frame, type Socket } from './socket.js';

/** A stream that lasted so long was a good one: what comes after it begins with short waits again. */
const GOOD_MS = 60_000;

export abstract class Subscription<
  Events extends { [name in keyof Events]: unknown[] } & { error: [error: AntiphonError] },
> extends Emitter<Events> {
  /** Only while it is open. */
  protected socket: Socket | null = null;
  /** Ends what belongs to this connection. */
  protected stop = new AbortController();
  readonly #session: Session;

  protected constructor(session: Session) {
    super();
    this.#session = session;
  }

  /** Asks over this connection. Called again after a refusal that passes. */
  protected abstract ask(socket: Socket | null): Promise<unknown>;

  /** @internal Gives true if the frame was for it. */
  take(_frame: Frame): boolean {
    return false;
  }

  /** @internal A run of any kind stands so now; `run`: if its log is read. */
  stateIs(_state: RunState, _run: Run | null): void {}

  /** @internal A connection is there. `socket`: null where only HTTP is to be had. */
  up(socket: Socket | null): void {
    this.down();
    this.socket = socket;
    void this.#keepAsking(socket, (this.stop = new AbortController()).signal);
  }

  /** @internal */
  down(): void {
    this.stop.abort();
    this.socket = null;
  }

  /** @internal The client is closed, and if that was not asked for, `problem` says why. */
  end(problem: AntiphonError | null): void {
    this.down();
    if (problem) (this as Emitter<{ error: [error: AntiphonError] }>)['emit']('error', problem);
    this.refused(problem);
  }

  /** It was refused for good; null where the client was closed on purpose. */
  protected refused(_problem: AntiphonError | null): void {}

  async #keepAsking(socket: Socket | null, stop: AbortSignal): Promise<void> {
    for (let attempt = 0; !stop.aborted; attempt++) {
      let waitMs = 0;
      const begunAt = Date.now();
      try {
        await this.ask(socket);
        if (socket) return; // What follows comes by itself; a stream has ended.
        if (Date.now() - begunAt > GOOD_MS) attempt = 0;
      } catch (error) {
        if (stop.aborted || error instanceof ConnectionLost) return;
        const { retryable, retryAfterMs = 0 } = error as AntiphonError;
        (this as Emitter<{ error: [error: AntiphonError] }>)['emit']('error', error as AntiphonError);
        if (!retryable) return this.refused(error as AntiphonError);
        waitMs = retryAfterMs;
      }
      await this.#session.rest(attempt, waitMs, stop);
    }
  }
}
