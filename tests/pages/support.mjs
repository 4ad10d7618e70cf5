/** Small recordings of runs, and stand-ins for the browser's clock and socket. */
import { newTurn } from '../../server/antiphon/pages/js/turn.js';

let turns = 0;

/** @param {object} [fields] */
export function aTurn(fields = {}) {
  turns += 1;
  const start = {
    key: `key${turns}`,
    owner: 'me',
    createdAt: turns,
    model: 'antiphon/demo',
    previousResponseId: null,
    input: [{ type: 'message', role: 'user', content: 'Hello?' }],
  };
  return Object.assign(newTurn(start), fields);
}

/** A response as it comes in a terminal event. */
export const aResponse = (id, status, output = [], more = {}) => ({
  id,
  status,
  output,
  error: null,
  incomplete_details: null,
  ...more,
});

/** Numbers a list of events from 0. */
export const numbered = (events) => events.map((event, index) => ({ ...event, sequence_number: index }));

/** A text answer in so many deltas, with its terminal event. */
export function textRun(id, words) {
  const at = { output_index: 0, item_id: 'msg_1', content_index: 0 };
  const item = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: words.join('') }],
  };
  return numbered([
    { type: 'response.created', response: aResponse(id, 'in_progress') },
    { type: 'response.in_progress', response: aResponse(id, 'in_progress') },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...at, part: { type: 'output_text', text: '' } },
    ...words.map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
    { type: 'response.output_text.done', ...at, text: words.join('') },
    { type: 'response.content_part.done', ...at, part: item.content[0] },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: aResponse(id, 'completed', [item]) },
  ]);
}

/** An answer that ends with a call which a client has to answer. */
export function callRun(id, callId, name = 'get_local_time', given = '{}') {
  const call = {
    id: `fc_${callId}`,
    type: 'function_call',
    call_id: callId,
    name,
    arguments: given,
    status: 'completed',
  };
  return numbered([
    { type: 'response.created', response: aResponse(id, 'in_progress') },
    { type: 'response.output_item.added', output_index: 0, item: { ...call, arguments: '', status: 'in_progress' } },
    { type: 'response.function_call_arguments.delta', output_index: 0, item_id: call.id, delta: given },
    { type: 'response.function_call_arguments.done', output_index: 0, item_id: call.id, arguments: given },
    { type: 'response.output_item.done', output_index: 0, item: call },
    { type: 'response.completed', response: aResponse(id, 'completed', [call]) },
  ]);
}

/** The same call held: its output and an answer follow in the same run. */
export function heldRun(id, callId, { name, given, output, words = [] } = {}) {
  const call = callRun(id, callId, name, given).slice(0, -1);
  const item = { id: `fco_${callId}`, type: 'function_call_output', call_id: callId, output, status: 'completed' };
  const rest = textRun(id, words).slice(2);
  return numbered([
    ...call,
    { type: 'response.output_item.added', output_index: 1, item },
    { type: 'response.output_item.done', output_index: 1, item },
    ...rest.map((event) => (event.output_index === undefined ? event : { ...event, output_index: 2 })),
  ]);
}

/** The state of a run that waits for these calls, asking these connections. */
export const waitingFor = (id, callIds, eligible = ['conn_me'], more = {}) => ({
  type: 'antiphon:run',
  state: {
    response_id: id,
    state: 'waiting_for_tool',
    pending_calls: callIds.map((callId) => ({ call_id: callId, name: 'x', kind: 'function', eligible, deadline: 3600 })),
    ...more,
  },
});

/** A clock that only moves when told. */
export class Clock {
  time = 0;
  #timers = [];

  now = () => this.time;

  setTimeout = (run, ms) => {
    const timer = { at: this.time + ms, run };
    this.#timers.push(timer);
    return timer;
  };

  clearTimeout = (timer) => {
    this.#timers = this.#timers.filter((other) => other !== timer);
  };

  pass(ms) {
    const end = this.time + ms;
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.clearTimeout(next);
      this.time = next.at;
      next.run();
    }
    this.time = end;
  }
}

/** A socket whose other side is the test. */
export class FakeSocket {
  sent = [];
  isClosed = false;
  onopen = null;
  onmessage = null;
  onclose = null;

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.isClosed = true;
  }

  says(frame) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  welcomes() {
    this.onopen();
    this.says({ type: 'antiphon:welcome', id: this.sent[0].id, connection_id: 'conn_1' });
  }
}

/** An open connection that only records. */
export class FakeConnection {
  isOpen = true;
  connectionId = 'conn_me';
  sent = [];
  renewed = 0;
  #commands = 0;

  send(frame) {
    if (this.isOpen) this.sent.push(frame);
    return this.isOpen;
  }

  commandId(prefix) {
    this.#commands += 1;
    return `${prefix}${this.#commands}`;
  }

  renew() {
    this.renewed += 1;
  }

  last(type) {
    return this.sent.findLast((frame) => frame.type === type);
  }

  count(type) {
    return this.sent.filter((frame) => frame.type === type).length;
  }
}
