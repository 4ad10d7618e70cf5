/**
 * The tools that live in the page. The model asks, the browser answers, and the next create brings
 * the result.
 *
 * @typedef {import('./types.js').Item} Item
 */

/** An example tells the model where the person is, so that it can ask for the right zone. */
const HERE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

export const TOOLS = [
  {
    type: 'function',
    name: 'get_local_time',
    description: "The date and time now, in the person's own time zone or in the one that is named.",
    strict: false,
    parameters: {
      type: 'object',
      properties: {
        timezone: { type: 'string', description: 'IANA name; left out: where the person is', examples: [HERE] },
      },
      required: [],
      additionalProperties: false,
    },
  },
];

/** @param {{timezone?: unknown}} options @param {Date} now */
function localTime({ timezone }, now) {
  const zone = typeof timezone === 'string' && timezone ? timezone : undefined;
  const format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long', timeZone: zone });
  return { local_time: format.format(now), timezone: format.resolvedOptions().timeZone };
}

/** @type {Map<string, (options: any, now: Date) => unknown>} */
const RUNNERS = new Map([['get_local_time', localTime]]);

/** @param {Item} call @returns {unknown} */
function optionsOf(call) {
  const text = call.arguments?.trim() || '{}';
  const options = JSON.parse(text);
  if (typeof options !== 'object' || options === null) throw new TypeError('the arguments are not an object');
  return options;
}

/**
 * Always a result for the model: a failure is a result too, or the conversation could not go on.
 * @param {Item} call
 * @param {Date} now
 * @returns {string}
 */
export function runTool(call, now) {
  const runner = RUNNERS.get(call.name ?? '');
  if (!runner) return JSON.stringify({ error: `This page has no tool named ${call.name}.` });
  try {
    return JSON.stringify(runner(optionsOf(call), now));
  } catch (error) {
    return JSON.stringify({ error: error instanceof Error ? error.message : String(error) });
  }
}
