/** One conversation: its runs as they come, who is there, and what was said before (PROTOCOL 10.8). */
import { isOver } from '../core/feed.js';
import { START } from '../core/cursor.js';
import { ConnectionFailed, type AntiphonError } from '../core/errors.js';
import type { CreateParams, Item, Participant, Response, RunState } from '../wire/index.js';
import type { Run } from './run.js';
import type { Session } from './session.js';
import { ConnectionLost, type Socket } from './socket.js';
import { Subscription } from './subscription.js';

export type Presence = 'watching' | 'typing' | 'executing';

/** One turn of a conversation: what was asked, and what came out. */
export interface Turn {
  readonly state: RunState;
  readonly input: Item[];
  /** null if it cannot be had: it was not stored, or was deleted. */
  readonly response: Response | null;
}

export interface ConversationEvents {
  /** A run that goes on or begins, by whomever; each once. */
  run: [run: Run];
  state: [state: RunState];
  participants: [participants: Participant[]];
  /** Its runs are known, and those to come will be told. */
  ready: [];
  error: [error: AntiphonError];
}

export class Conversation extends Subscription<ConversationEvents> {
  #id: string | null;
  readonly #runs = new Map<string, RunState>();
  readonly #told = new WeakSet<Run>();
  /** Runs that go on. */
  readonly #came = new Set<Run>();
  #participants: Participant[] = [];
  /** Where to go on if nothing here can be continued. */
  #before: string | null = null;
  #presence: { state: Presence; label?: string } | null = null;
  #isClosed = false;
  readonly #end: () => void;
  /** @internal Made by `client.conversation`. */
  constructor(
    private readonly session: Session,
    id: string | null,
    private readonly begin: (create: CreateParams) => Run,
  ) {
    super(session);
    this.#id = id;
    this.#end = session.subscribe(this);
  }

  /** null until its first run has begun. */
  get id(): string | null {
    return this.#id;
  }
  /** States of the runs that were seen, in the order they were. */
  get runs(): ReadonlyMap<string, RunState> {
    return this.#runs;
  }
  /** Who is there, each connection once. Empty where a run has more than 100. */
  get participants(): readonly Participant[] {
    return this.#participants;
  }

  /** Continues the newest run that has ended. `previous_response_id` of the create goes first. */
  run(create: CreateParams): Run {
    const parent = create.previous_response_id ?? this.#newest();
    const run = this.begin(parent === null ? create : { ...create, previous_response_id: parent });
    this.#watch(run);
    return run;
  }

  /** Tells the others what the person or program here does. */
  async presence(state: Presence, label?: string): Promise<void> {
    this.#presence = label === undefined ? { state } : { state, label };
    await this.#showPresence();
  }

