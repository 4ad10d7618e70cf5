/** The operators' page with the words that its scenarios use, and the server behind it. */
import assert from 'node:assert/strict';
import { Tab } from './tab.mjs';

/** The longest script takes twenty seconds, and the machine may be busy. */
const ENDED_WITHIN_MS = 90_000;
export const ENDED = ['completed', 'incomplete', 'failed', 'cancelled'];

/** What somebody does at the server beside the page. */
export class Server {
  /** @param {string} url @param {string} [key] */
  constructor(url, key = '') {
    this.url = url;
    this.key = key;
  }

  as(key) {
    return new Server(this.url, key);
  }

  /** @param {string} method @param {string} path @param {unknown} [body] */
  async ask(method, path, body) {
    const headers = {
      ...(this.key && { authorization: `Bearer ${this.key}` }),
      ...(body && { 'content-type': 'application/json' }),
    };
    const answer = await fetch(new URL(path, this.url), { method, headers, body: body && JSON.stringify(body) });
    return { status: answer.status, body: await answer.json() };
  }

  /** Begins a run in the background; its id. @param {string} model @param {object} [more] */
  async begin(model, more = {}) {
    const { status, body } = await this.ask('POST', '/v1/responses', {
      model,
      input: 'hello',
      background: true,
      ...more,
    });
    assert.equal(status, 200, JSON.stringify(body));
    return body.id;
  }

  /** A run that waits for somebody's answer. @param {object} [antiphon] */
  beginAsking(antiphon = {}) {
    const tools = [{ type: 'function', name: 'ask_person', parameters: { type: 'object' } }];
    return this.begin('antiphon/script:asking', { tools, antiphon: { client_tools: 'hold', ...antiphon } });
  }

  /** @param {string} id @returns {Promise<any>} its RunState */
  async state(id) {
    return (await this.ask('GET', `/v1/runs/${id}`)).body.run;
  }

  /** Answers the first call that a run waits for. @param {string} id */
  async answerCall(id) {
    const [{ call_id }] = (await this.state(id)).pending_calls;
    const input = [{ type: 'function_call_output', call_id, output: 'Blue.' }];
    const { status, body } = await this.ask('POST', `/v1/responses/${id}/inject`, { input });
    assert.equal(status, 200, JSON.stringify(body));
  }

  async status(id) {
    return (await this.ask('GET', `/v1/responses/${id}`)).body.status;
  }

  /** Waits for its end, and says what it was. @param {string} id */
  async ended(id) {
    let status;
    for (const end = Date.now() + ENDED_WITHIN_MS; Date.now() < end;) {
      status = await this.status(id);
      if (ENDED.includes(status)) return status;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the run ${id} is ${status} after ${ENDED_WITHIN_MS} ms`);
  }

  /** Runs of the feed, by state. @returns {Promise<Record<string, number>>} */
  async counts() {
    const { body } = await this.ask('GET', '/v1/runs');
    const counts = {};
    for (const { state } of body.data) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  }
}

export class OpsTab extends Tab {
  /** @param {import('playwright-core').BrowserContext} context @param {string} url @param {string} [key] */
  static async open(context, url, key = '', search = '') {
    const tab = await OpsTab.in(context);
    if (key) await tab.page.addInitScript((given) => sessionStorage.setItem('antiphon.key', given), key);
    await tab.page.goto(`${url}ops${search}`);
    await tab.isLive();
    return tab;
  }

  isLive() {
    return this.says('#connection', 'Live');
  }

  /** Runs by state, as the buttons above the table count them. @returns {Promise<Record<string, number>>} */
  counts() {
    return this.page.$$eval('.chip', (chips) => {
      const counted = chips.map((chip) => [
        chip.querySelector('.mark').dataset.state,
        Number(chip.querySelector('.chip-count').textContent),
      ]);
      return Object.fromEntries(counted.filter(([, count]) => count > 0));
    });
  }

  /** Ids in the table, from the top. @returns {Promise<string[]>} */
  ids() {
    return this.page.$$eval('.rows .row', (rows) =>
      rows.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(({ dataset }) => dataset.id),
    );
  }

  /** Waits until a run is in the table, in a state if one is given. @param {string} id @param {string} [state] */
  async shows(id, state = '') {
    await this.until(
      ([wanted, inState]) => {
        const row = document.getElementById(`row-${wanted}`);
        return row && (!inState || row.dataset.state === inState);
      },
      [id, state],
    );
  }

  /** What the panel says under one of its names. @param {string} name @param {string} text */
  async showsPart(name, text) {
    await this.page.click(`#tab-${name}`);
    await this.says(`#part-${name}`, text);
  }
}
