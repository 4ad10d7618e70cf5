/**
 * Who is here, who does what, in words.
 *
 * @typedef {import('./types.js').Me} Me
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Pending} Pending
 * @typedef {import('./types.js').Resolved} Resolved
 * @typedef {{connection: string, principal: string, role: string, state: string, label: string | null}} Participant
 * @typedef {{principal: string, name: string, isMe: boolean, state: string, count: number}} Person
 */
import { titleFrom } from './turns.js';

/** Everybody, where authentication is off: the name says nothing about who it is. */
const ANYBODY = 'user:local';

/** @param {string} principal what stands before the colon is the kind, not the name */
export function nameOf(principal) {
  if (principal === ANYBODY) return 'Somebody';
  return principal.slice(principal.indexOf(':') + 1) || principal;
}

/** Who wrote or answered something. @param {string} principal @param {Me} me */
export function whoIs(principal, me) {
  if (principal.startsWith('system:')) return 'The server';
  return principal === me.id ? 'You' : nameOf(principal);
}

/** Whose a turn is; one that only this tab knows is of the person at it. @param {Turn} turn @param {Me} me */
const writerOf = ({ author }, me) => (author === null ? 'You' : whoIs(author, me));

/**
 * Where several people write, each turn says whose it is.
 * @param {Turn[]} turns @param {Me} me @returns {(turn: Turn) => string} empty where that goes without saying
 */
export function authors(turns, me) {
  const isShared = turns.some(({ author }) => author && author !== me.id);
  return (turn) => (isShared ? writerOf(turn, me) : '');
}

/** What was written within so long was written without knowing of each other, and is told so. */
const SAME_MOMENT_MS = 10_000;

/**
 * Several turns answer the same one: who wrote, and which branches there are.
 * @param {Turn} shown @param {Turn[]} all the shown one among them @param {Me} me
 * @returns {import('./fork_view.js').Fork}
 */
export function forkWords(shown, all, me) {
  const others = all.filter((turn) => turn !== shown);
  // Where authentication is off, all have the name of this tab.
  const isNameless = (/** @type {Turn} */ { author }) => author === ANYBODY || author === '';
  const name = (/** @type {Turn} */ turn) => (isNameless(turn) ? nameOf(ANYBODY) : writerOf(turn, me));
  const names = [...new Set(others.map(name))];
  const who = names.length > 2 ? `${names.length} people` : names.join(' and ');
  const isAtOnce = others.every(({ createdAt }) => Math.abs(createdAt - shown.createdAt) < SAME_MOMENT_MS);
  return {
    words: `${who} also wrote here${isAtOnce ? ' at the same moment' : ''}. You see one branch; what you write goes on from it.`,
    ways: all.map((turn) => ({
      key: turn.key,
      label: [isNameless(turn) ? '' : writerOf(turn, me), titleFrom(turn.asked)].filter(Boolean).join(': '),
      isShown: turn === shown,
    })),
  };
}

/** Of several things that connections of one person do, the one that says most. */
const ORDER = ['typing', 'executing', 'watching'];

/**
 * One entry for each principal, the person at this page first.
 * @param {Participant[]} participants @param {Me} me @param {string} connection what the server calls this one
 * @returns {Person[]}
 */
export function people(participants, me, connection) {
  /** @type {Map<string, Participant[]>} */
  const byPrincipal = new Map();
  for (const one of participants) byPrincipal.set(one.principal, [...(byPrincipal.get(one.principal) ?? []), one]);
  const found = [...byPrincipal].map(([principal, all]) => ({
    principal,
    name: principal === ANYBODY && all.length > 1 ? `You and ${all.length - 1} more` : whoIs(principal, me),
    isMe: principal === me.id,
    // What this very tab does, its person knows.
    state: ORDER.find((state) => all.some((one) => one.state === state && one.connection !== connection)) ?? 'watching',
    count: principal === ANYBODY ? 1 : all.length,
  }));
  return found.sort((a, b) => Number(b.isMe) - Number(a.isMe) || a.name.localeCompare(b.name));
}

/** @param {Participant[]} participants @param {Me} me @param {string} connection */
export function typingWords(participants, me, connection) {
  const others = participants.filter((one) => one.state === 'typing' && one.connection !== connection && !one.label);
  const names = [...new Set(others.map(({ principal }) => elsewhere(principal, me)))];
  if (!names.length) return '';
  if (names.length > 2) return `${names.length} people are typing`;
  return `${names.join(' and ')} ${names.length === 1 ? 'is' : 'are'} typing`;
}

/**
 * Another connection: of the same person, or of anybody where all have one name.
 * @param {string} principal @param {Me} me
 */
const elsewhere = (principal, me) =>
  principal === me.id && principal !== ANYBODY ? 'Another tab of yours' : nameOf(principal);

/**
 * Who is at a call that waits: who claimed it, or who is writing an answer to it.
 * @param {Turn} turn @param {Pending} call @param {Me} me @param {string} connection
 */
export function workingOn(turn, call, me, connection) {
  const { claim } = call;
  if (claim) return claim.holder === me.id && claim.instance === me.instance ? '' : elsewhere(claim.holder, me);
  const writer = turn.participants.find((one) => one.label === call.call_id && one.connection !== connection);
  return writer ? elsewhere(writer.principal, me) : '';
}

/** Who answered a call; empty if it was this tab. @param {Resolved} resolved @param {Me} me */
export function answeredBy({ by, instance }, me) {
  if (by === 'system:deadline') return 'Nobody answered in time';
  if (by !== me.id) return `Answered by ${whoIs(by, me)}`;
  return instance === me.instance ? '' : 'Answered in another tab or program';
}
