/** Where the server is, and waits for what it does. */
import WebSocket from 'ws';
import type { SocketConstructor } from '../../src/index.js';

/** Of the server. */
export const URL_OF_SERVER = process.env['ANTIPHON_TEST_URL']!;

/** Node 22 has sockets of its own, Node 20 has none. */
export const Sockets = (globalThis.WebSocket ?? WebSocket) as unknown as SocketConstructor;

/** Waits only bound what hangs. */
const LIMIT_MS = 60_000;

/** Resolves as soon as `isTrue` gives something; it is asked often. */
export async function until<T>(isTrue: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
  const end = Date.now() + LIMIT_MS;
  for (;;) {
    const value = await isTrue();
    if (value) return value as NonNullable<T>;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Resolves with the first event of this name that passes. */
export function once<Value>(
  source: { on(name: any, listener: (...values: any[]) => void): () => void },
  name: string,
  passes: (value: Value) => boolean = () => true,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`never: ${name}`)), LIMIT_MS);
    const off = source.on(name, (value: Value) => {
      if (!passes(value)) return;
      clearTimeout(timer);
      off();
      resolve(value);
    });
  });
}
