/** Reads runs while their server is killed and comes back. Says `ready` when it may be killed, then what it read. */
import { Antiphon } from '../../src/index.js';
import { Sockets, until, URL_OF_SERVER } from '../support/waiting.js';

const one = new Antiphon({ url: URL_OF_SERVER, WebSocket: Sockets, backoff: { baseMs: 5, capMs: 50 } });
one.onToolCall('lookup', () => new Promise(() => {}));
const talking = one.run({ model: 'antiphon/script:long', input: 'go' });
const held = one.run({
  model: 'antiphon/script:bigint',
  input: 'go',
  tools: [{ type: 'function', name: 'lookup', parameters: { type: 'object' } }],
});
const told: number[] = [];
const resets: number[] = [];
talking.on('event', (event) => told.push(event.sequence_number));
talking.on('reset', ({ fork }) => resets.push(fork));
await until(() => held.state?.pending_calls?.[0]?.claim && talking.cursor.after > 30, 'the middle of both');
console.log('ready');
await until(() => one.status === 'reconnecting', 'the loss');
const response = await talking.done;
const { call_id: callId } = await until(() => held.state?.pending_calls?.[0], 'the held call');
await held.respond(callId, '4 degrees');
await held.done;
const kept: number[] = [];
for await (const event of talking) kept.push(event.sequence_number);
const result = { told, kept, resets, status: response.status, code: response.error?.code, held: held.text };
console.log(JSON.stringify(result));
one.close();
process.exit(0);
