/** What a client needs of the world around it, and what a test puts in its place. */

/** The part of `WebSocket` that is used; the package `ws` has it too. */
export interface SocketLike {
  onopen: ((event: any) => void) | null;
  onmessage: ((event: { data: any }) => void) | null;
  onclose: ((event: { code: number; reason?: string }) => void) | null;
  onerror: ((event: any) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

export type SocketConstructor = new (url: string) => SocketLike;

/** Whether this is a page, whose sockets are opened with tickets and whose tab may sleep. */
export const isPage = typeof document !== 'undefined' && typeof location !== 'undefined';

/** Calls `wake` when the network or the person comes back. Gives the function that ends it. */
export function onWake(wake: () => void): () => void {
  if (!isPage) return () => {};
  const shown = () => document.visibilityState === 'visible' && wake();
  addEventListener('online', wake);
  addEventListener('pageshow', wake);
  document.addEventListener('visibilitychange', shown);
  return () => {
    removeEventListener('online', wake);
    removeEventListener('pageshow', wake);
    document.removeEventListener('visibilitychange', shown);
  };
}

/** Resolves after `ms`, or as soon as `signal` aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal?.aborted) end();
    else signal?.addEventListener('abort', end);
  });
}

/** Calls `run` before the next picture of a page is drawn, elsewhere a little later. */
export function nextFrame(run: () => void): void {
  if (typeof requestAnimationFrame === 'function' && isPage && !document.hidden) requestAnimationFrame(run);
  else setTimeout(run, 50);
}

/** A name that nobody else has. Not crypto.randomUUID, which pages have on https and loopback only. */
export function newId(): string {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
