/** One run: its log as it comes, the response it makes, and what can be said to it. */
import { hasEnded, textOf } from '../core/accumulate.js';
import type { Cursor } from '../core/cursor.js';
import { AntiphonError, ConnectionFailed } from '../core/errors.js';
import { RunLog } from '../core/run_log.js';
import type { CreateParams, LogEvent, PendingCall, Response, RunState } from '../wire/index.js';
import { callIn, type Call } from './calls.js';
import { Emitter } from './emitter.js';
import type { Session } from './session.js';
import type { ToolCallEvent, ToolHandler, ToolOptions } from './desk.js';

export interface RunEvents {
  /** One more entry of the log. */
  event: [event: LogEvent];
  /** The response after it. */
  response: [response: Response];
  state: [state: RunState];
  /** Events from `fork` on are said again: the log is another one from there, or could not be had. */
  reset: [reset: { epoch: string; fork: number }];
  /** The run that goes on where this one was steered. */
  successor: [run: Run];
  toolcall: [event: ToolCallEvent];
  end: [response: Response | null, error: AntiphonError | null];
}

export type RunStatus = 'creating' | 'following' | 'ended' | 'detached' | 'failed';

/** How a run begins for this client. */
export type Origin =
  { readonly create: CreateParams; readonly key: string } | { readonly id: string; readonly from: Cursor | 'now' };

interface Steered {
  id: string;
  previous_response_id: string;
}

export class Run extends Emitter<RunEvents> implements AsyncIterable<LogEvent> {
  #id: string | null = null;
  #status: RunStatus;
  #state: RunState | null = null;
  #successor: Run | null = null;
  #error: AntiphonError | null = null;
  /** Wakes those who iterate. */
  #wakers = new Set<() => void>();
  #begin!: { resolve(id: string): void; reject(error: AntiphonError): void };
  #finish!: { resolve(response: Response): void; reject(error: AntiphonError): void };
  readonly #log = new RunLog();
  /** Resolves with the id of the response. */
  readonly created: Promise<string>;
  /** Resolves with the response when it has ended, however that was; rejects if the create was refused or it is detached. */
  readonly done: Promise<Response>;
  /** What was asked for, and the key that makes asking again harmless; null for a run that was there. */
  readonly asked: { create: CreateParams; key: string } | null;
  /** @internal Only events still to come are wanted. */
  isFromNow = false;
  /** @internal It came by itself: nobody asked for this one run. */
  hasArrived = false;

