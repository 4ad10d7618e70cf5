/** The TypeScript client of an Antiphon server. See README.md. */
export { Antiphon, PROTOCOL_VERSION, type AntiphonOptions } from './client.js';
export type { Backoff } from './core/backoff.js';
export type { Status } from './core/connection.js';
export type { Cursor } from './core/cursor.js';
export {
  AlreadyResolved,
  AntiphonError,
  AuthenticationError,
  ClaimHeld,
  ConnectionFailed,
  NotFound,
  PermissionDenied,
  type Winner,
} from './core/errors.js';
export type { FeedCursor } from './core/feed.js';
export type { Call, CallKind } from './shell/calls.js';
export type { Conversation, ConversationEvents, Presence, Turn } from './shell/conversation.js';
export type { AntiphonEvents } from './shell/events.js';
export type { Feed, FeedEvents, FeedOptions, FeedStatus } from './shell/feed.js';
export type { Auth } from './shell/http.js';
export type { Run, RunEvents, RunStatus } from './shell/run.js';
export type { SocketConstructor, SocketLike } from './shell/surroundings.js';
export type { ToolCallEvent, ToolContext, ToolHandler, ToolOptions } from './shell/desk.js';
export type * from './wire/index.js';
