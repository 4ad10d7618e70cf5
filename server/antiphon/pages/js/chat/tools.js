/**
 * The tools that live in the page. The model asks, the browser or the person in front of it answers,
 * and the answer goes on (held calls, PROTOCOL 7.4).
 *
 * @typedef {import('./types.js').Item} Item
 */

/** An example tells the model where the person is, so that it can ask for the right zone. */
const HERE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

export const LOCAL_TIME = 'get_local_time';
/** Those that a person answers. */
export const ASK_PERSON = 'ask_person';
export const READ_SELECTION = 'read_selection';

export const TOOLS = [
  {
    type: 'function',
    name: LOCAL_TIME,
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
  {
    type: 'function',
    name: READ_SELECTION,
    description: 'Reads the text that the person has selected in the page, or pastes, after asking them.',
    strict: false,
    parameters: {
      type: 'object',
      properties: { reason: { type: 'string', description: 'What it is needed for, in a few words' } },
      required: [],
      additionalProperties: false,
      examples: [{ reason: 'To see which passage you mean.' }],
    },
  },
];

/**
 * What `get_local_time` gives.
 * @param {any} options @param {Date} now
 */
export function localTime(options, now) {
  const timezone = options?.timezone;
  const zone = typeof timezone === 'string' && timezone ? timezone : undefined;
  const format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long', timeZone: zone });
  return { local_time: format.format(now), timezone: format.resolvedOptions().timeZone };
}

/**
 * What a person is asked. Arguments that cannot be read are the question as they are.
 * @param {Item} call @returns {{question: string, choices: string[]}}
 */
export function questionOf(call) {
  const written = call.arguments ?? '';
  const options = optionsOf(written);
  if (call.name === READ_SELECTION) {
    const why = typeof options?.reason === 'string' && options.reason ? ` ${options.reason}` : '';
    return { question: `May I read a text that you select or paste?${why}`, choices: [] };
  }
  const choices = Array.isArray(options?.choices) ? options.choices : [];
  const offered = choices.filter((/** @type {unknown} */ choice) => typeof choice === 'string' && choice);
  const question = typeof options?.question === 'string' && options.question ? options.question : written;
  return { question, choices: [...new Set(offered)] };
}

/** @param {string} text @returns {any} null if it is no object */
function optionsOf(text) {
  try {
    const options = JSON.parse(text.trim() || '{}');
    return typeof options === 'object' ? options : null;
  } catch {
    return null;
  }
}

/** What the model gets where a person would not share a text. */
export const NOT_SHARED = { error: 'The person did not want to share a text.' };
