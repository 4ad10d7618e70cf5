/**
 * What stands in for a socket: creates, logs and feeds as SSE bodies (PROTOCOL 11), and polls where nobody tells.
 * Loaded when no socket can be had; of what is loaded before only types are imported, as in tools.ts.
 */
import { attachQuery, parseEventId } from '../core/event_id.js';
import type { AntiphonError } from '../core/errors.js';
import type { FeedCursor, FeedFrame } from '../core/feed.js';
import { SseReader, type SseMessage } from '../core/sse.js';
import type { LogEvent, Response, RunState } from '../wire/index.js';
import type { FeedOptions } from './feed.js';
import type { Ask, Http } from './http.js';
import type { Run } from './run.js';

/** How often the runs of a conversation are asked for. */
const POLL_MS = 3_000;
/** The server says something every 15 s (PROTOCOL 11.3.3): a stream that is silent for longer has no other end. */
const SILENCE_LIMIT_MS = 40_000;

/** What it needs of the session. */
export interface FallbackSession {
  readonly http: Http;
  onState(state: RunState): void;
  pause(ms: number, signal?: AbortSignal): Promise<void>;
  rest(attempt: number, waitMs?: number, signal?: AbortSignal): Promise<void>;
}

export class Fallback {
  readonly #stops = new Map<Run, AbortController>();

  constructor(private readonly session: FallbackSession) {}

  /** Brings the run's log: from its cursor on, or by creating it. */
  follow(run: Run): void {
    this.leave(run);
    const stop = new AbortController();
    this.#stops.set(run, stop);
    void this.#follow(run, stop.signal);
  }

  leave(run: Run): void {
    this.#stops.get(run)?.abort();
    this.#stops.delete(run);
  }

  /** Lets go of all; nobody is told. */
  close(): void {
    for (const stop of this.#stops.values()) stop.abort();
    this.#stops.clear();
  }

  async #follow(run: Run, stop: AbortSignal): Promise<void> {
    for (let attempt = 0; run.isWanted && !stop.aborted;) {
      const before = run.cursor.after;
      let waitMs = 0;
      try {
        await this.#read(run, stop);
      } catch (error) {
        if (stop.aborted) return;
        waitMs = this.#failed(run, error as AntiphonError);
      }
      if (stop.aborted || !run.isWanted) break;
      attempt = run.cursor.after > before ? 0 : attempt + 1;
      await this.session.rest(attempt, waitMs, stop);
    }
    if (!stop.aborted) this.#stops.delete(run);
  }

