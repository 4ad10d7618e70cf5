/** The response as the events so far make it (PROTOCOL 6.3). Nothing that was given out is ever changed. */
import type { Item, LogEvent, Response } from '../wire/index.js';

type Loose = Record<string, any>;

/** What a delta adds to: `response.<name>.delta` -> the list inside the item, and the field that grows. */
const GROWING: Record<string, readonly [list: 'content' | 'summary' | null, field: string]> = {
  output_text: ['content', 'text'],
  refusal: ['content', 'refusal'],
  reasoning_text: ['content', 'text'],
  reasoning_summary_text: ['summary', 'text'],
  function_call_arguments: [null, 'arguments'],
  custom_tool_call_input: [null, 'input'],
  mcp_call_arguments: [null, 'arguments'],
  code_interpreter_call_code: [null, 'code'],
};

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** Whether this event is the last of its log. */
export function isTerminal(event: { type: string }): boolean {
  return TERMINAL.has(event.type);
}

/** Whether a response with this status has ended. */
export function hasEnded(status: string | null | undefined): boolean {
  return status != null && status !== 'queued' && status !== 'in_progress';
}

/** `list` with another value at `index`. */
function put<T>(list: readonly T[] | undefined, index: number, value: T): T[] {
  const copy = [...(list ?? [])];
  copy[index] = value;
  return copy;
}

/** The item with one of its parts changed. */
function withPart(item: Loose, list: 'content' | 'summary', index: number, change: (part: Loose) => Loose): Loose {
  const parts: Loose[] = item[list] ?? [];
  const empty = {
    type: list === 'summary' ? 'summary_text' : item.type === 'reasoning' ? 'reasoning_text' : 'output_text',
  };
  return { ...item, [list]: put(parts, index, change(parts[index] ?? empty)) };
}

function grow(item: Loose, event: Loose, name: string, isDone: boolean): Loose {
  const [list, field] = GROWING[name]!;
  const change = (target: Loose): Loose => ({
    ...target,
    [field]: isDone ? event[field] : (target[field] ?? '') + event['delta'],
  });
  return list
    ? withPart(item, list, event[list === 'summary' ? 'summary_index' : 'content_index'], change)
    : change(item);
}

function changeItem(item: Loose, event: Loose): Loose {
  const [, name = '', step] = (event['type'] as string).split('.');
  if (name in GROWING && (step === 'delta' || step === 'done')) return grow(item, event, name, step === 'done');
  if (name === 'content_part') return withPart(item, 'content', event['content_index'], () => event['part']);
  if (name === 'reasoning_summary_part') return withPart(item, 'summary', event['summary_index'], () => event['part']);
  if (name === 'output_text' && step === 'annotation') {
    return withPart(item, 'content', event['content_index'], (part) => ({
      ...part,
      annotations: put(part['annotations'], event['annotation_index'], event['annotation']),
    }));
  }
  return item;
}

/** The response after one more event; the same object if nothing in it changes. */
export function accumulate(response: Response | null, event: LogEvent): Response | null {
  const { type, output_index: index } = event as Loose as { type: string; output_index?: number };
  if ('response' in event) {
    const said = event.response as Response;
    const kept = response?.output ?? [];
    return isTerminal(event) || said.output.length >= kept.length ? said : { ...said, output: kept };
  }
  if (!response || index === undefined) return response;
  if (type === 'response.output_item.added' || type === 'response.output_item.done') {
    return { ...response, output: put(response.output, index, (event as unknown as { item: Item }).item) };
  }
  const item = response.output[index];
  if (!item) return response;
  const changed = changeItem(item, event) as Item;
  return changed === item ? response : { ...response, output: put(response.output, index, changed) };
}

/** All text of a response's messages, one after the other. */
export function textOf(response: Response | null): string {
  let text = '';
  for (const item of (response?.output ?? []) as Loose[]) {
    if (item['type'] !== 'message') continue;
    for (const part of item['content'] ?? []) if (part?.type === 'output_text') text += part.text ?? '';
  }
  return text;
}
