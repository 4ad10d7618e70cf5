/** Positions in a log as HTTP says them (PROTOCOL 11). */
import type { Cursor } from './cursor.js';

/** What an attach says of a position, for `GET /v1/responses/{id}?stream=true`. */
export function attachQuery({ epoch, after }: Cursor): string {
  if (after < 0) return '';
  return `&starting_after=${after}${epoch === null ? '' : `&epoch=${encodeURIComponent(epoch)}`}`;
}

/** The epoch and number of an SSE id, `<epoch>.<number>`; null if it is something else. */
export function parseEventId(id: string): { epoch: string; number: number } | null {
  const found = /^(.+)\.(\d+)$/.exec(id);
  return found ? { epoch: found[1]!, number: Number(found[2]) } : null;
}
