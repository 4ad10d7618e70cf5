/** The arguments of a call as values. */

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * JSON as values. Integers that a number cannot hold become strings of their digits, so that an id of 20 digits is the
 * id the model meant. Text that is no JSON is given back as it is: a model may write anything.
 */
export function parseArguments(text: string): unknown {
  const exact = text.replace(TOKENS, (token) =>
    /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token,
  );
  try {
    return JSON.parse(exact);
  } catch {
    return text;
  }
}
