/** Which runs continue one: the run that follows a steered one is named by it, of others their responses are asked. */

/**
 * @typedef {import('./types.js').RunState} RunState
 * @typedef {import('./types.js').Row} Row
 */

/** A conversation may have hundreds of later runs; what continues a run mostly comes soon after it. */
const MOST_ASKED = 8;

export class Chain {
  /** What a later run of the conversation continues, by its id; null: nothing, or it may not be known. @type {Map<string, string | null>} */
  #parents = new Map();
  /** Runs of the conversation as they were when it was asked. @type {RunState[] | null} */
  #listed = null;
  #isAsking = false;

  /** @param {import('./api.js').Api} api @param {string} id @param {() => void} onChange */
  constructor(api, id, onChange) {
    this.api = api;
    this.id = id;
    this.onChange = onChange;
  }

  /** @param {RunState | null} run @returns {string[]} the runs that continue it, the one it names first */
  followers(run) {
    const named = run?.terminal?.successor;
    const found = [...this.#parents].filter(([id, parent]) => parent === this.id && id !== named).map(([id]) => id);
    return named ? [named, ...found] : found;
  }

  /**
   * Looks for runs that continue it: once in the whole conversation, then among those that the table tells of.
   * @param {RunState} run that has ended, so that others may continue it
   * @param {Iterable<Row>} rows
   */
  async look(run, rows) {
    const { conversation_id: conversation } = run;
    if (!conversation || this.#isAsking) return;
    this.#isAsking = true;
    try {
      this.#listed ??= await this.api.runsOf(conversation);
      const told = [...rows].map((row) => row.run).filter((one) => one.conversation_id === conversation);
      for (const { response_id: id } of later([...this.#listed, ...told], run)) await this.#ask(id);
    } catch (error) {
      // What is not to be had is not asked for again, what could not be asked for is with the next look.
      if (!isPassing(error)) this.#listed ??= [];
    } finally {
      this.#isAsking = false;
    }
  }

  /** @param {string} id */
  async #ask(id) {
    if (this.#parents.has(id) || this.#parents.size >= MOST_ASKED) return;
    try {
      this.#parents.set(id, await this.api.parentOf(id));
      this.onChange();
    } catch (error) {
      if (isPassing(error)) throw error;
      this.#parents.set(id, null);
    }
  }
}

/** @param {any} error */
const isPassing = (error) => error?.retryable === true;

/** @param {readonly RunState[]} runs @param {RunState} run @returns {RunState[]} made after it, the oldest first */
function later(runs, run) {
  return runs
    .filter((one) => one.response_id !== run.response_id && one.created_at >= run.created_at)
    .sort((a, b) => a.created_at - b.created_at);
}
