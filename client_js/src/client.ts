/** `new Antiphon(...)`: one client of one server. */
import { DEFAULT_BACKOFF, type Backoff } from './core/backoff.js';
import { LIVENESS, type Status } from './core/connection.js';
import { START } from './core/cursor.js';
import type { AntiphonError } from './core/errors.js';
import { Conversation } from './shell/conversation.js';
import { Emitter } from './shell/emitter.js';
import type { AntiphonEvents } from './shell/events.js';
import { Feed, type FeedOptions } from './shell/feed.js';
import { Http, type Auth } from './shell/http.js';
import type { Run } from './shell/run.js';
import { Session } from './shell/session.js';
import { isPage, newId, type SocketConstructor } from './shell/surroundings.js';
import type { ToolHandler, ToolOptions } from './shell/desk.js';
import type { CreateParams, DeclaredTool, Welcome } from './wire/index.js';

export const PROTOCOL_VERSION = 1;

export interface AntiphonOptions {
  /** Where the server is, such as `https://agents.example`. On a page: its own origin by default. */
  url?: string;
  auth?: Auth;
  /** What this program calls itself. */
  name?: string;
  version?: string;
  /** Stays the same over reconnects, so that claims and answers stay its own; random by default. */
  instanceId?: string;
  /** Tools this client can answer beside those with a handler. */
  tools?: DeclaredTool[];
  labels?: Record<string, string>;
  /** null: HTTP only. By default the one of the platform, if it has one. */
  WebSocket?: SocketConstructor | null;
  fetch?: typeof globalThis.fetch;
  backoff?: Partial<Backoff>;
  /** Silence after which the server is asked whether it is there. */
  heartbeatMs?: number;
}

export class Antiphon extends Emitter<AntiphonEvents> {
  readonly url: string;
  readonly instanceId: string;
  readonly #session: Session;
  readonly #feeds = new Map<string, Feed>();

  constructor(options: AntiphonOptions = {}) {
    super();
    this.url = new URL(options.url ?? (isPage ? location.origin : 'http://127.0.0.1:8787')).href.replace(/\/+$/, '');
    this.instanceId = options.instanceId ?? newId();
    const fetcher = options.fetch ?? globalThis.fetch.bind(globalThis);
    const { name = 'antiphon-js', version, tools = [], labels } = options;
    const client = { name, ...(version === undefined ? {} : { version }), instance_id: this.instanceId };
    const hello = () => {
      const named = new Set(tools.map((tool) => tool.name));
      const handled = session.desk.names.filter((one) => !named.has(one)).map((one) => ({ name: one }));
      return { protocol: PROTOCOL_VERSION, client, tools: [...tools, ...handled], ...(labels && { labels }) };
    };
    const session = new Session(
      new Http(this.url, this.instanceId, options.auth, fetcher),
      { ...DEFAULT_BACKOFF, ...options.backoff },
      {
        create:
          options.WebSocket === undefined
            ? ((globalThis.WebSocket as SocketConstructor | undefined) ?? null)
            : options.WebSocket,
        idleMs: options.heartbeatMs ?? LIVENESS.idleMs,
        hello,
      },
      (name, ...values) => this.emit(name, ...values),
    );
    this.#session = session;
  }

  get status(): Status {
    return this.#session.connector.status;
  }
  /** Why the connection is closed, if the server did that. */
  get problem(): AntiphonError | null {
    return this.#session.connector.problem;
  }
  /** What the server said about itself and this connection. */
  get welcome(): Welcome | null {
    return this.#session.connector.welcome;
  }

  /** Resolves when there is a connection; whatever needs one makes one by itself. Throws what the server says. */
  async connect(): Promise<void> {
    this.#session.connector.connect();
    await this.#session.connector.ready();
  }

  /** Does not wait for the next attempt. */
  retryNow(): void {
    this.#session.connector.wake();
  }

  /** Reads nothing any more. Runs go on. */
  close(): void {
    for (const run of [...this.#session.wanted]) run.detach();
    for (const feed of [...this.#feeds.values()]) feed.close();
    this.#session.connector.close();
  }

  /** Begins a run. `signal` cancels it. `key`: two creates with one idempotency key are one run, also after a restart. */
  run(create: CreateParams, { signal, key = newId() }: { signal?: AbortSignal; key?: string } = {}): Run {
    const run = this.#session.begin({ create, key });
    const cancel = () => void run.cancel().catch(() => {});
    if (signal?.aborted) cancel();
    else signal?.addEventListener('abort', cancel, { once: true });
    return run;
  }

  /**
   * Reads a run. `after`: the last number that is known already, with its `epoch`; the response is then whole only when
   * the run has ended. `now`: events still to come. The same id gives the same object while the run goes on.
   */
  attach(
    responseId: string,
    { after = 'start', epoch }: { after?: number | 'start' | 'now'; epoch?: string } = {},
  ): Run {
    const known = this.#session.known(responseId);
    if (known?.isWanted) {
      known.hasArrived = false;
      return known;
    }
    const from = after === 'now' ? after : after === 'start' ? START : { epoch: epoch ?? null, after };
    return this.#session.begin({ id: responseId, from });
  }

  /** A conversation; without an id the one its first run begins. */
  conversation(id?: string | null): Conversation {
    return new Conversation(this.#session, id ?? null, (create) => this.run(create));
  }

  /** All runs of a tenant, live. A client has one feed of a tenant: the one before is closed. */
  feed(options: FeedOptions = {}): Feed {
    const key = options.tenant ?? '';
    this.#feeds.get(key)?.close();
    const feed: Feed = new Feed(
      this.#session,
      options,
      (tenant) => this.#feeds.has(tenant),
      () => this.#feeds.get(key) === feed && this.#feeds.delete(key),
    );
    this.#feeds.set(key, feed);
    return feed;
  }

  /** Answers the held calls of a tool, of every run this client reads. Gives the function that ends it. */
  onToolCall(name: string, handler: ToolHandler, options: ToolOptions = {}): () => void {
    return this.#session.desk.register(name, handler, options, null);
  }

  /** A request of one's own: authorised, JSON, typed errors. */
  request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<any> {
    return this.#session.http.request(method, path, { body, ...(signal && { signal }) });
  }
}
