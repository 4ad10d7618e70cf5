// @openai/agents over its WebSocket transport: an agent calls a function tool and answers with its result; then the
// same with a tool of the server before it.
import { Agent, OpenAIProvider, Runner, hostedMcpTool, tool } from '@openai/agents';
import WebSocket from 'ws';
import { z } from 'zod';
import { baseURL, report, weather } from './case.mjs';

// Its transport wants a global WebSocket that takes headers; Node has one from version 22 on.
globalThis.WebSocket = WebSocket;

const asked = [];
const getWeather = tool({
  name: 'get_weather',
  description: 'The weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    asked.push(city);
    return weather;
  },
});
const modelProvider = new OpenAIProvider({
  apiKey: 'any',
  baseURL,
  useResponses: true,
  useResponsesWebSocket: true,
});
const runner = new Runner({ modelProvider, tracingDisabled: true });
const agent = new Agent({ name: 'weather', model: 'antiphon/demo', tools: [getWeather] });

const plain = await runner.run(agent, 'weather?');
const streamed = await runner.run(agent, 'weather?', { stream: true });
let rawEvents = 0;
for await (const event of streamed) rawEvents += event.type === 'raw_model_stream_event';
const calls = asked.length;

// The label of the server's own tools; this SDK wants an address to be named, and leaves out an undefined one.
const clock = hostedMcpTool({ serverLabel: 'antiphon', serverUrl: undefined, allowedTools: ['current_time'] });
const both = new Agent({ name: 'both', model: 'antiphon/script:server_tool', tools: [clock, getWeather] });
const mixed = await runner.run(both, 'time and weather?');
const mixedStream = await runner.run(both, 'time and weather?', { stream: true });
for await (const _ of mixedStream);
await mixedStream.completed;
await modelProvider.close?.();
report({
  answers: [plain.finalOutput, streamed.finalOutput],
  calls,
  rawEvents,
  mixed: [mixed, mixedStream].map((result) => ({
    answer: result.finalOutput,
    items: result.newItems.map(({ rawItem }) => [rawItem.type, rawItem.name]),
  })),
  served: asked.length - calls,
});
process.exit(0);
