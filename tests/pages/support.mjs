/** Turns of a conversation, and stand-ins for the client that brings them. */
import { newTurn, takeInput } from '../../server/antiphon/pages/js/chat/turns.js';

let turns = 0;

export const asking = (content) => [{ type: 'message', role: 'user', content }];

/** @param {object} [fields] */
export function aTurn(fields = {}) {
  turns += 1;
  const turn = newTurn({ key: `key${turns}`, createdAt: turns });
  takeInput(turn, fields.input ?? asking('Hello?'));
  return Object.assign(turn, fields);
}

/** A text of the model. */
export const message = (text, id = 'msg_1') => ({
  id,
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text }],
});

/** @param {string} id @param {string} status @param {object[]} [output] @param {object} [more] */
export const aResponse = (id, status, output = [], more = {}) => ({
  id,
  status,
  output,
  model: 'antiphon/demo',
  previous_response_id: null,
  error: null,
  incomplete_details: null,
  ...more,
});

/** @param {string} id @param {object} [more] */
export const aState = (id, more = {}) => ({
  response_id: id,
  conversation_id: 'conv_1',
  principal: 'user:local',
  state: 'running',
  created_at: 1,
  pending_calls: [],
  resolved_calls: [],
  participants: [],
  terminal: null,
  ...more,
});

class Teller {
  #heard = new Map();

  on(name, hear) {
    this.#heard.set(name, [...(this.#heard.get(name) ?? []), hear]);
  }

  tell(name, ...given) {
    for (const hear of this.#heard.get(name) ?? []) hear(...given);
  }
}

export class FakeRun extends Teller {
  id = null;
  response = null;
  state = null;
  answers = [];

  constructor() {
    super();
    this.created = new Promise((resolve, reject) => Object.assign(this, { take: resolve, refuse: reject }));
    this.created.catch(() => {});
  }

  /** The server has taken it. */
  async begins(id, state = {}) {
    this.id = id;
    this.take(id);
    this.shows(aResponse(id, 'in_progress'));
    this.is({ ...aState(id), ...state });
    await settled();
  }

  shows(response) {
    this.response = response;
    this.tell('response', response);
  }

  is(state) {
    this.state = state;
    this.tell('state', state);
  }

  async respond(callId, output) {
    this.answers.push([callId, output]);
    await this.answer?.();
  }

  cancel = async () => 'accepted';
  steer = async () => ({});
  detach() {}
}

export class FakeConversation extends Teller {
  isClosed = false;
  pages = [{ data: [], has_more: false }];
  asked = [];

  async history(query) {
    this.asked.push(query);
    const page = this.pages.length > 1 ? this.pages.shift() : this.pages[0];
    if (page instanceof Error) throw page;
    return page;
  }

  presence = async () => {};
  close() {
    this.isClosed = true;
  }
}

export class FakeClient {
  /** What was asked, with its key. */
  creates = [];
  runs = [];
  conversations = [];
  /** What input_items says, by run. */
  inputs = new Map();

  run(create, { key }) {
    this.creates.push({ ...create, key });
    this.runs.push(new FakeRun());
    return this.runs.at(-1);
  }

  conversation(id) {
    const conversation = Object.assign(new FakeConversation(), { id });
    if (this.pages) conversation.pages = this.pages;
    this.conversations.push(conversation);
    return conversation;
  }

  async request(_method, path) {
    return { data: this.inputs.get(/responses\/([^/]+)/.exec(path)[1]) ?? [] };
  }
}

/** Everything that was promised has happened. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));