  async #read(run: Run, stop: AbortSignal): Promise<void> {
    if (run.isFromNow) run.attached('', await this.#head(run, stop));
    const { create, key } = run.asked ?? {};
    const messages =
      run.id === null
        ? this.#messages('POST', '/v1/responses', {
            body: { ...create, stream: true },
            headers: { 'Idempotency-Key': key! },
            signal: stop,
          })
        : this.#messages('GET', `/v1/responses/${run.id}?stream=true${attachQuery(run.cursor)}`, { signal: stop });
    let isWhole = false;
    for await (const { id, data } of messages) {
      if (stop.aborted) return;
      if (data === '[DONE]') isWhole = true;
      else if (!this.#event(run, id, JSON.parse(data) as LogEvent)) return;
    }
    // Nothing was left to send: how it ended is asked for.
    if (isWhole && run.isWanted) await this.#ended(run, stop);
  }

  /** False: one before it is missing, the log is asked for again. */
  #event(run: Run, id: string, event: LogEvent): boolean {
    const isFirst = run.id === null;
    if (!run.take(event)) return false;
    const place = parseEventId(id);
    if (place) run.enterEpoch(place.epoch);
    const done = event.type === 'response.output_item.done';
    // Nobody pushes the state here. It is asked for when the run may wait for a client, and at its ends.
    if (isFirst || done || !run.isWanted) void this.#refresh(run);
    return true;
  }

  /** Asks how the run stands; also of one that has just ended here, whatever becomes of this stream. */
  async #refresh(run: Run): Promise<void> {
    await this.#head(run).catch(() => {}); // The next event asks again.
  }

  async #head(run: Run, signal?: AbortSignal): Promise<number> {
    const ask = signal ? { signal } : {};
    const { run: state } = (await this.session.http.request('GET', `/v1/runs/${run.id}`, ask)) as { run: RunState };
    this.session.onState(state);
    return state.head;
  }

  async #ended(run: Run, stop: AbortSignal): Promise<void> {
    const response = (await this.session.http.request('GET', `/v1/responses/${run.id}`, { signal: stop })) as Response;
    run.snapshot(run.cursor.epoch ?? '', run.cursor.after, response);
  }

  /** How long to wait before the next attempt; the run may have failed with it. */
  #failed(run: Run, error: AntiphonError): number {
    const { epoch, head, response } = error.detail as { epoch?: string; head?: number; response?: Response };
    if (error.other) run.forked(error.other.epoch, error.other.fork);
    else if (error.code === 'cursor_expired' && head !== undefined) run.snapshot(epoch ?? '', head, response ?? null);
    else if (!error.retryable) run.fail(error);
    return error.retryAfterMs ?? 0;
  }

  /** The frames of a feed from a cursor on, until the body ends. */
  async feed(options: FeedOptions, from: FeedCursor | null, stop: AbortSignal, take: (frame: FeedFrame) => void) {
    const headers: Record<string, string> = from ? { 'Last-Event-ID': `${from.epoch}.${from.rev}` } : {};
    const path = `/v1/runs/feed?${feedQuery(options)}`;
    for await (const { data } of this.#messages('GET', path, { headers, signal: stop })) {
      if (stop.aborted) return;
      take(JSON.parse(data) as FeedFrame);
    }
  }

  /** Asks for the runs of a conversation again and again: nobody tells of those that begin. Oldest first. */
  async conversation(id: string, stop: AbortSignal, take: (runs: RunState[], isFirst: boolean) => void) {
    for (let isFirst = true; !stop.aborted; isFirst = false) {
      const path = `/v1/conversations/${id}/runs?limit=20`;
      const { data } = (await this.session.http.request('GET', path, { signal: stop })) as { data: RunState[] };
      take(data.reverse(), isFirst);
      await this.session.pause(POLL_MS, stop);
    }
  }

  /** Messages of an SSE body, in order. Ends when the body does; throws AntiphonError like a request. */
  async *#messages(method: string, path: string, ask: Ask & { signal: AbortSignal }): AsyncGenerator<SseMessage> {
    if (ask.signal.aborted) return;
    const stop = new AbortController();
    const end = () => stop.abort();
    ask.signal.addEventListener('abort', end, { signal: stop.signal });
    const decoder = new TextDecoder();
    const lines = new SseReader();
    let silence = setTimeout(end, SILENCE_LIMIT_MS);
    try {
      const reader = (await this.session.http.send(method, path, ask, stop.signal)).body!.getReader();
      for (;;) {
        const bytes = await pieceOf(reader, stop.signal);
        clearTimeout(silence);
        if (!bytes) return;
        yield* lines.take(decoder.decode(bytes, { stream: true }));
        silence = setTimeout(end, SILENCE_LIMIT_MS);
      }
    } finally {
      clearTimeout(silence);
      end();
    }
  }
}

/**
 * What comes next of a body; nothing at its end. Broken off is an end, too: whoever reads knows by what came whether it
 * is the whole. Some platforms hang where a body is aborted.
 */
function pieceOf(reader: ReadableStreamDefaultReader<Uint8Array>, stop: AbortSignal): Promise<Uint8Array | undefined> {
  return new Promise((resolve) => {
    const end = () => resolve(undefined);
    stop.addEventListener('abort', end);
    if (stop.aborted) end();
    reader.read().then(({ value }) => resolve(value), end);
  });
}

/** The fields of a subscription as a query. */
function feedQuery({ filter, tenant, mode }: FeedOptions): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(filter ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) if (one != null) found.append(key, String(one));
  }
  if (tenant !== undefined) found.set('tenant', tenant);
  if (mode) found.set('mode', mode);
  return String(found);
}
