/** The page: what the address says, what the server says, and both drawn once a frame. */
import { byId, setText } from '../shared/dom.js';
import { Actions } from './actions.js';
import { isFiltered, plainView, searchOf, viewOf } from './address.js';
import { Api, atLeast } from './api.js';
import { MOVING, arrange, choices, totals } from './arrange.js';
import { Clock } from './clock.js';
import { Feeds, busiest } from './feeds.js';
import { FiguresView } from './figures_view.js';
import { FiltersView } from './filters_view.js';
import { Heading } from './heading.js';
import { OpenRun } from './open_run.js';
import { Panel } from './panel.js';
import { RunView } from './run_view.js';
import { Sampler } from './sampler.js';
import { ServerView } from './server_view.js';
import { ServerWatch } from './server_watch.js';
import { TableView } from './table_view.js';

/**
 * @typedef {import('../../vendor/antiphon.js').Antiphon} Antiphon
 * @typedef {import('../../vendor/antiphon.js').AntiphonError} AntiphonError
 * @typedef {import('./address.js').View} View
 * @typedef {import('./types.js').Caller} Caller
 */

/** Lines change their places at most so often, where the numbers that order them move by themselves less often. */
const ORDER_EVERY_MS = 200;
const ORDER_MOVING_EVERY_MS = 2_000;

const now = () => Date.now();

export class Page {
  /** @type {View} */
  #view = viewOf(location.search);
  /** @type {OpenRun | null} */
  #open = null;
  /** @type {import('./types.js').Row[]} */
  #arranged = [];
  #arrangedAt = -Infinity;
  #isStale = true;
  #isAsked = false;
  #isStarted = false;
  #sampler = new Sampler();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #later;
  clock = new Clock(now);

