/**
 * The shapes that the modules of the page share. Types only, no code.
 *
 * @typedef {import('../../vendor/antiphon.js').Run} Run
 * @typedef {import('../../vendor/antiphon.js').RunState} RunState
 * @typedef {import('../../vendor/antiphon.js').Participant} Participant
 *
 * @typedef {{
 *   id?: string, type: string, status?: string, role?: string, name?: string, call_id?: string,
 *   arguments?: string, input?: string, output?: unknown, server_label?: string, error?: unknown,
 *   content?: Part[] | string, summary?: Part[], tools?: {name: string}[], action?: {query?: string},
 *   approval_request_id?: string,
 * }} Item an input or output item of the Responses wire
 *
 * @typedef {{type?: string, text?: string, refusal?: string}} Part
 *
 * @typedef {{callId: string, output: string | boolean | object}} Answer what a person says to a held call; a boolean
 *   allows or denies
 *
 * @typedef {{
 *   call_id: string, name: string, kind: string, eligible: string[], deadline: number,
 *   claim: {holder: string, instance?: string | null, expires_at: number} | null,
 * }} Pending a call that waits, as RunState shows it; `deadline` is in Unix seconds
 *
 * @typedef {{call_id: string, by: string, instance?: string | null, at: number}} Resolved
 *
 * @typedef {{
 *   isGiven: boolean, isTaken: boolean, late: string, by: string, working: string,
 * }} HeldCall what is known about a call beside its item: `isGiven`: this tab has answered; `isTaken`: the server
 *   has taken that; `late`: why the answer of this tab did not count; `by`: who has answered it, empty if it was this tab; `working`:
 *   who is at it now
 *
 * @typedef {{
 *   id: string, status: string, output?: Item[], previous_response_id?: string | null, model?: string,
 *   error?: {code?: string, message?: string} | null, incomplete_details?: {reason?: string} | null,
 * }} WireResponse
 *
 * @typedef {'sending' | 'running' | 'completed' | 'incomplete' | 'cancelled' | 'failed' | 'refused'} TurnStatus
 *
 * @typedef {{code: string, message: string}} Problem
 *
 * @typedef {{
 *   key: string, runId: string | null, createdAt: number, author: string | null, model: string,
 *   input: Item[], asked: string, carried: number, previousResponseId: string | null | undefined, said: string[],
 *   status: TurnStatus, items: Item[], waiting: boolean, pending: Pending[], resolved: Resolved[],
 *   participants: Participant[], stopping: boolean, stoppedBy: string | null, reason: string | null,
 *   problem: Problem | null,
 * }} Turn what somebody wrote and what came of it. `author`: a principal, null as long as only this tab knows the
 *   turn, empty until it is told; `asked`: what of its input somebody wrote; `carried`: messages sent along before it; `previousResponseId`:
 *   undefined as long as nobody knows; `said`: what this tab said to the run while it went on, and nobody has read yet
 *
 * @typedef {{
 *   id: string, title: string, model: string, createdAt: number, updatedAt: number, was?: string,
 * }} Head a conversation in the list of this browser. `id` is that of the server, or `new_…` until it has one; `was`
 *   is what it was called until then
 *
 * @typedef {{
 *   key: string, conversation: string, createdAt: number, model: string, input: Item[],
 *   previousResponseId: string | null, problem: Problem | null,
 * }} Unsent a create that the server has not confirmed; `key` is its idempotency key
 *
 * @typedef {{id: string | null, role: string, instance: string}} Me `id`: the principal, null before it is known
 */

export {};
