/**
 * What a person does with the page: ask, answer, stop, try again, change the conversation. Holds the
 * conversations in memory and stores them.
 */
import {
  addTurn,
  askedText,
  isBusy,
  newConversation,
  openCalls,
  parentTurn,
  resultOf,
  resultsByCall,
  transcript,
} from './conversation.js';
import { isAhead, isOver, newTurn } from './turn.js';

/**
 * @typedef {import('./types.js').Conversation} Conversation
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Input} Input
 */

const SAVE_EVERY_MS = 300;
const NOT_ANSWERED = JSON.stringify({ error: 'The person went on without a result of this call.' });

export class Chat {
  /** @type {Map<string, Conversation>} */ #loaded = new Map();
  /** @type {Map<Turn, Conversation>} */ #dirty = new Map();
  #saving = false;

  /**
   * @param {import('./storage.js').Storage} storage
   * @param {import('./runs.js').Runs} runs
   * @param {{
   *   me: string, now: () => number, newId: () => string, later: (run: () => void, ms: number) => void,
   *   onChange: () => void, onList: () => void,
   * }} owner
   */
  constructor(storage, runs, owner) {
    this.storage = storage;
    this.runs = runs;
    this.owner = owner;
    /** @type {Conversation} */
    this.current = newConversation(owner.newId(), '', owner.now());
  }

  /** @param {string} id @returns {boolean} whether there is such a conversation */
  open(id) {
    const conversation = this.#load(id);
    if (!conversation) return false;
    this.current = conversation;
    this.owner.onList();
    this.owner.onChange();
    return true;
  }

  /** @param {string} model */
  startNew(model) {
    this.current = newConversation(this.owner.newId(), model, this.owner.now());
    this.owner.onList();
    this.owner.onChange();
  }

  /** @param {string} id */
  remove(id) {
    this.#unload(id);
    this.storage.remove(id);
    if (id === this.current.id) this.startNew(this.current.model);
    else this.owner.onList();
  }

  /** @param {string} text @param {Input[]} [context] */
  send(text, context) {
    const parent = parentTurn(this.current);
    const results = resultsByCall(this.current);
    const unanswered = parent ? openCalls(parent) : [];
    this.#begin(this.current, {
      input: [{ type: 'message', role: 'user', content: text }],
      context: context ?? unanswered.map((call) => resultOf(call, results.get(String(call.call_id)) ?? NOT_ANSWERED)),
      model: this.current.model,
      previousResponseId: parent?.responseId ?? null,
    });
  }

  stop() {
    const running = this.current.turns.find((turn) => !isOver(turn));
    if (running) this.runs.stop(running);
  }

  /** @param {Turn} turn */
  retry(turn) {
    turn.replaced = true;
    this.#save(turn, this.current);
    const { input, context, previousResponseId } = turn;
    this.#begin(this.current, { input, context, previousResponseId, model: this.current.model });
  }

  /** The server lost the history: what was said goes along as input. @param {Turn} turn */
  continueElsewhere(turn) {
    const context = transcript(this.current);
    this.startNew(this.current.model);
    this.send(askedText(turn) || 'Please go on.', context);
  }

  /** @param {Turn} turn @param {boolean} important */
  onTurn(turn, important) {
    const conversation = this.#home(turn);
    if (!conversation) return;
    this.#save(turn, conversation);
    if (important) this.flush();
    if (conversation === this.current) this.owner.onChange();
    if (isOver(turn)) this.owner.onList();
  }

  /** @param {import('./storage.js').Change} change what another tab stored */
  onStored(change) {
    const conversation = this.#loaded.get(change.id);
    if (change.kind === 'turn' && change.turn && conversation) this.#adopt(change.turn, conversation);
    if (change.kind === 'head' && !change.head) this.#unload(change.id);
    if (change.kind === 'head' && !change.head && change.id === this.current.id) this.startNew(this.current.model);
    else if (change.kind === 'head') this.owner.onList();
  }

  /** @param {string} id */
  isRunning(id) {
    const conversation = this.#loaded.get(id);
    return conversation !== undefined && isBusy(conversation);
  }

  /** Writes what waits to be written: the page may be gone in a moment. */
  flush() {
    for (const [turn, conversation] of this.#dirty) this.storage.saveTurn(conversation.id, turn);
    this.#dirty.clear();
  }

  /** @param {Conversation} conversation @param {Pick<Turn, 'input' | 'context' | 'model' | 'previousResponseId'>} what */
  #begin(conversation, what) {
    const key = this.owner.newId();
    const createdAt = Math.max(this.owner.now(), (conversation.turns.at(-1)?.createdAt ?? 0) + 1);
    const turn = newTurn({ key, owner: this.owner.me, createdAt, ...what });
    this.#loaded.set(conversation.id, conversation);
    addTurn(conversation, turn);
    this.storage.saveTurn(conversation.id, turn);
    this.storage.saveHead(conversation);
    this.runs.follow(turn);
    this.owner.onList();
    this.owner.onChange();
  }

  /** @param {Turn} turn */
  #home(turn) {
    return [...this.#loaded.values()].find(({ turns }) => turns.includes(turn));
  }

  /** @param {Turn} theirs @param {Conversation} conversation */
  #adopt(theirs, conversation) {
    const ours = conversation.turns.find(({ key }) => key === theirs.key);
    if (!ours) addTurn(conversation, theirs);
    else if (isAhead(theirs, ours)) Object.assign(ours, theirs, this.#heardHere(ours));
    const turn = ours ?? theirs;
    if (isOver(turn)) this.runs.forget(turn);
    // Its own tab sends the create; here it is followed as soon as it has a run.
    else if (turn.responseId) this.runs.follow(turn);
    if (conversation === this.current) this.owner.onChange();
  }

  /** What the server tells each tab by itself is not taken from another one. @param {Turn} turn */
  #heardHere(turn) {
    return this.runs.isFollowing(turn) ? { waiting: turn.waiting, pending: turn.pending } : {};
  }

  /** @param {string} id */
  #load(id) {
    const known = this.#loaded.get(id);
    const conversation = known ?? this.storage.load(id);
    if (!conversation || known) return conversation;
    this.#loaded.set(id, conversation);
    for (const turn of conversation.turns) this.runs.follow(turn);
    return conversation;
  }

  /** @param {string} id */
  #unload(id) {
    const conversation = this.#loaded.get(id);
    for (const turn of conversation?.turns ?? []) {
      this.runs.forget(turn);
      this.#dirty.delete(turn);
    }
    this.#loaded.delete(id);
  }

  /** @param {Turn} turn @param {Conversation} conversation */
  #save(turn, conversation) {
    this.#dirty.set(turn, conversation);
    if (this.#saving) return;
    this.#saving = true;
    this.owner.later(() => {
      this.#saving = false;
      this.flush();
    }, SAVE_EVERY_MS);
  }
}