  /** @param {Antiphon} client @param {Caller} caller */
  constructor(client, caller) {
    this.client = client;
    this.caller = caller;
    this.api = new Api(client);
    const draw = () => this.draw();
    const does = {
      changed: () => this.#changed(),
      failed: (/** @type {AntiphonError} */ error) => {
        this.heading.fail(error);
        this.#changed();
      },
    };
    this.feeds = new Feeds(client, does, this.clock);
    this.watch = new ServerWatch(this.api, draw, this.clock);
    this.actions = new Actions(client, this.api, (message) => this.heading.notice(message));
    this.heading = new Heading({
      go: (change) => this.go(change),
      hold: (tenant, isPaused) => this.#hold(tenant, isPaused),
      retry: () => client.retryNow(),
    });
    this.figures = new FiguresView(byId('figures', HTMLElement));
    this.filters = new FiltersView(
      (change) => this.go(change),
      () => this.go({ ...plainView(), tenant: this.#view.tenant, run: this.#view.run }),
    );
    this.grid = byId('grid', HTMLElement);
    this.table = new TableView(this.grid, { open: (run) => this.go({ run }), sort: (key) => this.#sort(key), draw });
    this.empty = byId('empty', HTMLElement);
    this.panel = new Panel(byId('panel', HTMLElement), [byId('overview', HTMLElement), byId('bar', HTMLElement)]);
    const close = () => this.#close();
    this.runView = new RunView({
      close,
      draw,
      cancel: (run) => this.#open && void this.actions.cancel(run, this.#open),
      steer: (run) => this.#open && void this.actions.steer(run, this.#open),
      open: (run) => this.go({ run }),
      addressOf: (run) => `${location.pathname}${searchOf({ ...this.#view, run, server: false })}`,
    });
    this.serverView = new ServerView(close);
  }

  get mayAsk() {
    return atLeast(this.caller, 'operator');
  }

  start() {
    if (this.mayAsk) this.watch.start();
    addEventListener('popstate', () => this.#apply(viewOf(location.search)));
    addEventListener('keydown', (event) => this.#key(event));
    this.client.on('status', () => this.draw());
    new MutationObserver(() => this.figures.recolour()).observe(document.documentElement, {
      attributeFilter: ['data-theme'],
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.figures.recolour());
    setInterval(() => this.#tick(), 1_000);
    this.#apply(this.#view);
  }

  /** @param {Partial<View>} change of what is shown; it goes into the address */
  go(change) {
    const view = { ...this.#view, ...change };
    if (change.run) view.server = false;
    if (change.server) view.run = '';
    const search = searchOf(view);
    if (search === searchOf(this.#view)) return;
    const address = `${location.pathname}${search}`;
    // Letters typed one after the other are no way back.
    if ('text' in change && Object.keys(change).length === 1) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    this.#apply(view);
  }

  /** With the next frame. */
  draw() {
    if (this.#isAsked) return;
    this.#isAsked = true;
    requestAnimationFrame(() => {
      this.#isAsked = false;
      this.#draw();
    });
  }

  /** @param {View} view */
  #apply(view) {
    this.#view = view;
    this.#arrangedAt = -Infinity;
    this.#watchTenants();
    this.#showPanel(view);
    this.#changed();
  }

  /** @param {View} view */
  #showPanel(view) {
    const isOther = (this.#open?.id ?? '') !== view.run;
    if (isOther) this.#openRun(view.run);
    // Who comes by a link has not asked for the panel to have the focus.
    const mayFocus = this.#isStarted;
    if (view.run) this.panel.show(this.runView.element, mayFocus && isOther ? this.runView.title : null);
    else if (view.server && this.mayAsk)
      this.panel.show(this.serverView.element, mayFocus ? this.serverView.title : null);
    else if (this.panel.isOpen) this.panel.hide();
    this.#isStarted = true;
  }

  #watchTenants() {
    const { tenant } = this.#view;
    if (tenant !== '*') this.feeds.watch([tenant]);
    else if (this.watch.tenants.length) this.feeds.watch(busiest(this.watch.tenants, this.feeds.tenants));
    else this.feeds.watch([this.caller.tenant]);
  }

  /** @param {string} id empty: none */
  #openRun(id) {
    this.#open?.close();
    this.#open = id ? new OpenRun(this.client, this.api, id, () => this.draw(), this.clock) : null;
    if (this.#open) this.runView.show(this.#open);
  }

  #close() {
    const { run } = this.#view;
    this.go({ run: '', server: false });
    this.table.focus();
    if (run) this.table.activate(run);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === 'Escape' && this.panel.isOpen && !document.querySelector('dialog[open]')) this.#close();
    const isTyping = event.target instanceof HTMLElement && event.target.matches('input, select, textarea');
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || document.querySelector('dialog[open]'))
      return;
    event.preventDefault();
    this.filters.text.focus();
  }

  /** @param {import('./address.js').SortKey} key */
  #sort(key) {
    const { sort, descending } = this.#view;
    this.go({ sort: key, descending: sort === key ? !descending : !SMALL_FIRST.has(key) });
  }

  /** @param {string} tenant @param {boolean} isPaused */
  #hold(tenant, isPaused) {
    const done = () => this.watch.askTenants();
    void (isPaused ? this.actions.resume(tenant, done) : this.actions.pause(tenant, done));
  }

  #changed() {
    this.#isStale = true;
    this.draw();
  }

  #tick() {
    const at = this.clock.now();
    const isLive = ['live', 'reset'].includes(this.feeds.standing().status);
    this.feeds.rows.rest(at);
    this.figures.take(
      this.#sampler.sample(this.feeds.rows, this.watch.status, { now: at, isLive, mayAsk: this.mayAsk }),
    );
    if (this.#view.tenant === '*') this.#watchTenants();
    this.#open?.lookAround(this.feeds.rows.byId.values());
    this.draw();
  }

  #draw() {
    const at = this.clock.now();
    const view = this.#view;
    this.#arrange(at);
    this.table.update(this.#arranged, view, at);
    this.heading.update({
      client: this.client,
      standing: this.feeds.standing(),
      watch: this.watch,
      caller: this.caller,
      view,
      now: now(),
    });
    if (this.#open) {
      this.runView.update(this.#open, this.feeds.rows.byId.get(this.#open.id), this.caller, at);
      if (this.#open.isPlaying) this.draw();
    } else if (view.server) this.serverView.update(this.watch.status, at, this.watch.silent);
  }

  /** @param {number} at */
  #arrange(at) {
    const pause = MOVING.has(this.#view.sort) ? ORDER_MOVING_EVERY_MS : ORDER_EVERY_MS;
    if (!this.#isStale && pause === ORDER_EVERY_MS) return;
    const left = this.#arrangedAt + pause - now();
    if (left > 0) {
      // What has changed meanwhile is ordered when the pause is over, whatever else happens.
      this.#later ??= setTimeout(() => {
        this.#later = undefined;
        this.draw();
      }, left);
      return;
    }
    this.#arrangedAt = now();
    this.#isStale = false;
    const rows = this.feeds.rows.byId;
    this.#arranged = arrange(rows.values(), this.#view, at);
    const counts = { shown: this.#arranged.length, all: rows.size };
    this.filters.update(this.#view, choices(rows.values()), counts, isFiltered(this.#view));
    this.figures.count(totals(rows.values()));
    this.#sayEmpty(counts);
  }

  /** @param {{shown: number, all: number}} counts */
  #sayEmpty({ shown, all }) {
    const [title, words] = emptyWords(this.feeds.standing().status, all, this.heading.problem);
    this.empty.hidden = shown > 0;
    setText(/** @type {Element} */ (this.empty.firstElementChild), title);
    setText(/** @type {Element} */ (this.empty.lastElementChild), words);
  }
}

/** Names are read from their beginning; of numbers the largest are looked for. @type {ReadonlySet<string>} */
const SMALL_FIRST = new Set(['state', 'agent', 'model', 'tenant', 'tool', 'pending']);

/** @param {string} status of the feeds @param {number} all @param {string} problem @returns {[string, string]} */
export function emptyWords(status, all, problem) {
  if (problem) return ['The runs cannot be shown', problem];
  if (all) return ['No run matches', 'Other filters would show more.'];
  if (status === 'connecting') return ['Connecting…', 'The runs come with the first answer of the server.'];
  if (status === 'stale') return ['Nothing is known', 'The server cannot be reached now; this page goes on trying.'];
  return ['No runs now', 'A run is here as soon as it begins, and for a minute after its end.'];
}