  /** What was said before, newest turn first. `before`: the id of a response. */
  async history({ limit = 20, before }: { limit?: number; before?: string } = {}): Promise<{
    data: Turn[];
    has_more: boolean;
  }> {
    if (!this.#id) return { data: [], has_more: false };
    const query = `limit=${limit}${before === undefined ? '' : `&before=${encodeURIComponent(before)}`}`;
    const { data, has_more } = (await this.session.get(`/v1/conversations/${this.#id}/runs?${query}`)) as {
      data: RunState[];
      has_more: boolean;
    };
    for (const state of data) this.#know(state);
    return { data: await Promise.all(data.map((state) => this.#turn(state))), has_more };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#end();
    for (const run of this.#came) if (run.hasArrived) run.detach();
    if (this.#id) this.socket?.command('antiphon:detach', { conversation_id: this.#id }).catch(() => {}); // Gone with it.
    this.down();
  }

  async #turn(state: RunState): Promise<Turn> {
    const path = `/v1/responses/${state.response_id}`;
    const orNull = (error: unknown) => {
      if (error instanceof ConnectionFailed) throw error;
      return null;
    };
    const [response, input] = await Promise.all([
      this.session.get(path).catch(orNull),
      this.#input(path).catch(orNull),
    ]);
    return { state, input: input ?? [], response };
  }

  async #input(path: string): Promise<Item[]> {
    const items: Item[] = [];
    for (let after = ''; ;) {
      const page = await this.session.get(`${path}/input_items?order=asc&limit=100${after}`);
      items.push(...page.data);
      if (!page.has_more) return items;
      after = `&after=${encodeURIComponent(page.last_id)}`;
    }
  }

  /** A failed run cannot be continued: what it continued can. */
  async #goBack(id: string): Promise<void> {
    const response = (await this.session.get(`/v1/responses/${id}`).catch(() => null)) as Response | null;
    this.#before = response?.previous_response_id ?? null;
  }

  #newest(): string | null {
    const ended = [...this.#runs.values()].filter((state) => isOver(state) && state.state !== 'failed');
    return (
      ended.reduce<RunState | null>((a, b) => (a && a.created_at > b.created_at ? a : b), null)?.response_id ??
      this.#before
    );
  }

  protected override async ask(socket: Socket | null): Promise<void> {
    if (!this.#id || this.#isClosed) return this.stop.abort();
    if (!socket)
      return this.session.fallback!.conversation(this.#id, this.stop.signal, (runs, isFirst) =>
        this.#polled(runs, isFirst),
      );
    await socket.command('antiphon:attach', { conversation_id: this.#id }, (reply) =>
      this.#attached(reply['runs'] as RunState[]),
    );
  }

  #attached(runs: RunState[]): void {
    for (const state of runs) this.#know(state);
    const failed = this.#newest() === null && runs.find((state) => state.state === 'failed');
    if (failed) void this.#goBack(failed.response_id).then(() => this.emit('ready'));
    else this.emit('ready');
    if (this.#presence && this.#presence.state !== 'watching') this.#showPresence().catch(() => {});
  }

  /** The runs as they are now; whoever is not over or was not there before is told of. */
  #polled(runs: RunState[], isFirst: boolean): void {
    for (const state of runs) {
      const { response_id: id } = state;
      const isNew = !isFirst && !this.#runs.has(id);
      this.#know(state);
      if (isNew || !isOver(state)) this.#tell(this.session.known(id) ?? this.session.begin({ id, from: START }));
    }
    if (isFirst) this.emit('ready');
  }

  async #showPresence(): Promise<void> {
    if (!this.socket || !this.#id) return;
    await this.socket
      .command('antiphon:presence', { conversation_id: this.#id, ...this.#presence })
      .catch((error: AntiphonError) => {
        if (!(error instanceof ConnectionLost)) throw error;
      });
  }

  /** The first run says which conversation this is. */
  #watch(run: Run): void {
    if (this.#id !== null) return;
    const off = run.on('state', ({ conversation_id: id }) => {
      off();
      if (this.#id !== null || id == null || this.#isClosed) return;
      this.#id = id;
      this.#tell(run);
      if (this.socket || this.session.connector.status === 'fallback') this.up(this.socket);
    });
  }

  #tell(run: Run): void {
    if (this.#told.has(run) || this.#isClosed) return;
    this.#told.add(run);
    this.#came.add(run);
    run.on('end', () => this.#came.delete(run));
    this.emit('run', run);
  }

  /** @internal */
  override stateIs(state: RunState, run: Run | null): void {
    if (this.#id === null || state.conversation_id !== this.#id) return;
    this.#know(state);
    if (run) this.#tell(run);
  }

  #know(state: RunState): void {
    const known = this.#runs.get(state.response_id);
    if (known && known.revision > state.revision && known.epoch === state.epoch) return;
    this.#runs.set(state.response_id, state);
    this.emit('state', state);
    this.#meet();
  }

  #meet(): void {
    const here = new Map<string, Participant>();
    for (const state of this.#runs.values()) {
      if (isOver(state)) continue;
      for (const one of state.participants ?? []) if ('connection' in one) here.set(one.connection, one);
    }
    const participants = [...here.values()];
    if (JSON.stringify(participants) === JSON.stringify(this.#participants)) return;
    this.#participants = participants;
    this.emit('participants', participants);
  }
}
