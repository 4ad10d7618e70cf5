/**
 * The tools that live in the page. The model asks, the browser or the person in front of it answers,
 * and the answer goes on (held calls, PROTOCOL 7.4).
 *
 * @typedef {import('./types.js').Item} Item
 */

/** An example tells the model where the person is, so that it can ask for the right zone. */
const HERE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The one that a person answers. */
export const ASK_PERSON = 'ask_person';

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
  {
    type: 'function',
    name: ASK_PERSON,
    description: 'Asks the person you talk with, and waits for the answer. For what only they can know or decide.',
    strict: false,
    parameters: {
      type: 'object',
      properties: {
        question: { type: 'string' },
        choices: {
          type: 'array',
          items: { type: 'string' },
          description: 'Likely answers, each a few words; the person may also answer freely',
        },
      },
      required: ['question'],
      additionalProperties: false,
      examples: [{ question: 'Where shall we meet?', choices: ['At the lake', 'In the old library', 'On the roof'] }],
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

/** Whether the page answers a call without asking anybody. @param {Item} call */
export const runsHere = (call) => call.type === 'function_call' && RUNNERS.has(call.name ?? '');

/**
 * What a person is asked. Arguments that cannot be read are the question as they are.
 * @param {Item} call @returns {{question: string, choices: string[]}}
 */
export function questionOf(call) {
  const written = call.arguments ?? '';
  try {
    const { question, choices } = /** @type {any} */ (optionsOf(call));
    const offered = Array.isArray(choices) ? choices.filter((choice) => typeof choice === 'string' && choice) : [];
    return { question: typeof question === 'string' && question ? question : written, choices: [...new Set(offered)] };
  } catch {
    return { question: written, choices: [] };
  }
}

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
