/**
 * One conversation as this tab follows it: its history from the server, the runs that go on in it, whoever began
 * them, and what this tab has asked and the server has not confirmed.
 */
import { Branches } from './branches.js';
import { isNamed } from './heads.js';
import { TOOLS } from './tools.js';
import {
  describe,
  isOver,
  newTurn,
  openCalls,
  parentOf,
  recall,
  refuse,
  resultOf,
  resultsByCall,
  sendable,
  show,
  takeInput,
  titleFrom,
} from './turns.js';

/**
 * @typedef {import('../../vendor/antiphon.js').Antiphon} Client
 * @typedef {import('../../vendor/antiphon.js').Conversation} Conversation
 * @typedef {import('./types.js').Run} Run
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./types.js').WireResponse} WireResponse
 * @typedef {import('./types.js').Head} Head
 * @typedef {import('./types.js').Unsent} Unsent
 * @typedef {{
 *   now: () => number, newId: () => string, onChange: (thread: Thread, turn: Turn | null) => void,
 *   onHead: (thread: Thread, head: Head) => void, onNotice: (message: string) => void,
 *   places: import('./surroundings.js').Places,
 * }} Owner
 */

/** How long a question waits for a person who is away from the screen. */
const HOLD_S = 3600;
const PAGE_TURNS = 20;
/** What is read at once to find where branches part; the rest comes when somebody asks for older turns. */
const MOST_PAGES = 5;
/** A run is told of a moment before its row, and with it its input, can be read. */
const INPUT_TRIES = 4;
const INPUT_PAUSE_MS = 250;
const NOT_ANSWERED = JSON.stringify({ error: 'The person went on without a result of this call.' });

export class Thread {
  /** @type {Map<string, Turn>} */ #turns = new Map();
  /** @type {Map<string, Run>} */ #runs = new Map();
  /** @type {Conversation | null} */ #conversation = null;
  /** @type {Branches} */ #branches;
  #isClosed = false;
  /** The history was read, as far as it was asked for. */
  isLoaded = false;
  /** There is more history than was read. */
  hasMore = false;
  /** Why there is no history. @type {{code: string, message: string} | null} */
  problem = null;
  /** @type {import('./types.js').Participant[]} */
  participants = [];

