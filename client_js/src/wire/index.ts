/** The wire's types under the names this client uses; all of them are in `schema.ts`, which is generated. */
import type * as schema from './schema.js';

export type * from './schema.js';

/** Frames of the standard vocabulary that are in no log (PROTOCOL 7). */
type BesideTheLog =
  | schema.Keepalive
  | schema.ErrorEvent
  | schema.SteerAccepted
  | schema.SteerPending
  | schema.SteerFailed
  | schema.InjectCreated
  | schema.InjectFailed;

/** Those of a union that have a `type` of their own. */
type Known<T> = T extends { type: infer Kind } ? (string extends Kind ? never : T) : never;

/** One entry of a run's log. */
export type LogEvent = Exclude<schema.ServerEvents, BesideTheLog>;

/** One entry of a response's output. A newer server may have types that are not here. */
export type Item = Known<schema.Response['output'][number]>;

/** What a create asks for: the body of `POST /v1/responses`. `store` is true unless it says false. */
export type CreateParams = Omit<
  schema.ResponseCreate,
  'type' | 'stream_id' | 'stream' | 'background' | 'idempotency_key'
>;
