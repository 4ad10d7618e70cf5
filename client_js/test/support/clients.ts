/** Clients of the server that the test was given, and a network that can be taken away. */
import { after } from 'node:test';
import { Antiphon, type AntiphonOptions } from '../../src/index.js';
import { Sockets, URL_OF_SERVER } from './waiting.js';

export { once, until, URL_OF_SERVER } from './waiting.js';

/** A client that is closed with the test file. Its waits are short. */
export function client(options: AntiphonOptions = {}): Antiphon {
  const made = new Antiphon({ url: URL_OF_SERVER, WebSocket: Sockets, backoff: { baseMs: 5, capMs: 50 }, ...options });
  after(() => made.close());
  return made;
}

/** The network between a client and the server, as tests of the pages have it too. */
export interface Relay {
  readonly url: string;
  down(): void;
  up(): void;
  /** Connections that exist carry nothing any more, and nobody is told. */
  swallow(): void;
  close(): Promise<void>;
}

export async function relayTo(url: string): Promise<Relay> {
  const module = await import(new URL('../../../../tests/browser/relay.mjs', import.meta.url).href);
  const relay: Relay = await module.Relay.to(url);
  after(() => relay.close());
  return relay;
}

export const WEATHER = {
  type: 'function' as const,
  name: 'get_weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};
