/**
 * Stands in for `vendor/antiphon.js` in a measured page: a feed with so many live runs, of which so many change in
 * each frame. What the server and the client cost is measured elsewhere; this is about the page.
 * `globalThis.LOAD = {rows, changes}` is set before the page loads.
 */
const { rows: ROWS, changes: CHANGES } = globalThis.LOAD;

const STATES = ['running', 'running', 'running', 'running', 'waiting_for_tool', 'queued'];
const AGENTS = ['reviewer', 'planner', 'support', null];
const MODELS = ['qwen3:8b', 'llama-3.3-70b-instruct', 'antiphon/demo'];
const TOOLS = ['search', 'run_tests', 'apply_patch', null];

let seed = 42;
/** The same numbers in every measurement. */
function random() {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
}
const one = (list) => list[Math.floor(random() * list.length)];

function makeRun(number, now) {
  const state = one(STATES);
  const name = one(TOOLS) ?? 'ask_person';
  const id = `resp_${String(number).padStart(32, '0')}`;
  const pending = {
    call_id: `call_${number}`,
    name,
    kind: 'function',
    eligible: [],
    claim: null,
    deadline: now + 60 + 600 * random(),
  };
  return {
    response_id: id,
    conversation_id: `conv_${number}`,
    tenant: 'default',
    labels: {},
    visibility: 'tenant',
    epoch: 'e',
    revision: 1,
    stalled: false,
    degraded: false,
    state,
    agent: one(AGENTS),
    agent_source: null,
    model: one(MODELS),
    upstream: 'local',
    origin: 'websocket',
    principal: `user:${number % 40}`,
    created_at: now - 900 * random(),
    started_at: now,
    updated_at: now,
    step: 1 + Math.floor(4 * random()),
    current_tool: state === 'waiting_for_tool' ? name : one(TOOLS),
    head: Math.floor(500 * random()),
    pending_calls: state === 'waiting_for_tool' ? [pending] : [],
    open_calls: [],
    resolved_calls: [],
    participants: [],
    steers: [],
    usage: null,
    cost: random() / 100,
    terminal: null,
  };
}

class Emitter {
  #heard = new Map();
  on(name, listener) {
    this.#heard.set(name, [...(this.#heard.get(name) ?? []), listener]);
    return () => undefined;
  }
  emit(name, ...given) {
    for (const listener of this.#heard.get(name) ?? []) listener(...given);
  }
}

class Feed extends Emitter {
  rows = new Map();
  status = 'connecting';
  updatedAt = Date.now();
  #next = 0;

  constructor() {
    super();
    setTimeout(() => this.#begin(), 0);
  }

  #begin() {
    for (let count = 0; count < ROWS; count += 1) this.#add();
    this.emit('change', { upserted: [...this.rows.values()], removed: [] });
    this.status = 'live';
    this.emit('status', 'live');
    const change = () => {
      this.#change();
      requestAnimationFrame(change);
    };
    requestAnimationFrame(change);
    setInterval(() => this.#progress(), 1_000);
  }

  #add() {
    const run = makeRun(this.#next++, Date.now() / 1_000);
    this.rows.set(run.response_id, run);
    return run;
  }

  /** Some runs change their state, one ends and another begins. */
  #change() {
    const upserted = [];
    const all = [...this.rows.values()];
    for (let count = 0; count < CHANGES; count += 1) {
      const old = one(all);
      const run = {
        ...old,
        revision: old.revision + 1,
        step: old.step + 1,
        current_tool: one(TOOLS),
        head: old.head + 3,
        updated_at: Date.now() / 1_000,
      };
      this.rows.set(run.response_id, run);
      upserted.push(run);
    }
    const [oldest] = this.rows.keys();
    this.rows.delete(oldest);
    upserted.push(this.#add());
    this.emit('change', { upserted: upserted.filter(({ response_id: id }) => id !== oldest), removed: [oldest] });
  }

  #progress() {
    const moved = [...this.rows.values()].filter(({ state }) => state === 'running');
    const runs = moved.map(({ response_id: id, head }) => ({
      response_id: id,
      head: head + 20,
      output_tokens: head + 20,
    }));
    this.emit('progress', runs);
  }

  close() {}
}

export class AntiphonError extends Error {}

export const accumulate = (response) => response;

export class Antiphon extends Emitter {
  status = 'open';
  problem = null;
  feed = () => new Feed();
  close() {}
  retryNow() {}

  async request(method, path) {
    if (path === '/v1/me') return { object: 'principal', id: 'user:local', tenant: 'default', role: 'viewer' };
    throw new AntiphonError(`nothing at ${path}`);
  }
}
