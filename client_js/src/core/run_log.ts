/** What one reader has of one run's log: each number once, in order, and the response they make (PROTOCOL 6). */
import type { LogEvent, Response } from '../wire/index.js';
import { accumulate, hasEnded, isTerminal } from './accumulate.js';
import { place, START, type Cursor } from './cursor.js';

export class RunLog {
  /** Everything that was taken, in order. After a snapshot its first number is not 0. */
  readonly events: LogEvent[] = [];
  response: Response | null = null;
  isEnded = false;
  #cursor: Cursor = START;
  /** The epoch of the next event, if that is another one. */
  #coming: string | null = null;
  /** After a fork events up to here are read again, to make the response anew; they are not told twice. */
  #toldUpTo = -1;

  get cursor(): Cursor {
    return this.#cursor;
  }

  /** Begins in the middle: what comes before `cursor` is not asked for. */
  startAt(cursor: Cursor): void {
    this.#cursor = cursor;
  }

  /** `told`: new to the reader. `taken`: made part of the response only. Else nothing was done. */
  take(event: LogEvent): 'told' | 'taken' | 'seen' | 'gap' {
    const where = this.isEnded ? 'seen' : place(this.#cursor, event.sequence_number);
    if (where !== 'next') return where;
    this.#cursor = { epoch: this.#coming ?? this.#cursor.epoch, after: event.sequence_number };
    this.#coming = null;
    this.response = accumulate(this.response, event);
    if (isTerminal(event)) this.isEnded = true;
    if (event.sequence_number <= this.#toldUpTo) return 'taken';
    this.events.push(event);
    return 'told';
  }

  /** The epoch in which the numbers from here on are counted. */
  enter(epoch: string): void {
    this.#cursor = { ...this.#cursor, epoch };
    this.#coming = null;
  }

  /**
   * The run is in this epoch now. Whether that is so of what was read shows with the next event: a reader past the
   * fork gets none (PROTOCOL 6.4.6).
   */
  expect(epoch: string): void {
    if (this.#cursor.epoch === null) this.enter(epoch);
    else this.#coming = epoch;
  }

  /** Events up to `head` are old news: they make the response, and are not told. */
  hush(head: number): void {
    this.#toldUpTo = Math.max(this.#toldUpTo, head);
  }

  /** The log is another one from the number `fork` on: it is read again from its start. */
  fork(epoch: string, fork: number): void {
    const kept = this.events.findIndex((event) => event.sequence_number >= fork);
    if (kept >= 0) this.events.length = kept;
    this.#toldUpTo = Math.min(this.#cursor.after, fork - 1);
    this.#cursor = { epoch, after: -1 };
    this.#coming = null;
    this.response = null;
    this.isEnded = false;
  }

  /** The events up to `head` cannot be had any more; this is what they made. */
  snapshot(epoch: string, head: number, response: Response | null): void {
    this.#cursor = { epoch, after: head };
    this.#coming = null;
    this.#toldUpTo = Math.min(this.#toldUpTo, head);
    if (response) this.response = response;
    if (hasEnded(response?.status)) this.isEnded = true;
  }
}
