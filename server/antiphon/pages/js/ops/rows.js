/**
 * The runs that the feeds tell of, and what is measured of them. States decide; progress only fills the time between
 * two of them.
 *
 * Tokens are counted when a call of the model is over. Until then its events stand for them, of which each mostly
 * carries one.
 */
import { Growth } from './series.js';
import { ENDED } from './words.js';

/**
 * @typedef {import('./types.js').Row} Row
 * @typedef {import('./types.js').RunState} RunState
 * @typedef {import('./types.js').Progress} Progress
 */

/** Progress is told once a second while there is any. */
const SILENT_AFTER_S = 2.5;

export class Rows {
  /** @type {Map<string, Row>} */
  byId = new Map();
  /** Events of all runs since the page began to watch them. */
  events = 0;
  /** Output tokens of all runs since then, about. */
  tokens = 0;
  /** Ends with a fault since then, by code. @type {Map<string, number>} */
  failures = new Map();

  /**
   * @param {RunState} run @param {number} now Unix seconds
   * @param {boolean} isFromBefore it went on before it was watched: its state is as old as its last change
   */
  upsert(run, now, isFromBefore = false) {
    const known = this.byId.get(run.response_id);
    // A run that was short may be told of for the first time when it is over.
    const hasEnded = known ? !ENDED.has(known.run.state) : !isFromBefore;
    if (run.state === 'failed' && hasEnded) this.#fail(run.terminal?.code ?? 'unknown');
    const row = known ?? this.#add(run, now, isFromBefore);
    row.run = run;
    this.#advance(row, run.head, run.usage?.output_tokens ?? 0);
    if (ENDED.has(run.state)) row.tokensPerS = 0;
  }

  /** @param {string} id */
  remove(id) {
    this.byId.delete(id);
  }

  /** @param {readonly Progress[]} moved @param {number} now Unix seconds */
  progress(moved, now) {
    for (const { response_id: id, head, output_tokens: counted } of moved) {
      const row = this.byId.get(id);
      if (!row || ENDED.has(row.run.state)) continue;
      this.#advance(row, head, counted ?? 0);
      row.tokensPerS = row.growth.at(now, row.outputTokens) ?? row.tokensPerS;
      row.measuredAt = now;
    }
  }

  /** What has not moved for a while has no speed. @param {number} now Unix seconds */
  rest(now) {
    for (const row of this.byId.values()) {
      if (now - row.measuredAt <= SILENT_AFTER_S) continue;
      row.tokensPerS = 0;
      row.growth.forget();
    }
  }

  /** @param {RunState} run @param {number} now @param {boolean} isFromBefore @returns {Row} */
  #add(run, now, isFromBefore) {
    const counted = run.usage?.output_tokens ?? 0;
    /** @type {Row} */
    const row = {
      id: run.response_id,
      run,
      head: run.head,
      isKnown: !isFromBefore,
      counted,
      // Of a run that has counted tokens already nobody knows how many of its events came since.
      countedHead: counted ? run.head : 0,
      outputTokens: 0,
      tokensPerS: 0,
      measuredAt: now,
      growth: new Growth(),
    };
    row.outputTokens = tokensOf(row);
    this.byId.set(row.id, row);
    return row;
  }

  /** @param {Row} row @param {number} head @param {number} counted */
  #advance(row, head, counted) {
    const events = Math.max(0, head - row.head);
    row.head = Math.max(row.head, head);
    if (counted > row.counted) {
      row.counted = counted;
      row.countedHead = row.head;
    }
    const before = row.outputTokens;
    row.outputTokens = tokensOf(row);
    // What came before it was watched did not come now.
    if (row.isKnown) {
      this.events += events;
      this.tokens += Math.max(0, row.outputTokens - before);
    }
    row.isKnown ||= events > 0;
  }

  /** @param {string} code */
  #fail(code) {
    this.failures.set(code, (this.failures.get(code) ?? 0) + 1);
  }
}

/** Whether events stand for tokens now. @param {Row} row */
const isUncounted = (row) => !ENDED.has(row.run.state) && row.head > row.countedHead;

/** @param {Row} row */
export const isEstimated = (row) => row.run.usage_estimated === true || isUncounted(row);

/** @param {Row} row */
const tokensOf = (row) => row.counted + (isUncounted(row) ? row.head - row.countedHead : 0);
