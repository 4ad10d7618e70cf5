/** What all parts of one client share: its connection, its runs, and the commands that outlive a connection. */
import { delayMs, type Backoff } from '../core/backoff.js';
import { ConnectionFailed, toError, type AntiphonError } from '../core/errors.js';
import type { Status } from '../core/connection.js';
import type { CreateParams, Goaway, PendingCall, Response, RunState } from '../wire/index.js';
import { closedByOwner, Connector, type ConnectorOptions } from './connector.js';
import type { Tell } from './events.js';
import { START } from '../core/cursor.js';
import { callIn, type Call } from './calls.js';
import type { AnswerOptions, Commands, HeldCall } from './commands.js';
import type { Fallback } from './fallback.js';
import type { Ask, Http } from './http.js';
import { Lanes } from './lanes.js';
import { Run, type Origin } from './run.js';
import type { Frame, Socket } from './socket.js';
import type { Subscription } from './subscription.js';
import { newId, pause } from './surroundings.js';
import { Desk, type ToolCallEvent } from './desk.js';

/** Refusals after which the same command is sent again, a few times. */
const PASSING = new Set([
  'owner_unavailable',
  'rate_limited',
  'storage_unavailable',
  'server_draining',
  'identity_unavailable',
]);
const MOST_REPEATS = 5;
const MOST_EARLY = 256;
const MOST_ENDED = 64;

export class Session {
  readonly connector: Connector;
  readonly desk = new Desk(this);
  /** Runs whose log is wanted. */
  readonly wanted = new Set<Run>();
  readonly #runs = new Map<string, Run>();
  readonly #ended: Run[] = [];
  /** States of runs that are told of before their first event. */
  readonly #early = new Map<string, RunState>();
  readonly #subscriptions = new Set<Subscription<any>>();
  #lanes: Lanes | null = null;
  /** Only when it was needed; always there with the status of its name. */
  fallback: Fallback | null = null;
  #commands: Commands | null = null;

