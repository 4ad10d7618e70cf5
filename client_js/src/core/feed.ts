/** What one feed knows: its rows and how far it is (PROTOCOL 10.10). Times come in from outside. */
import type { FeedBookmark, FeedDelta, FeedItem, FeedReset, RunState } from '../wire/index.js';

export type FeedFrame = FeedItem | FeedBookmark | FeedDelta | FeedReset;

/** A position in a feed: everything up to and with `rev` was told. */
export interface FeedCursor {
  readonly epoch: string;
  readonly rev: number;
}

/** What a frame changed. `hasGap`: something was missed, subscribe again from the cursor. */
export interface FeedChange {
  readonly upserted: readonly RunState[];
  readonly removed: readonly string[];
  readonly hasGap?: true;
}

/** Rows of ended runs stay this long, then they go in silence. */
export const ENDED_STAY_S = 60;

const NOTHING: FeedChange = { upserted: [], removed: [] };
const ENDED = new Set(['completed', 'incomplete', 'failed', 'cancelled']);

/** Whether a run in this state has ended. */
export function isOver({ state }: RunState): boolean {
  return ENDED.has(state);
}

export class FeedState {
  readonly rows = new Map<string, RunState>();
  /** Where the feed is; null before the first bookmark and after a reset. */
  cursor: FeedCursor | null = null;
  /** Rows of a snapshot that is being told; null while deltas come. */
  #told: Map<string, RunState> | null = new Map();
  /** How far the server's clock is ahead of ours at least: deltas take their time, those after a pause long. */
  #skewS = 0;

  /** A subscription begins: from the cursor if there is one, else with a snapshot. */
  begin(): FeedCursor | null {
    this.#told = this.cursor ? null : new Map();
    return this.cursor;
  }

  /** One more frame. `nowS`: our clock, Unix seconds. */
  take(frame: FeedFrame, nowS: number): FeedChange {
    switch (frame.type) {
      case 'antiphon:feed.item':
        this.#told?.set(frame.run.response_id, frame.run);
        return NOTHING;
      case 'antiphon:feed.bookmark':
        return this.#bookmark(frame);
      case 'antiphon:feed.reset':
        this.cursor = null;
        this.#told = new Map();
        return NOTHING;
      case 'antiphon:feed.delta':
        this.#skewS = Math.max(this.#skewS || -Infinity, frame.at - nowS);
        return this.#delta(frame);
    }
  }

  /** Ended rows whose time is over leave. */
  prune(nowS: number): FeedChange {
    const removed: string[] = [];
    for (const [id, run] of this.rows) {
      if (isOver(run) && run.updated_at + ENDED_STAY_S < nowS + this.#skewS) removed.push(id);
    }
    for (const id of removed) this.rows.delete(id);
    return { upserted: [], removed };
  }

  #bookmark({ epoch, rev, initial }: FeedBookmark): FeedChange {
    if (initial) {
      this.cursor = { epoch, rev };
      return this.#snapshot();
    }
    if (this.cursor?.epoch === epoch && this.cursor.rev === rev) return NOTHING;
    // A filtered feed passes over what is not for it: only deltas say whether something is missing.
    if (this.cursor?.epoch === epoch && rev > this.cursor.rev) {
      this.cursor = { epoch, rev };
      return NOTHING;
    }
    return { ...NOTHING, hasGap: true };
  }

  #snapshot(): FeedChange {
    const told = this.#told;
    this.#told = null;
    if (!told) return NOTHING;
    const removed = [...this.rows.keys()].filter((id) => !told.has(id));
    this.rows.clear();
    for (const [id, run] of told) this.rows.set(id, run);
    return { upserted: [...told.values()], removed };
  }

  #delta(delta: FeedDelta): FeedChange {
    const { cursor } = this;
    if (!cursor || delta.epoch !== cursor.epoch || delta.prev > cursor.rev) return { ...NOTHING, hasGap: true };
    if (delta.rev <= cursor.rev) return NOTHING;
    this.cursor = { epoch: cursor.epoch, rev: delta.rev };
    const id = delta.run.response_id;
    if (delta.op === 'remove') return this.rows.delete(id) ? { upserted: [], removed: [id] } : NOTHING;
    this.rows.set(id, delta.run);
    return { upserted: [delta.run], removed: [] };
  }
}
