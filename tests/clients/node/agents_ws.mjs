// @openai/agents over its WebSocket transport: an agent calls a function tool and answers with its result.
import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents';
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
await modelProvider.close?.();
report({ answers: [plain.finalOutput, streamed.finalOutput], calls: asked.length, rawEvents });
process.exit(0);
