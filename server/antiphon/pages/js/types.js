/**
 * The shapes that the modules of the page share. Types only, no code.
 *
 * @typedef {{
 *   id?: string, type: string, status?: string, role?: string, name?: string, call_id?: string,
 *   arguments?: string, input?: string, output?: unknown, server_label?: string, error?: unknown,
 *   content?: Part[], summary?: Part[], tools?: {name: string}[], action?: {query?: string},
 *   approval_request_id?: string,
 * }} Item an output item of the Responses wire
 *
 * @typedef {{type: string, text?: string, refusal?: string}} Part
 *
 * @typedef {{type: 'message', role: string, content: string}
 *   | {type: 'function_call_output', call_id: string, output: string}
 *   | {type: 'custom_tool_call_output', call_id: string, output: string}} Input
 *
 * @typedef {{type: 'function_call_output', call_id: string, output: string}
 *   | {type: 'custom_tool_call_output', call_id: string, output: string}
 *   | {type: 'mcp_approval_response', approval_request_id: string, approve: boolean}} Answer what is said to a held call
 *
 * @typedef {{call_id: string, name: string, kind: string, eligible: string[], deadline: number}} Pending a call that
 *   waits, as RunState shows it; `eligible` are the connections that are asked, `deadline` is in Unix seconds
 *
 * @typedef {{isGiven: boolean, late: string}} HeldCall `isGiven`: this tab has answered and waits for the server;
 *   `late`: why the answer of this tab did not count
 *
 * @typedef {{
 *   type: string, sequence_number?: number, stream_id?: string, output_index?: number,
 *   [field: string]: any,
 * }} Frame anything that the server sends
 *
 * @typedef {{
 *   id: string, status: string, output?: Item[], error?: {code?: string, message?: string} | null,
 *   incomplete_details?: {reason?: string} | null,
 * }} WireResponse
 *
 * @typedef {'sending' | 'running' | 'completed' | 'incomplete' | 'cancelled' | 'failed' | 'refused' | 'lost'} TurnStatus
 *
 * @typedef {{code: string, message: string}} Problem
 *
 * @typedef {{
 *   key: string, owner: string, createdAt: number, model: string, input: Input[],
 *   context: Input[], previousResponseId: string | null, sent: boolean,
 *   responseId: string | null, epoch: string | null, sequence: number,
 *   status: TurnStatus, waiting: boolean, pending: Pending[], stopping: boolean, replaced: boolean,
 *   reason: string | null, problem: Problem | null, items: Item[],
 * }} Turn one create and everything that came back; `key` is its idempotency key,
 *   `context` is sent before `input` but not shown, `sent` means the server may know it, `waiting` means the run waits
 *   for a tool, `pending` are the calls that it waits for
 *
 * @typedef {{
 *   id: string, title: string, model: string, createdAt: number, updatedAt: number, turns: Turn[],
 * }} Conversation
 *
 * @typedef {'connecting' | 'open' | 'waiting' | 'refused' | 'locked'} Phase
 *
 * @typedef {{phase: Phase, retryAt: number | null, reason: string | null}} ConnectionState
 */

export {};