  constructor(
    readonly http: Http,
    readonly backoff: Backoff,
    options: Omit<ConnectorOptions, 'http' | 'backoff' | 'loadFallback'>,
    readonly tell: Tell,
  ) {
    this.connector = new Connector(
      { ...options, http, backoff, loadFallback: () => this.#loadFallback() },
      { onStatus: (status, problem) => this.#status(status, problem), onFrame: (frame) => this.#frame(frame) },
    );
  }

  // Runs

  /** A run that goes on already, or null. */
  known(id: string): Run | null {
    return this.#runs.get(id) ?? null;
  }

  begin(origin: Origin): Run {
    const run = new Run(this, origin);
    this.wanted.add(run);
    this.connector.connect();
    // Handlers that are registered behind the call that begins the run still count for it.
    queueMicrotask(() => {
      if (run.asked) run.asked.create = this.#complete(run.asked.create, run);
      if (run.isWanted) this.#follow(run);
    });
    return run;
  }

  /** A run that came by itself, whose log is being told already. */
  runOf(id: string): Run {
    let run = this.known(id);
    if (!run) {
      run = new Run(this, { id, from: START });
      run.hasArrived = true;
      this.wanted.add(run);
    }
    return run;
  }

  named(run: Run, id: string): void {
    this.#runs.set(id, run);
    const state = this.#early.get(id);
    this.#early.delete(id);
    if (state) queueMicrotask(() => this.onState(state));
  }

  over(run: Run): void {
    this.wanted.delete(run);
    // What is still said of it, its last state or its successor, finds it for a while.
    this.#ended.push(run);
    const old = this.#ended.length > MOST_ENDED ? this.#ended.shift() : null;
    if (old?.id && this.#runs.get(old.id) === old) this.#runs.delete(old.id);
    this.desk.consider(run);
  }

  leave(run: Run): void {
    if (run.id) this.#runs.delete(run.id);
    this.#lanes?.leave(run);
    this.fallback?.leave(run);
  }

  onRun(run: Run): void {
    this.tell('run', run);
  }

  onState(state: RunState): void {
    const run = this.known(state.response_id);
    if (run) run.stateIs(state);
    else if (this.#early.size < MOST_EARLY) this.#early.set(state.response_id, state);
    for (const one of [...this.#subscriptions]) one.stateIs(state, run);
  }

  onExhausted(): void {
    void this.connector.renew(1000);
  }

  /** The create as it is sent, over whatever it is sent: a key goes with one body only. */
  #complete(create: CreateParams, run: Run): CreateParams {
    const answers = (create.tools ?? []).some((tool) => 'name' in tool && this.desk.tool(String(tool.name), run));
    const held = answers && create.antiphon?.client_tools == null ? { client_tools: 'hold' as const } : {};
    return { ...create, antiphon: { on_disconnect: 'continue', ...create.antiphon, ...held } };
  }

  #follow(run: Run): void {
    if (this.#lanes) this.#lanes.follow(run);
    else if (this.connector.status === 'fallback') this.fallback!.follow(run);
  }

  // The connection

  /** Asked for now and with each connection, until the function that is given back is called. */
  subscribe(one: Subscription<any>): () => void {
    this.#subscriptions.add(one);
    const { connector } = this;
    connector.connect();
    if (connector.socket || connector.status === 'fallback') one.up(connector.socket);
    return () => void this.#subscriptions.delete(one);
  }

  #status(status: Status, problem: AntiphonError | null): void {
    const { socket } = this.connector;
    const isUp = status === 'open' || status === 'fallback';
    this.#lanes = socket && isUp ? new Lanes(socket, this) : null;
    this.#early.clear();
    this.fallback?.close();
    this.tell('status', status, problem);
    if (isUp) for (const run of [...this.wanted]) this.#follow(run);
    for (const one of [...this.#subscriptions]) isUp ? one.up(socket) : one.down();
    if (status !== 'closed') return;
    for (const run of [...this.wanted]) run.fail(problem ?? closedByOwner());
    for (const one of [...this.#subscriptions]) one.end(problem);
    if (problem) this.tell('error', problem);
  }

  async #loadFallback(): Promise<void> {
    const { Fallback } = await import('./fallback.js');
    this.fallback ??= new Fallback(this);
  }

  #frame(frame: Frame): void {
    if (frame.type === 'antiphon:goaway') return this.tell('goaway', frame as unknown as Goaway);
    for (const one of [...this.#subscriptions]) if (one.take(frame)) return;
    if (!this.#lanes?.take(frame) && frame.type === 'error')
      this.tell('error', toError(frame['error'], frame['status']));
  }

  /** Loads a part of this client that not everybody needs; waits for a connection first. */
  async load<Part>(part: () => Promise<Part>): Promise<Part> {
    for (let n = 0; ; n++) {
      await this.connector.ready();
      try {
        return await part();
      } catch (cause) {
        if (n === MOST_REPEATS) throw new ConnectionFailed(`A part of this client cannot be loaded: ${cause}`);
        await this.rest(n);
      }
    }
  }

  // What parts that are loaded later take from here

  readonly newId = newId;

  pause(ms: number, signal?: AbortSignal): Promise<void> {
    return pause(ms, signal);
  }

  /** Before another attempt: `waitMs` at least. */
  rest(attempt: number, waitMs = 0, signal?: AbortSignal): Promise<void> {
    return pause(Math.max(waitMs, delayMs(attempt, Math.random(), this.backoff)), signal);
  }

  // Commands

  /**
   * Carries out `attempt` with the connection as it is: again after a loss, a few times after a refusal that passes.
   * What is sent twice this way must be harmless. `ask`: of a request that belongs to this connection; when that is
   * lost, so most likely is the request, which could wait for long to find out.
   */
  async perform<T>(attempt: (socket: Socket | null, ask: Ask) => Promise<T>): Promise<T> {
    for (let n = 0; ; n++) {
      const socket = await this.connector.ready();
      try {
        return await attempt(socket, socket ? { signal: socket.gone } : {});
      } catch (error) {
        const { code, retryable, retryAfterMs = 0 } = error as AntiphonError;
        const isLost = error instanceof ConnectionFailed && retryable;
        if (!isLost && !(PASSING.has(code) && n < MOST_REPEATS)) throw error;
        await this.rest(n, retryAfterMs);
      }
    }
  }

  async cancel(id: string, reason?: string): Promise<'accepted' | 'already_terminal'> {
    const said = reason === undefined ? {} : { reason };
    return this.perform(async (socket) => {
      if (socket) return (await socket.command('antiphon:cancel', { response_id: id, ...said }))['result'];
      const { status } = (await this.http.request('POST', `/v1/responses/${id}/cancel`)) as Response;
      return status === 'cancelled' ? 'accepted' : 'already_terminal';
    });
  }

  /** Says more to a run. `known`: the steers it had before. */
  async steer(id: string, input: unknown, known: string[]): Promise<{ id: string; previous_response_id: string }> {
    return (await this.#said()).steer(id, input, known);
  }

  /** Answers a held call. */
  async respond(id: string, call: HeldCall, output: unknown, options: AnswerOptions): Promise<{ duplicate: boolean }> {
    return (await this.#said()).respond(id, call, output, options);
  }

  /** Made when something is said to a run for the first time. */
  async #said(): Promise<Commands> {
    const { Commands } = await this.load(() => import('./commands.js'));
    return (this.#commands ??= new Commands(this));
  }

  /** A held call as the whole response shows it. */
  async call(id: string, callId: string): Promise<Call | null> {
    return callIn(await this.get(`/v1/responses/${id}`), callId);
  }

  /** A request that is harmless to repeat. */
  get(path: string): Promise<any> {
    return this.perform((_, ask) => this.http.request('GET', path, ask));
  }

  // Of the desk

  get leaseMs(): number {
    return this.connector.welcome?.claim_lease_ms ?? 30_000;
  }

  isAsked({ eligible }: PendingCall): boolean {
    const { socket, welcome } = this.connector;
    return !socket || eligible.length >= 100 || eligible.includes(welcome!.connection_id);
  }

  toolsChanged(): void {
    this.connector.greet();
  }

  toldOfCall(run: Run, event: ToolCallEvent): void {
    run.told(event);
    this.tell('toolcall', event);
  }
}
