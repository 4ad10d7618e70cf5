/** What a client tells of. */
import type { Status } from '../core/connection.js';
import type { AntiphonError } from '../core/errors.js';
import type { Goaway } from '../wire/index.js';
import type { Run } from './run.js';
import type { ToolCallEvent } from './desk.js';

export interface AntiphonEvents {
  status: [status: Status, problem: AntiphonError | null];
  /** The server will close this connection. */
  goaway: [frame: Goaway];
  /** What ends the connection for good, and refusals that belong to nothing else. */
  error: [error: AntiphonError];
  toolcall: [event: ToolCallEvent];
  /** A run that came by itself: of a conversation, or after one that was steered. */
  run: [run: Run];
}

export type Tell = <Name extends keyof AntiphonEvents>(name: Name, ...values: AntiphonEvents[Name]) => void;
