// openai-node over HTTP: the SSE helper (it refuses unknown events), a JSON answer, a background run read again.
import assert from 'node:assert/strict';
import { client, demo, report, theCall } from './case.mjs';

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(structuredClone(event));
  return events;
}

const helper = client.responses.stream({ model: 'antiphon/echo', input: 'streamed by the helper' });
const helped = (await collect(helper)).map((event) => event.type);
assert.equal((await helper.finalResponse()).output_text, 'streamed by the helper');

const tooled = client.responses.stream({ ...demo, input: 'weather?' });
helped.push(...(await collect(tooled)).map((event) => event.type));
theCall((await tooled.finalResponse()).output);

const whole = await client.responses.create({ model: 'antiphon/echo', input: 'in one piece' });
assert.equal(whole.output_text, 'in one piece');

const background = { model: 'antiphon/echo', input: 'left and found again', background: true, stream: true };
const first = await collect(await client.responses.create(background));
const tail = await collect(
  await client.responses.retrieve(first[0].response.id, { stream: true, starting_after: 3 }),
);
assert.deepEqual(tail, first.slice(4));
report({ runs: [first], helped });
