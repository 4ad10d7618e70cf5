/** Conversations before the server has named them. */

/** @typedef {import('./types.js').Head} Head */

const UNNAMED = 'new_';

/** @param {string} id of the list in this browser */
export const isNamed = (id) => !id.startsWith(UNNAMED);

/** @param {string} id @param {string} model @param {number} now @returns {Head} */
export const newHead = (id, model, now) => ({ id: UNNAMED + id, title: '', model, createdAt: now, updatedAt: now });
