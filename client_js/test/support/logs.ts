/** Logs as a server could write them, for tests without one. */
import type { LogEvent, Response } from '../../src/index.js';

/** A response that has only what is looked at. */
export function response(id: string, fields: Partial<Response> = {}): Response {
  return { id, object: 'response', status: 'in_progress', output: [], ...fields } as unknown as Response;
}

/** The log of a run that says these pieces, one delta each, in one message. */
export function textLog(id: string, pieces: readonly string[]): LogEvent[] {
  const text = pieces.join('');
  const part = (said: string) => ({ type: 'output_text', text: said, annotations: [] });
  const item = (status: string, content: object[]) => ({
    type: 'message',
    id: `msg_${id}`,
    role: 'assistant',
    status,
    content,
  });
  const at = { item_id: `msg_${id}`, output_index: 0, content_index: 0 };
  const events: Record<string, unknown>[] = [
    { type: 'response.created', response: response(id) },
    { type: 'response.in_progress', response: response(id) },
    { type: 'response.output_item.added', output_index: 0, item: item('in_progress', []) },
    { type: 'response.content_part.added', ...at, part: part('') },
    ...pieces.map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
    { type: 'response.output_text.done', ...at, text },
    { type: 'response.content_part.done', ...at, part: part(text) },
    { type: 'response.output_item.done', output_index: 0, item: item('completed', [part(text)]) },
    {
      type: 'response.completed',
      response: response(id, { status: 'completed', output: [item('completed', [part(text)])] as never }),
    },
  ];
  return events.map((event, number) => ({ ...event, sequence_number: number })) as unknown as LogEvent[];
}
