/** The run that is open: its log from the start, its state, its timeline, and where a replay of it stands. */
import { accumulate } from '../../vendor/antiphon.js';
import { Chain } from './chain.js';
import { Replay } from './replay.js';
import { ENDED } from './words.js';

/**
 * @typedef {import('../../vendor/antiphon.js').Antiphon} Antiphon
 * @typedef {import('../../vendor/antiphon.js').AntiphonError} AntiphonError
 * @typedef {import('./types.js').RunState} RunState
 * @typedef {import('./types.js').Moment} Moment
 * @typedef {import('./types.js').Row} Row
 */

/** The timeline is asked for again when the run changed, but not more often. */
const ASK_EVERY_S = 1;

export class OpenRun {
  /** @type {any[]} */
  #events = [];
  /** @type {Replay | null} */
  replay = null;
  /** What the replay has made so far, and of how many events. @type {{response: any, count: number}} */
  #replayed = { response: null, count: 0 };
  /** @type {RunState | null} */
  #run = null;
  /** @type {Moment[]} */
  timeline = [];
  /** The feed tells of a run until a minute after its end. */
  hasTimeline = true;
  /** @type {AntiphonError | null} */
  problem = null;
  /** What this page has said to it. @type {import('./steers.js').Said[]} */
  said = [];
  isClosed = false;
  #askedAt = -Infinity;
  #askedRevision = -1;

  /**
   * @param {Antiphon} client @param {import('./api.js').Api} api @param {string} id
   * @param {() => void} onChange
   * @param {import('./clock.js').Clock} clock
   */
  constructor(client, api, id, onChange, clock) {
    this.id = id;
    this.api = api;
    this.clock = clock;
    this.onChange = onChange;
    this.chain = new Chain(api, id, onChange);
    this.attached = client.attach(id, { after: 'start' });
    this.attached.on('event', (event) => this.#heard(event));
    this.attached.on('state', () => onChange());
    this.attached.on('reset', ({ fork }) => this.#reset(fork));
    this.attached.on('end', (_, error) => {
      this.problem = error;
      onChange();
    });
    // What fails is told by 'end'.
    this.attached.done.catch(() => undefined);
  }

  /** @param {RunState | undefined} told by the feed */
  update(told) {
    for (const run of [told, this.attached.state]) {
      if (run && (!this.#run || run.revision >= this.#run.revision)) this.#run = run;
    }
    void this.#ask();
  }

  /** @returns {RunState | null} */
  get run() {
    return this.#run;
  }

  get events() {
    return this.#events.length;
  }

  /** Events that are to be seen now: all, or those that a replay has come to. */
  get position() {
    return this.replay ? this.replay.position(this.clock.now()) : this.#events.length;
  }

  /** @returns {readonly any[]} items to be seen now */
  output() {
    if (!this.replay) return this.attached.response?.output ?? [];
    const position = Math.min(this.position, this.#events.length);
    for (; this.#replayed.count < position; this.#replayed.count += 1) {
      this.#replayed.response = accumulate(this.#replayed.response, this.#events[this.#replayed.count]);
    }
    return this.#replayed.response?.output ?? [];
  }

  /** @returns {readonly any[]} items of the whole run so far */
  get wholeOutput() {
    return this.attached.response?.output ?? [];
  }

  /** Seconds the run has taken so far. */
  get lasted() {
    const run = this.#run;
    if (!run) return 0;
    return (ENDED.has(run.state) ? run.updated_at : this.clock.now()) - run.created_at;
  }

  /** @param {number | null} speed from the start; null: back to what is now */
  play(speed) {
    this.#replayed = { response: null, count: 0 };
    this.replay = speed === null ? null : new Replay(this.#events.length, this.lasted, speed, this.clock.now());
    this.onChange();
  }

  /** @returns {boolean} whether there is more of the replay to come */
  get isPlaying() {
    return this.replay !== null && this.position < this.replay.events;
  }

  /** The run that this one continues. @returns {string | null} */
  get before() {
    return this.attached.response?.previous_response_id ?? null;
  }

  /** Looks for runs that continue this one. @param {Iterable<Row>} rows of the table */
  lookAround(rows) {
    if (this.#run && ENDED.has(this.#run.state)) void this.chain.look(this.#run, rows);
  }

  /** Says more to the run; what becomes of it is among what was said. @param {string} text @returns {Promise<string>} why not */
  async steer(text) {
    const said = { text, id: '', refusal: '' };
    this.said.push(said);
    this.onChange();
    try {
      said.id = (await this.attached.steer(text)).id;
    } catch (error) {
      said.refusal = error instanceof Error ? error.message : String(error);
    }
    this.onChange();
    return said.refusal;
  }

  close() {
    this.isClosed = true;
    // The client goes on by itself with the run that follows a steered one.
    for (let run = /** @type {typeof this.attached | null} */ (this.attached); run; run = run.successor) run.detach();
  }

  /** @param {any} event */
  #heard(event) {
    this.#events.push(event);
    this.onChange();
  }

  /** The log changed from this number on; what follows is said again. @param {number} fork */
  #reset(fork) {
    this.#events = this.#events.filter(({ sequence_number: number }) => number < fork);
    this.replay = null;
    this.onChange();
  }

  async #ask() {
    const revision = this.#run?.revision ?? 0;
    if (revision === this.#askedRevision || this.clock.now() - this.#askedAt < ASK_EVERY_S) return;
    this.#askedAt = this.clock.now();
    this.#askedRevision = revision;
    try {
      const { run, timeline } = await this.api.run(this.id);
      this.timeline = timeline;
      if (!this.#run || run.revision > this.#run.revision) this.#run = run;
      this.hasTimeline = true;
    } catch {
      this.#askedRevision = -1;
      this.hasTimeline = this.timeline.length > 0;
    }
    this.onChange();
  }
}
