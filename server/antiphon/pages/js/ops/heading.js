/** The bar above: which tenant, whether what is shown is true, how the server is, and what went wrong. */
import { byId, el, setText } from '../shared/dom.js';
import { atLeast } from './api.js';
import { MOST_FEEDS } from './feeds.js';
import { healthWords } from './server_view.js';
import { feedWords } from './words.js';

/**
 * @typedef {import('../../vendor/antiphon.js').Antiphon} Antiphon
 * @typedef {import('../../vendor/antiphon.js').AntiphonError} AntiphonError
 * @typedef {import('./address.js').View} View
 */

const OFFLINE = 'This device is offline. What you see is what was known when the connection broke.';
const LOST = 'The connection is lost. What you see is what was known then; the page comes back by itself.';
const REFUSED = { tone: 'bad', text: 'Refused' };
/** What a screen reader says: once for each change, not with every second. */
const SPOKEN = {
  live: 'The table is live.',
  stale: 'The table is stale.',
  reset: 'The table began anew.',
  connecting: 'Connecting…',
};
const ALL = '*';

export class Heading {
  /** Why there are no runs to be seen at all; empty: nothing is wrong. */
  problem = '';
  #notice = '';

  /**
   * @param {{go: (change: Partial<View>) => void, hold: (tenant: string, isPaused: boolean) => void,
   *   retry: () => void}} does
   */
  constructor(does) {
    this.connection = byId('connection', HTMLElement);
    this.spoken = byId('spoken', HTMLElement);
    this.banner = byId('banner', HTMLElement);
    this.retry = /** @type {HTMLButtonElement} */ (this.banner.querySelector('button'));
    this.server = byId('server', HTMLButtonElement);
    this.tenantField = byId('tenant-field', HTMLElement);
    this.tenant = byId('tenant', HTMLSelectElement);
    this.hold = byId('hold', HTMLButtonElement);
    this.retry.addEventListener('click', does.retry);
    this.tenant.addEventListener('change', () => does.go({ tenant: this.tenant.value }));
    this.server.addEventListener('click', () => does.go({ server: this.server.ariaExpanded !== 'true', run: '' }));
    this.hold.addEventListener('click', () => {
      const { tenant, paused } = this.hold.dataset;
      if (tenant) does.hold(tenant, paused === 'true');
    });
  }

  /** @param {string} message what went wrong with the last thing that was done; empty: nothing */
  notice(message) {
    this.#notice = message;
  }

  /** @param {AntiphonError} error of a feed; of one that goes away by itself its status tells */
  fail(error) {
    if (error.retryable) return;
    this.problem =
      error.code === 'tenant_not_found' ? 'There is no such tenant, or you may not see it.' : error.message;
  }

  /**
   * @param {object} known
   * @param {Antiphon} known.client
   * @param {{status: import('./feeds.js').Standing, since: number}} known.standing
   * @param {import('./server_watch.js').ServerWatch} known.watch
   * @param {import('./types.js').Caller} known.caller @param {View} known.view
   * @param {number} known.now milliseconds
   */
  update({ client, standing, watch, caller, view, now }) {
    if (standing.status === 'live') this.problem = '';
    const { tone, text } = this.problem ? REFUSED : feedWords(standing.status, (now - standing.since) / 1_000);
    this.connection.dataset.tone = tone;
    setText(this.spoken, SPOKEN[standing.status]);
    setText(
      wordsIn(this.connection),
      client.status === 'fallback' && tone === 'good' ? `${text}, without a socket` : text,
    );
    this.#updateBanner(standing.status === 'stale', client);
    this.#updateTenant(watch, caller, view);
    const mayAsk = atLeast(caller, 'operator');
    const health = healthWords(watch.status, watch.silent);
    this.server.hidden = !mayAsk;
    this.server.dataset.tone = health.tone;
    setText(wordsIn(this.server), health.text);
    this.server.ariaExpanded = String(view.server);
  }

  /** @param {boolean} isStale @param {Antiphon} client */
  #updateBanner(isStale, client) {
    const refused = client.status === 'closed' ? (client.problem?.message ?? '') : '';
    const words = refused || (isStale ? (navigator.onLine ? LOST : OFFLINE) : this.#notice);
    setText(wordsIn(this.banner), words);
    this.banner.dataset.tone = isStale && !refused ? 'busy' : 'bad';
    this.banner.hidden = !words;
    this.retry.hidden = !isStale && !refused;
  }

  /** @param {import('./server_watch.js').ServerWatch} watch @param {import('./types.js').Caller} caller @param {View} view */
  #updateTenant(watch, caller, view) {
    const isAdmin = atLeast(caller, 'admin');
    const chosen = view.tenant || caller.tenant;
    this.tenantField.hidden = !isAdmin || watch.tenants.length < 2;
    if (!this.tenantField.hidden) offer(this.tenant, watch.tenants, chosen, caller.tenant);
    const isPaused = watch.isPaused(chosen);
    this.hold.hidden = !atLeast(caller, 'operator') || chosen === ALL || isPaused === null;
    this.hold.dataset.tenant = chosen;
    this.hold.dataset.paused = String(isPaused);
    this.hold.classList.toggle('is-paused', isPaused === true);
    setText(this.hold, isPaused ? 'Paused: resume' : 'Pause');
    this.hold.title = isPaused ? `Resume the tenant ${chosen}` : `Pause the tenant ${chosen}`;
  }
}

/**
 * @param {HTMLSelectElement} select @param {readonly {id: string, paused: boolean, live_runs: number}[]} tenants
 * @param {string} chosen @param {string} own
 */
function offer(select, tenants, chosen, own) {
  if (document.activeElement === select) return;
  const names = [...new Set([own, ...tenants.map(({ id }) => id)])].sort();
  const said = JSON.stringify([names, chosen]);
  if (select.dataset.said === said) return;
  select.dataset.said = said;
  // The caller's own tenant is the one that stands in no address.
  const options = names.map((name) => el('option', { value: name === own ? '' : name }, name));
  select.replaceChildren(
    ...options,
    el('option', { value: ALL }, names.length > MOST_FEEDS ? `The ${MOST_FEEDS} busiest` : 'All tenants'),
  );
  select.value = chosen === own ? '' : chosen;
}

/** @param {HTMLElement} element */
const wordsIn = (element) => /** @type {Element} */ (element.querySelector('.words'));
