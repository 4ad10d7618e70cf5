// Stream an answer over WebSocket, lose the connection in mid-answer, come back and miss nothing.
//
//   npm install --prefix examples/node
//   node examples/node/chat.mjs "Any question"
//
// ANTIPHON_URL points elsewhere than http://127.0.0.1:8787/v1, ANTIPHON_API_KEY brings a key, ANTIPHON_MODEL a model.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';

const client = new OpenAI({
  baseURL: process.env.ANTIPHON_URL ?? 'http://127.0.0.1:8787/v1',
  apiKey: process.env.ANTIPHON_API_KEY ?? 'any',
});
const model = process.env.ANTIPHON_MODEL ?? 'antiphon/demo';
const question = process.argv.slice(2).join(' ') || 'What are you?';

let responseId;
let last = -1;
const pieces = [];

await new Promise((resolve, reject) => {
  const socket = new ResponsesWS(client);
  socket.on('error', reject);
  socket.on('event', (event) => {
    if (pieces.length === 4) return; // gone already
    last = event.sequence_number;
    if (event.type === 'response.created') responseId = event.response.id;
    if (event.type === 'response.output_text.delta') {
      pieces.push(event.delta);
      process.stdout.write(event.delta);
    }
    if (pieces.length === 4 || /^response\.(completed|failed|incomplete)$/.test(event.type)) {
      socket.close();
      resolve();
    }
  });
  socket.send({ type: 'response.create', model, input: question });
});

console.log(`\n--- the connection is gone after event ${last}; ${responseId} goes on ---`);

for await (const event of await client.responses.retrieve(responseId, { stream: true, starting_after: last })) {
  assert.equal(event.sequence_number, last + 1, 'an event is missing');
  last = event.sequence_number;
  if (event.type === 'response.output_text.delta') {
    pieces.push(event.delta);
    process.stdout.write(event.delta);
  }
}

assert.equal(pieces.join(''), (await client.responses.retrieve(responseId)).output_text);
console.log(`\n--- whole: events 0 to ${last}, none missing ---`);
