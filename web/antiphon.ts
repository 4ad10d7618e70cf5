/** What the pages take of client_js: all that it offers, and how it makes a response of events, for replays. */
export * from '../client_js/src/index.js';
export { accumulate } from '../client_js/src/core/accumulate.js';