  /** @param {Client} client @param {Head} head @param {import('./shelf.js').Shelf} shelf @param {Owner} owner */
  constructor(client, head, shelf, owner) {
    this.client = client;
    this.head = head;
    this.shelf = shelf;
    this.owner = owner;
    this.#branches = new Branches(() => this.#turns.values(), {
      get: () => owner.places.get(this.head.id),
      keep: (runId) => owner.places.keep(this.head.id, runId),
    });
    for (const unsent of shelf.unsent(head.id)) this.#take(unsent);
    if (isNamed(head.id)) this.#join();
    else this.isLoaded = true;
  }

  /** What is shown, oldest first: of several branches the one that this tab looks at. */
  get turns() {
    return this.#branches.shown;
  }

  /** Turns that are shown and were not the only ones to what they answer, with all that were. */
  get forks() {
    return this.#branches.forks;
  }

  /** Something goes on in what is shown. */
  get isBusy() {
    return this.turns.some((turn) => !isOver(turn));
  }

  /** Something goes on, also in another branch. */
  get isRunning() {
    return [...this.#turns.values()].some((turn) => !isOver(turn));
  }

  /** Another branch is shown, and continued by what is sent next. @param {Turn} turn the one that it begins with */
  goTo(turn) {
    this.#branches.show(turn);
    this.#changed(null);
  }

  /** @param {Turn} turn */
  runOf(turn) {
    return this.#runs.get(turn.key) ?? null;
  }

  /** @param {string} text @param {Item[]} [context] sent before it, and not shown */
  send(text, context) {
    const { turns } = this;
    const parent = parentOf(turns);
    const results = resultsByCall(turns);
    const outputs = (parent ? openCalls(parent) : []).map((call) =>
      resultOf(call, results.get(String(call.call_id)) ?? NOT_ANSWERED),
    );
    this.head = { ...this.head, title: this.head.title || titleFrom(text), updatedAt: this.owner.now() };
    this.shelf.save(this.head);
    this.#begin({
      input: [...(context ?? outputs), { type: 'message', role: 'user', content: text }],
      previousResponseId: parent?.runId ?? null,
    });
    this.owner.onHead(this, this.head);
  }

  /** Something more for what is going on. @param {string} text @returns {Promise<boolean>} whether it was taken */
  async steer(text) {
    const turn = this.turns.findLast((one) => !isOver(one));
    const run = turn && this.runOf(turn);
    if (!turn || !run) return false;
    turn.said = [...turn.said, text];
    this.#changed(turn);
    try {
      await run.steer(text);
      return true;
    } catch (error) {
      turn.said = turn.said.filter((said) => said !== text);
      this.#failed(error);
      this.#changed(turn);
      return false;
    }
  }

  stop() {
    for (const turn of this.turns) {
      const run = this.runOf(turn);
      if (isOver(turn) || turn.stopping || !run) continue;
      turn.stopping = true;
      this.#changed(turn);
      run.cancel('stopped by the person').catch((error) => {
        if (isOver(turn)) return;
        turn.stopping = false;
        this.#failed(error);
        this.#changed(turn);
      });
    }
  }

  /** @param {Turn} turn */
  retry(turn) {
    if (!turn.runId) this.#drop(turn);
    this.#begin({ input: sendable(turn.input), previousResponseId: turn.previousResponseId ?? null });
  }

  /** Older turns, if there are any. */
  async loadMore() {
    const oldest = [...this.#turns.values()].filter(({ runId }) => runId).sort((a, b) => a.createdAt - b.createdAt)[0];
    if (oldest?.runId) await this.#load(oldest.runId);
  }

  /** @param {'watching' | 'typing' | 'executing'} state @param {string} [label] */
  presence(state, label) {
    // Nobody misses it where nothing goes on.
    if (this.isRunning) this.#conversation?.presence(state, label).catch(() => {});
  }

  /**
   * The server has given the conversation its id; another tab may have heard of it first.
   * @param {string} id @param {Head} [head]
   */
  named(id, head) {
    if (!id || isNamed(this.head.id) || this.#isClosed) return;
    this.head = head ?? this.shelf.rename(this.head, id);
    this.#join();
    this.owner.onHead(this, this.head);
  }

  close() {
    this.#isClosed = true;
    this.#conversation?.close();
    for (const run of this.#runs.values()) run.detach();
  }

  /** @param {Pick<Unsent, 'input' | 'previousResponseId'>} what */
  #begin(what) {
    const newest = Math.max(0, ...[...this.#turns.values()].map(({ createdAt }) => createdAt));
    const createdAt = Math.max(this.owner.now(), newest + 1);
    const unsent = { key: this.owner.newId(), conversation: this.head.id, createdAt, model: this.head.model, ...what };
    this.shelf.keep({ ...unsent, problem: null });
    this.#take({ ...unsent, problem: null });
  }

  /**
   * Shows what was asked, and asks it, also if that is the second time: the key keeps it one run.
   * @param {Unsent} unsent
   */
  #take(unsent) {
    const { key, createdAt, model, previousResponseId, input, problem } = unsent;
    const turn = newTurn({ key, createdAt, model, previousResponseId });
    takeInput(turn, input);
    this.#turns.set(key, turn);
    if (problem) refuse(turn, problem);
    else {
      this.#create(turn, unsent);
      this.#branches.show(turn);
    }
    this.#changed(turn);
  }

  /** @param {Turn} turn @param {Unsent} unsent */
  #create(turn, unsent) {
    const create = /** @type {import('../../vendor/antiphon.js').CreateParams} */ ({
      model: turn.model,
      store: true,
      input: turn.input,
      tools: TOOLS,
      antiphon: { client_tools: 'hold', deadline_s: HOLD_S },
      ...(turn.previousResponseId && { previous_response_id: turn.previousResponseId }),
    });
    const run = this.client.run(create, { key: turn.key });
    this.#follow(turn, run);
    run.created.then(
      (id) => this.#confirmed(turn, id),
      (error) => {
        // Not an answer of the server: it is asked again when the page is opened the next time.
        if (error.code === 'closed') return;
        const problem = { code: error.code, message: error.message };
        this.shelf.keep({ ...unsent, conversation: this.head.id, problem });
      },
    );
  }

  /** @param {Turn} turn @param {string} id */
  #confirmed(turn, id) {
    this.shelf.drop(turn.key);
    turn.runId = id;
    // After a reload the run may have come through its conversation first.
    for (const other of this.#turns.values()) if (other !== turn && other.runId === id) this.#turns.delete(other.key);
    this.#changed(turn);
  }

  /** @param {Turn} turn */
  #drop(turn) {
    this.shelf.drop(turn.key);
    this.#turns.delete(turn.key);
  }

  #join() {
    const conversation = this.client.conversation(this.head.id);
    this.#conversation = conversation;
    conversation.on('run', (run) => this.#adopt(run));
    conversation.on('participants', (participants) => {
      this.participants = participants;
      this.#changed(null);
    });
    // Also after a lost connection: something may have begun and ended meanwhile.
    conversation.on('ready', () => void this.#load());
    conversation.on('error', (error) => this.#unreadable(error));
    void this.#load();
  }

  /** @param {string} [before] */
  async #load(before) {
    try {
      for (let pages = 1, from = before; ; pages += 1) {
        const page = await this.#conversation?.history({ limit: PAGE_TURNS, before: from });
        if (!page || this.#isClosed) return;
        for (const past of page.data) this.#recall(past);
        if (from || !this.isLoaded) this.hasMore = page.has_more;
        if (!page.has_more || pages === MOST_PAGES || this.#branches.isWhole) break;
        from = page.data.at(-1)?.state.response_id;
      }
      this.isLoaded = true;
      this.problem = null;
      this.#nameByHistory();
    } catch (error) {
      this.#unreadable(error);
    }
    this.#changed(null);
  }

  /** Opened by a link, it has no title yet. */
  #nameByHistory() {
    const first = this.turns.find(({ asked }) => asked);
    if (this.head.title || !first) return;
    this.head = { ...this.head, title: titleFrom(first.asked) };
    this.shelf.save(this.head);
    this.owner.onHead(this, this.head);
  }

  /** @param {{state: any, input: any[], response: any}} past */
  #recall(past) {
    const id = past.state.response_id;
    const known = this.#byRun(id);
    const turn = known ?? newTurn({ key: id, createdAt: past.state.created_at * 1000, previousResponseId: undefined });
    // What is followed here is newer than what was asked for a moment ago.
    if (known && this.#runs.has(known.key)) {
      if (!known.input.length) takeInput(known, past.input);
      return;
    }
    recall(turn, past);
    this.#turns.set(turn.key, turn);
  }

  /** A run that goes on in the conversation, whoever began it. @param {Run} run */
  #adopt(run) {
    if (this.#isClosed || [...this.#runs.values()].includes(run)) return;
    const id = String(run.id);
    const known = this.#byRun(id);
    if (known && (isOver(known) || this.#runs.has(known.key))) return;
    const unplaced = { createdAt: this.owner.now(), author: '', previousResponseId: undefined };
    const turn = known ?? newTurn({ key: id, runId: id, status: 'running', ...unplaced });
    this.#turns.set(turn.key, turn);
    this.#follow(turn, run);
    if (!turn.input.length) void this.#readInput(turn);
    this.#changed(turn);
  }

  /** @param {Turn} turn */
  async #readInput(turn) {
    for (let tries = 0; tries < INPUT_TRIES && !turn.input.length && !this.#isClosed; tries += 1) {
      try {
        const { data } = await this.client.request(
          'GET',
          `/v1/responses/${turn.runId}/input_items?order=asc&limit=100`,
        );
        takeInput(turn, data);
      } catch {
        await new Promise((resolve) => setTimeout(resolve, INPUT_PAUSE_MS * (tries + 1)));
      }
    }
    this.#changed(turn);
  }

  /** @param {Turn} turn @param {Run} run */
  #follow(turn, run) {
    this.#runs.set(turn.key, run);
    const changed = () => {
      if (!this.#isClosed) this.#changed(turn);
    };
    run.on('response', (response) => {
      show(turn, /** @type {WireResponse} */ (response));
      changed();
    });
    run.on('state', (state) => {
      describe(turn, state);
      this.named(state.conversation_id ?? '');
      changed();
    });
    run.on('end', (response, error) => {
      if (error && error.code !== 'closed') refuse(turn, error);
      changed();
    });
    run.on('successor', (next) => this.#adopt(next));
    if (run.response) show(turn, /** @type {WireResponse} */ (run.response));
    if (run.state) {
      describe(turn, run.state);
      this.named(run.state.conversation_id ?? '');
    }
  }

  /** @param {Turn | null} turn null: something else */
  #changed(turn) {
    if (this.isLoaded) this.#branches.settle();
    this.owner.onChange(this, turn);
  }

  /** @param {string} id */
  #byRun(id) {
    return [...this.#turns.values()].find(({ runId }) => runId === id);
  }

  /** @param {any} error */
  #unreadable(error) {
    if (this.#isClosed || error.retryable || error.code === 'closed') return;
    if (error.code === 'conversation_not_found' && this.#turns.size) return;
    this.isLoaded = true;
    this.problem = { code: error.code, message: error.message };
    this.#changed(null);
  }

  /** @param {any} error */
  #failed(error) {
    if (error.code !== 'closed') this.owner.onNotice(error.message);
  }
}