  /** @internal Made by `client.run` and `client.attach`. */
  constructor(
    private readonly session: Session,
    origin: Origin,
  ) {
    super();
    this.created = new Promise((resolve, reject) => (this.#begin = { resolve, reject }));
    this.done = new Promise((resolve, reject) => (this.#finish = { resolve, reject }));
    this.created.catch(() => {});
    this.done.catch(() => {});
    this.asked = 'create' in origin ? origin : null;
    this.#status = this.asked ? 'creating' : 'following';
    if ('id' in origin) {
      this.#named(origin.id);
      if (origin.from === 'now') this.isFromNow = true;
      else this.#log.startAt(origin.from);
    }
  }

  /** The id of the response; null until the server has given it one. */
  get id(): string | null {
    return this.#id;
  }
  get status(): RunStatus {
    return this.#status;
  }
  /** The response as it is so far. Each change makes another object. */
  get response(): Response | null {
    return this.#log.response;
  }
  /** All text of the response so far. */
  get text(): string {
    return textOf(this.#log.response);
  }
  get state(): RunState | null {
    return this.#state;
  }
  /** How far the log was read. */
  get cursor(): Cursor {
    return this.#log.cursor;
  }
  get successor(): Run | null {
    return this.#successor;
  }
  /** Why it failed for this client: refused, or not there any more. */
  get error(): AntiphonError | null {
    return this.#error;
  }

  /** Events of the log from its beginning, each number once. Throws what `done` rejects with. */
  async *[Symbol.asyncIterator](): AsyncGenerator<LogEvent, void, void> {
    const { events } = this.#log;
    let index = 0;
    // After a fork the log is shorter than what was read, and goes on with numbers that were there before.
    const off = this.on('reset', () => (index = Math.min(index, events.length)));
    try {
      for (;;) {
        if (index < events.length) yield events[index++]!;
        else if (this.#error) throw this.#error;
        else if (!this.isWanted) return;
        else await new Promise<void>((resolve) => this.#wakers.add(resolve));
      }
    } finally {
      off();
    }
  }

  /** Ends the run, for everybody. */
  async cancel(reason?: string): Promise<'accepted' | 'already_terminal'> {
    return this.session.cancel(await this.created, reason);
  }

  /** Says more to the run. It ends at its next safe point and `successor` goes on. */
  async steer(input: string | readonly object[]): Promise<Steered> {
    return this.session.steer(
      await this.created,
      input,
      (this.#state?.steers ?? []).map(({ id }) => id),
    );
  }

  /**
   * Answers a held call. `output`: text, for an approval a boolean, any JSON, or a whole output item.
   * Throws AlreadyResolved with the `winner`, ClaimHeld with the `holder`, and other AntiphonErrors.
   */
  async respond(
    callId: string,
    output: unknown,
    options: { fence?: number; resultId?: string } = {},
  ): Promise<{ duplicate: boolean }> {
    const kind = this.call(callId)?.kind ?? this.pendingCall(callId)?.kind ?? 'function';
    return this.session.respond(await this.created, { callId, kind }, output, options);
  }

  /** A call of the log by its id; null if it was not seen. */
  call(callId: string): Call | null {
    return callIn(this.#log.response, callId);
  }

  /** A held call that waits for its answer. */
  pendingCall(callId: string): PendingCall | null {
    return this.#state?.pending_calls?.find((call) => call.call_id === callId) ?? null;
  }

  /** Answers the held calls of a tool, of this run only. Gives the function that ends it. */
  onToolCall(name: string, handler: ToolHandler, options: ToolOptions = {}): () => void {
    return this.session.desk.register(name, handler, options, this);
  }

  /** Reads no more of it. The run goes on. */
  detach(): void {
    if (!this.isWanted) return;
    this.#stop('detached', new ConnectionFailed('The run is not read now.', 'detached', false));
    this.session.leave(this);
  }

  // What follows is for the parts of this client that bring the log.

  /** @internal An event came. Gives false if one before it is missing. */
  take(event: LogEvent): boolean {
    if (!this.isWanted) return true;
    const before = this.#log.response;
    const where = this.#log.take(event);
    if (where === 'seen') return true;
    if (where === 'gap') return false;
    if (event.type === 'response.created' && !this.#id) this.#named((event.response as Response).id);
    if (where === 'told') this.emit('event', event);
    const { response } = this.#log;
    if (response && response !== before) this.emit('response', response);
    if (this.#log.isEnded) this.#ended();
    this.#wake();
    if (event.type === 'response.output_item.done') this.session.desk.consider(this);
    return true;
  }

  /** @internal The attach was answered: events up to `head` are old. */
  attached(epoch: string, head: number): void {
    this.#log.enter(epoch);
    if (this.isFromNow) this.#log.hush(head);
    this.isFromNow = false;
  }

  /** @internal */
  enterEpoch(epoch: string): void {
    this.#log.enter(epoch);
  }

  /** @internal The log is another one from `fork` on. */
  forked(epoch: string, fork: number): void {
    this.#log.fork(epoch, fork);
    this.emit('reset', { epoch, fork });
  }

  /** @internal The events up to `head` are gone; `response` is what they made. */
  snapshot(epoch: string, head: number, response: Response | null): void {
    const missed = head > this.#log.cursor.after;
    this.#log.snapshot(epoch, head, response);
    if (missed) this.emit('reset', { epoch, fork: head + 1 });
    if (response) this.emit('response', response);
    if (this.#log.isEnded) this.#ended();
    this.#wake();
    this.session.desk.consider(this);
  }

  /** @internal */
  stateIs(state: RunState): void {
    if (this.#state && state.revision < this.#state.revision && state.epoch === this.#state.epoch) return;
    this.#state = state;
    this.#log.expect(state.epoch);
    this.emit('state', state);
    this.session.desk.consider(this);
  }

  /** @internal It was refused, or is not there any more. */
  fail(error: AntiphonError): void {
    if (!this.isWanted) return;
    this.#error = error;
    this.#stop('failed', error);
    this.emit('end', this.#log.response, error);
  }

  /** @internal */
  followedBy(run: Run): void {
    if (this.#successor) return;
    this.#successor = run;
    this.emit('successor', run);
  }

  /** @internal */
  told(event: ToolCallEvent): void {
    this.emit('toolcall', event);
  }

  /** @internal Whether more of its log is wanted. */
  get isWanted(): boolean {
    return this.#status === 'creating' || this.#status === 'following';
  }

  #named(id: string): void {
    this.#id = id;
    if (this.#status === 'creating') this.#status = 'following';
    this.#begin.resolve(id);
    this.session.named(this, id);
  }

  #ended(): void {
    if (!this.isWanted) return;
    const { response } = this.#log;
    this.#over('ended');
    if (response && hasEnded(response.status)) this.#finish.resolve(response);
    else this.#finish.reject(new ConnectionFailed('The run ended; its response is gone.', 'response_not_found', false));
    this.emit('end', response, null);
  }

  #stop(status: RunStatus, error: AntiphonError): void {
    this.#begin.reject(error);
    this.#finish.reject(error);
    this.#over(status);
  }

  #over(status: RunStatus): void {
    this.#status = status;
    this.session.over(this);
    this.#wake();
  }

  #wake(): void {
    const wakers = [...this.#wakers];
    this.#wakers.clear();
    for (const wake of wakers) wake();
  }
}
