/** What answers each kind of held call (PROTOCOL 7.4). */
import type { PendingCall } from '../wire/index.js';

/** What a handler gave, as the text a call is answered with. */
export function outputText(output: unknown): string {
  if (typeof output === 'string') return output;
  const text = JSON.stringify(output, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  return text ?? 'null';
}

/** The item that answers a call of this kind: `output` itself if it is one, else one around it. */
export function answerItem(callId: string, kind: PendingCall['kind'], output: unknown): Record<string, unknown> {
  if (kind === 'approval')
    return { type: 'mcp_approval_response', approval_request_id: callId, approve: output === true };
  const type = kind === 'custom' ? 'custom_tool_call_output' : `${kind}_call_output`;
  const given = output as Record<string, unknown> | null | undefined;
  if (typeof given === 'object' && given?.['type'] === type) return { ...given, call_id: callId };
  const isText = kind === 'function' || kind === 'custom' || kind === 'local_shell';
  return { type, call_id: callId, output: isText ? outputText(output) : output };
}
