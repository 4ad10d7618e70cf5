/** All runs of a tenant, live (PROTOCOL 10.10). */
import type { AntiphonError } from '../core/errors.js';
import { FeedState, type FeedChange, type FeedCursor, type FeedFrame } from '../core/feed.js';
import type { FeedDelta, FeedFilter, FeedProgress, RunState } from '../wire/index.js';
import type { Session } from './session.js';
import type { Frame, Socket } from './socket.js';
import { Subscription } from './subscription.js';
import { nextFrame } from './surroundings.js';

export interface FeedOptions {
  readonly filter?: FeedFilter;
  /** Another one than one's own; for admins. */
  readonly tenant?: string;
  /** `latest`: changes of a run that come close together are told as one. */
  readonly mode?: 'all' | 'latest';
}

/** `stale`: the connection is gone and the rows are old. `reset`: they are being read anew. */
export type FeedStatus = 'connecting' | 'live' | 'stale' | 'reset' | 'closed';

export interface FeedEvents {
  /** What changed since the last time, once a picture at most. */
  change: [change: { upserted: RunState[]; removed: string[] }];
  event: [delta: FeedDelta];
  status: [status: FeedStatus];
  progress: [runs: FeedProgress['runs']];
  error: [error: AntiphonError];
}

const PRUNE_EVERY_MS = 5_000;

export class Feed extends Subscription<FeedEvents> implements AsyncIterable<FeedDelta> {
  readonly #state = new FeedState();
  #status: FeedStatus = 'connecting';
  #upserted = new Map<string, RunState>();
  #removed = new Set<string>();
  #isDue = false;
  #tenant: string | null;
  #pruning: ReturnType<typeof setInterval>;
  #end: () => void;
  #problem: AntiphonError | null = null;
  /** When the last frame came, in ms since 1970; 0 before the first. */
  updatedAt = 0;
  /** @internal Made by `client.feed`. */
  constructor(
    private readonly session: Session,
    private readonly options: FeedOptions,
    /** Whether another feed of this client is that of the tenant. */
    private readonly isOthers: (tenant: string) => boolean,
    private readonly closed: () => void,
  ) {
    super(session);
    this.#tenant = options.tenant ?? null;
    this.#pruning = setInterval(() => this.#changed(this.#state.prune(Date.now() / 1000)), PRUNE_EVERY_MS);
    this.#end = session.subscribe(this);
  }

  get rows(): ReadonlyMap<string, RunState> {
    return this.#state.rows;
  }
  get cursor(): FeedCursor | null {
    return this.#state.cursor;
  }
  get status(): FeedStatus {
    return this.#status;
  }

  /**
   * Every delta from now on, until the feed is closed; throws what refused it. What is not taken is kept: who may
   * fall behind reads `rows` instead.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<FeedDelta, void, void> {
    const deltas: FeedDelta[] = [];
    let wake = () => {};
    const off = [this.on('event', (delta) => (deltas.push(delta), wake())), this.on('status', () => wake())];
    try {
      for (;;) {
        if (deltas.length) yield deltas.shift()!;
        else if (this.#status === 'closed') {
          if (this.#problem) throw this.#problem;
          return;
        } else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      for (const one of off) one();
    }
  }

  close(): void {
    if (this.#status === 'closed') return;
    clearInterval(this.#pruning);
    this.#end();
    this.socket?.command('antiphon:feed.unsubscribe', this.#of()).catch(() => {}); // Gone with its connection otherwise.
    super.down();
    this.#enter('closed');
    this.closed();
  }

  #of(): { tenant?: string } {
    return this.options.tenant === undefined ? {} : { tenant: this.options.tenant };
  }

  /** @internal */
  override down(): void {
    super.down();
    if (this.#status === 'live' || this.#status === 'reset') this.#enter('stale');
  }

  protected override async ask(socket: Socket | null): Promise<void> {
    const from = this.#state.begin();
    if (!socket) return this.#stream(from);
    const { filter, mode } = this.options;
    const fields = { ...this.#of(), ...(filter && { filter }), ...(mode && { mode }), ...(from && { from }) };
    await socket.command('antiphon:feed.subscribe', fields, (bookmark) =>
      this.#frame(bookmark as unknown as FeedFrame),
    );
  }

  protected override refused(problem: AntiphonError | null): void {
    this.#problem = problem;
    this.close();
  }

  /** @internal */
  override take(frame: Frame): boolean {
    if (!frame.type.startsWith('antiphon:feed.')) return false;
    if (this.#tenant === null && !this.isOthers(frame['tenant'])) this.#tenant = frame['tenant'];
    if (frame['tenant'] !== this.#tenant) return false;
    this.#frame(frame as unknown as FeedFrame | FeedProgress);
    return true;
  }

  #frame(frame: FeedFrame | FeedProgress): void {
    this.updatedAt = Date.now();
    if (frame.type === 'antiphon:feed.progress') return this.emit('progress', frame.runs);
    const change = this.#state.take(frame, Date.now() / 1000);
    if (change.hasGap) return this.up(this.socket); // It is asked for again, from where we are.
    if (frame.type === 'antiphon:feed.reset') this.#enter('reset');
    if (frame.type === 'antiphon:feed.bookmark' && frame.initial) this.#enter('live');
    this.#changed(change);
    if (frame.type === 'antiphon:feed.delta') this.emit('event', frame);
  }

  /** Over HTTP: the same frames as an SSE body. */
  async #stream(from: FeedCursor | null): Promise<void> {
    const { signal } = this.stop;
    await this.session.fallback!.feed(this.options, from, signal, (frame) => this.#frame(frame));
    if (signal.aborted) return;
    if (this.#status === 'live') this.#enter('stale');
  }

  #changed({ upserted, removed }: FeedChange): void {
    for (const run of upserted) {
      this.#upserted.set(run.response_id, run);
      this.#removed.delete(run.response_id);
    }
    for (const id of removed) {
      this.#removed.add(id);
      this.#upserted.delete(id);
    }
    if (this.#isDue || this.#upserted.size + this.#removed.size === 0) return;
    this.#isDue = true;
    nextFrame(() => this.#flush());
  }

  #flush(): void {
    this.#isDue = false;
    const change = { upserted: [...this.#upserted.values()], removed: [...this.#removed] };
    this.#upserted = new Map();
    this.#removed = new Set();
    this.emit('change', change);
  }

  #enter(status: FeedStatus): void {
    if (this.#status === status || this.#status === 'closed') return;
    this.#status = status;
    this.emit('status', status);
  }
}
