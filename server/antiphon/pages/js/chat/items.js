/**
 * What a person reads in an item of the Responses wire.
 *
 * @typedef {import('./types.js').Item} Item
 */

/** @param {Item} item */
export function textOf(item) {
  if (typeof item.content === 'string') return item.content;
  return (item.content ?? []).map((part) => part?.text ?? part?.refusal ?? '').join('');
}

/** @param {Item} item */
export function reasoningOf(item) {
  const written = (item.summary ?? []).map((part) => part?.text ?? '').filter(Boolean);
  return written.length ? written.join('\n\n') : textOf(item);
}

/** A call that a client has to answer. @param {Item} item */
export function isClientCall(item) {
  return item.type === 'function_call' || item.type === 'custom_tool_call';
}

/** The answer to a call as it is shown; a boolean allows or denies. @param {unknown} output */
export function resultText(output) {
  if (typeof output === 'boolean') return output ? 'Allowed' : 'Not allowed';
  return outputText(output);
}

/** @param {unknown} output */
export function outputText(output) {
  if (output === undefined || output === null) return '';
  return typeof output === 'string' ? output : JSON.stringify(output, null, 2);
}

/**
 * What the error of a tool call says: the texts of its content, or the whole of it.
 * @param {unknown} error
 */
export function errorText(error) {
  const content = /** @type {{content?: unknown} | null | undefined} */ (error)?.content;
  const parts = Array.isArray(content) ? content : [];
  const texts = parts.map((part) => part?.text).filter((text) => typeof text === 'string');
  return texts.length ? texts.join('\n') : outputText(error);
}
