/** Held calls: where they stand in a response (PROTOCOL 7.4). */
import { parseArguments } from '../core/arguments.js';
import type { Item, PendingCall, Response } from '../wire/index.js';

export type CallKind = PendingCall['kind'];

/** A call as the log shows it. */
export interface Call {
  readonly call_id: string;
  readonly name: string;
  readonly kind: CallKind;
  /** As values: JSON for a function, text for a custom tool, the action of other kinds. */
  readonly arguments: unknown;
  readonly item: Item;
}

type Loose = Record<string, any>;

/** Types of items whose kind is not their name without `_call`. */
const KINDS: Record<string, CallKind> = { custom_tool_call: 'custom', mcp_approval_request: 'approval' };

/** The call with this id, once all of it is there. */
export function callIn(response: Response | null, callId: string): Call | null {
  for (const item of (response?.output ?? []) as Loose[]) {
    if (!item || (item['call_id'] ?? item['id']) !== callId || item['status'] === 'in_progress') continue;
    const { type, arguments: text, input, operation, actions, action, name } = item;
    if (type.endsWith('_output')) continue;
    const kind = KINDS[type] ?? type.replace('_call', '');
    const given = text === undefined ? (input ?? operation ?? actions ?? action) : parseArguments(text);
    return { call_id: callId, name: name ?? kind, kind, arguments: given, item: item as Item };
  }
  return null;
}
