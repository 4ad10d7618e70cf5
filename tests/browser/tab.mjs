/** The chat page in a real browser, with the words that scenarios use, and everything that goes wrong on it. */
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--no-first-run',
  '--disable-component-update',
  '--disable-sync',
];
const LIMIT_MS = 30_000;
/** What Chromium itself writes about a network that a test took away. */
export const NETWORK_NOISE = /net::ERR_|WebSocket connection to/;

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });

export class Tab {
  problems = [];

  /** @param {import('playwright-core').BrowserContext} context */
  static async in(context) {
    return this.of(await context.newPage());
  }

  /** @param {import('playwright-core').Page} page */
  static of(page) {
    const tab = new this();
    tab.page = page;
    tab.page.setDefaultTimeout(LIMIT_MS);
    tab.page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) tab.problems.push(`console: ${message.text()}`);
    });
    tab.page.on('pageerror', (error) => tab.problems.push(`exception: ${error.stack}`));
    tab.page.on('dialog', (dialog) => tab.problems.push(`dialog: ${dialog.message()}`));
    tab.page.on('request', (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (protocol !== 'data:' && hostname !== '127.0.0.1') tab.problems.push(`external request: ${request.url()}`);
    });
    return tab;
  }

  async open(url, { model } = {}) {
    await this.page.goto(model ? `${url}?model=${encodeURIComponent(model)}` : url);
    await this.says('#connection', 'Connected');
  }

  async reload() {
    await this.page.reload();
    await this.says('#connection', 'Connected');
  }

  async send(text) {
    await this.page.fill('#draft', text);
    await this.page.press('#draft', 'Enter');
  }

  /** Waits until an element says so. @param {string} selector @param {string} text */
  async says(selector, text) {
    await this.until(([where, what]) => document.querySelector(where)?.textContent.includes(what), [selector, text]);
  }

  /** @param {(given: any) => unknown} condition in the page @param {unknown} [given] */
  async until(condition, given) {
    await this.page.waitForFunction(condition, given, { timeout: LIMIT_MS, polling: 20 });
  }

  /** Waits until the last of so many turns is over. */
  async done(turns = 1, status = 'completed') {
    await this.until(
      ([count, wanted]) => {
        const shown = document.querySelectorAll('.turn');
        return shown.length === count && shown[count - 1].dataset.status === wanted;
      },
      [turns, status],
    );
  }

  /** Waits until the answer that is being written has so many characters. */
  async hasWritten(characters) {
    await this.until((count) => {
      const answer = [...document.querySelectorAll('.turn')].at(-1)?.querySelector('.answer');
      return answer && answer.textContent.length >= count;
    }, characters);
  }

  /** The text of each answer, as a person sees it. @returns {Promise<string[]>} */
  answers() {
    return this.page.$$eval('.answer', (found) => found.map((answer) => answer.textContent));
  }

  /** The runs of the turns on the page, oldest first. @returns {Promise<string[]>} */
  runs() {
    return this.page.$$eval('.turn', (turns) => turns.map(({ dataset }) => dataset.run));
  }

  /** What the server says at a path. @param {string} path */
  async get(path) {
    const answer = await this.page.request.get(new URL(path, this.page.url()).href);
    assert.equal(answer.status(), 200, path);
    return answer.json();
  }

  /** A response, that of the last turn by default, as the server has it. @param {string} [run] */
  async response(run) {
    return this.get(`/v1/responses/${run ?? (await this.runs()).at(-1)}`);
  }

  /** The link of the conversation on the page. */
  async link() {
    await this.until(() => new URL(location.href).searchParams.get('conversation'));
    return this.page.url();
  }

  /** What was shown of the last answer is what the server has, once. */
  async matchesServer() {
    const wanted = textOf(await this.response());
    assert.ok(wanted.length > 0, 'the server has a text');
    assert.equal((await this.answers()).at(-1), wanted);
  }

  /** The texts of all messages of the last answer are those that the server has. */
  async matchesText() {
    const messages = (await this.response()).output.filter(({ type }) => type === 'message');
    assert.deepEqual(
      (await this.answers()).slice(-messages.length),
      messages.map((message) => textOf({ output: [message] })),
    );
  }

  /** What is to be seen, for somebody who has to find out why a scenario failed. */
  async describe() {
    if (this.page.isClosed()) return 'a closed tab';
    const seen = await this.page.evaluate(() => ({
      connection: document.querySelector('#connection')?.textContent,
      activity: document.querySelector('#activity')?.textContent,
      banner: document.querySelector('#banner')?.textContent,
      turns: [...document.querySelectorAll('.turn')].map(({ dataset, innerText }) => [dataset.status, innerText]),
      stored: Object.entries(localStorage).map(([key, value]) => [key, value.slice(0, 700)]),
    }));
    return JSON.stringify({ problems: this.problems, ...seen }, null, 2);
  }

  /** @param {RegExp} [allowed] */
  assertClean(allowed) {
    assert.deepEqual(
      this.problems.filter((problem) => !allowed?.test(problem)),
      [],
    );
  }
}

export function textOf({ output }) {
  const messages = output.filter(({ type }) => type === 'message');
  return messages.flatMap(({ content }) => content.map(({ text }) => text)).join('');
}

/** Lets a page miss what its socket and the other tabs say for a while. Runs in the page, before its scripts. */
export function canBeDeaf() {
  const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage');
  let hear = null;
  window.missed = [];
  window.hearAgain = () => {
    window.isDeaf = false;
    for (const event of window.missed.splice(0)) hear?.(event);
  };
  window.forget = () => {
    window.isDeaf = false;
    window.missed.length = 0;
  };
  window.addEventListener('storage', (event) => window.isDeaf && event.stopImmediatePropagation());
  Object.defineProperty(WebSocket.prototype, 'onmessage', {
    set(handler) {
      hear = handler;
      set.call(this, handler && ((event) => (window.isDeaf ? window.missed.push(event) : handler(event))));
    },
  });
}
