/**
 * Every frame that the page sends (protocol/PROTOCOL.md names their fields).
 *
 * @typedef {import('./types.js').Turn} Turn
 */
import { TOOLS } from './tools.js';

const PAGE_VERSION = '1';
/** How long a question waits for a person who is away from the screen. */
const HOLD_S = 3600;

/** @param {string} id @param {string} instanceId */
export const hello = (id, instanceId) => ({
  type: 'antiphon:hello',
  id,
  protocol: 1,
  client: { name: 'antiphon-page', version: PAGE_VERSION, instance_id: instanceId },
  tools: TOOLS.map(({ name }) => ({ name })),
});

/** @param {string} id */
export const ping = (id) => ({ type: 'antiphon:ping', id });

/**
 * The idempotency key makes it safe to send the same create again after a lost connection: the
 * server attaches to the run that the first one started, if it started one.
 * @param {Turn} turn @param {string} lane
 */
export const create = (turn, lane) => ({
  type: 'response.create',
  stream_id: lane,
  idempotency_key: turn.key,
  model: turn.model,
  store: true,
  input: [...turn.context, ...turn.input],
  tools: TOOLS,
  antiphon: { client_tools: 'hold', deadline_s: HOLD_S },
  ...(turn.previousResponseId && { previous_response_id: turn.previousResponseId }),
});

/** @param {string} id @param {Turn} turn @param {number | 'start'} after */
export const attach = (id, turn, after) => ({
  type: 'antiphon:attach',
  id,
  response_id: turn.responseId,
  after,
  ...(after !== 'start' && turn.epoch && { epoch: turn.epoch }),
});

/** @param {string} id @param {Turn} turn */
export const cancel = (id, turn) => ({ type: 'antiphon:cancel', id, response_id: turn.responseId });
