// openai-node, ResponsesWS: a turn, a tool round trip, a refusal that leaves the socket usable.
import assert from 'node:assert/strict';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { client, demo, outputOf, report, terminals, textOf, theCall } from './case.mjs';

const socket = new ResponsesWS(client);
const refused = [];
let onEvent;

socket.on('event', (event) => onEvent?.(event));
socket.on('error', (error) => {
  if (!error.error) throw error; // a transport error; API errors also come as events
});

function run(request) {
  return new Promise((resolve) => {
    const events = [];
    onEvent = (event) => {
      events.push(structuredClone(event));
      if (terminals.includes(event.type) || event.type === 'error') resolve(events);
    };
    socket.send({ type: 'response.create', ...request });
  });
}

const plain = await run({ model: 'antiphon/echo', input: 'the quick brown fox' });
assert.equal(textOf(plain.at(-1).response), 'the quick brown fox');

const called = await run({ ...demo, input: 'weather?', store: false });
const response = called.at(-1).response;
const call = theCall(response.output);
const answered = await run({
  ...demo,
  input: [outputOf(call)],
  previous_response_id: response.id,
  store: false,
});

refused.push(...(await run({ model: 'no/such-model', input: 'x' })));
const again = await run({ model: 'antiphon/echo', input: 'still here' });
socket.close();
report({
  runs: [plain, called, answered, again],
  refused,
  answer: textOf(answered.at(-1).response),
});
