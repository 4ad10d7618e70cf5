/** A position in a log: everything up to and with `after` was seen; -1 is nothing (PROTOCOL 6.4). */
export interface Cursor {
  readonly epoch: string | null;
  readonly after: number;
}

export const START: Cursor = { epoch: null, after: -1 };

/** Where an event stands: the one that follows, one that was seen before, or one past a hole. */
export function place({ after }: Cursor, number: number): 'next' | 'seen' | 'gap' {
  if (number <= after) return 'seen';
  return number === after + 1 ? 'next' : 'gap';
}

/** What an attach says of a position. */
export function attachFields({ epoch, after }: Cursor): { after: number | 'start'; epoch?: string } {
  if (after < 0) return { after: 'start' };
  return epoch === null ? { after } : { after, epoch };
}
