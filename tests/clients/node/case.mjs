// What every client script here shares: where the server is, one tool, one JSON result.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

export const baseURL = process.argv[2] ?? process.env.ANTIPHON_URL ?? 'http://127.0.0.1:8787/v1';
export const client = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0, timeout: 20_000 });
export const terminals = ['response.completed', 'response.failed', 'response.incomplete'];
export const weather = '7 degrees and drizzle';
export const demo = {
  model: 'antiphon/demo',
  tools: [
    {
      type: 'function',
      name: 'get_weather',
      description: 'The weather of a city.',
      strict: false,
      parameters: { type: 'object', properties: { city: { type: 'string' } } },
    },
  ],
};

export function report(facts) {
  console.log(JSON.stringify(facts));
}

export function theCall(output) {
  const calls = output.filter((item) => item.type === 'function_call');
  assert.equal(calls.length, 1, JSON.stringify(output));
  assert.equal(calls[0].name, 'get_weather');
  assert.equal(typeof JSON.parse(calls[0].arguments), 'object');
  return calls[0];
}

export function outputOf(call) {
  return { type: 'function_call_output', call_id: call.call_id, output: weather };
}

export function textOf(response) {
  return response.output
    .filter((item) => item.type === 'message')
    .flatMap((item) => item.content.map((part) => part.text))
    .join('');
}
