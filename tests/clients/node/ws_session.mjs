// openai-node's own lane router and accumulator: five lanes at once, then a tool round trip on one of them.
import assert from 'node:assert/strict';
import { ResponsesWebSocketSession } from 'openai/lib/responses/responses-websocket-session';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { client, demo, outputOf, report, textOf, theCall } from './case.mjs';

const socket = new ResponsesWS(client);
await new Promise((resolve, reject) => {
  socket.socket.on('open', resolve);
  socket.socket.on('error', reject);
});
const session = new ResponsesWebSocketSession(socket, {
  maxLanes: 16,
  maxBufferedEvents: 100_000,
  maxBufferedBytes: 2 ** 28,
});
const events = [];
socket.on('event', (event) => events.push(structuredClone(event)));

const names = ['a', 'b.2', 'c_3', 'd-4', undefined];
const lanes = names.map((name) => session.lane(name));
const finals = await Promise.all(
  lanes.map(async (lane) => {
    lane.create({ model: 'antiphon/echo', input: `on lane ${lane.streamID}` });
    return lane.finalResponse();
  }),
);
finals.forEach((final, n) => assert.equal(final.output_text, `on lane ${names[n]}`));

const [lane] = lanes;
lane.create({ ...demo, input: 'weather?' });
const called = await lane.finalResponse();
const call = theCall(called.output);
lane.create({ ...demo, input: [outputOf(call)], previous_response_id: called.id });
const answered = await lane.finalResponse();
session.close();
socket.close();

// The router must not have had to guess: sort by lane, then split at each response.created.
const runs = names.flatMap((name) => {
  const mine = events.filter((event) => event.stream_id === name);
  const starts = mine.flatMap((event, at) => (event.type === 'response.created' ? [at] : []));
  return starts.map((at, n) => mine.slice(at, starts[n + 1]));
});
report({ runs, answer: textOf(answered) });
