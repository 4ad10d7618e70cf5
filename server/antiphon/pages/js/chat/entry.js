/** The way in: whether the server wants a key, takes this one, and who that makes of the person. */
import { ask } from '../shared/http.js';
import { LOCKED } from '../shared/status_line.js';

/** What ends a connection because of who asks. */
const IDENTITY = new Set([
  'authentication_required',
  'invalid_api_key',
  'invalid_token',
  'token_expired',
  'invalid_ticket',
]);

export class Entry {
  /** @type {import('../shared/status_line.js').Barred} */ barred = null;
  /** The sentence for a person who is barred. */
  why = '';
  /** The server speaks another version than this page, which was loaded from another one. */
  isOutdated = false;

  /**
   * @param {import('../../vendor/antiphon.js').Antiphon} client
   * @param {import('../shared/unlock.js').Unlock} unlock
   * @param {import('./types.js').Me} me filled in here
   * @param {{onOffer: (models: string[], agents: string[]) => void, onLocked: () => void, onChange: () => void}} owner
   */
  constructor(client, unlock, me, owner) {
    this.client = client;
    this.unlock = unlock;
    this.me = me;
    this.owner = owner;
    client.on('error', (error) => {
      if (IDENTITY.has(error.code)) this.lock();
      else if (error.code === 'unsupported_version') this.#outdate(error.message);
      else this.#bar('refused', error.message);
    });
  }

  /** Who this is, what can be chosen, and on the way whether this page is welcome at all. */
  async check() {
    const paths = ['v1/me', 'v1/models', 'v1/agents'];
    const [who, models, agents] = await Promise.all(paths.map((path) => ask(path, this.unlock.key)));
    if (who.status === 401) this.lock();
    else if (who.status === 403) this.#bar('refused', 'The server does not answer to the address in the address bar.');
    else if (who.status === 200) {
      this.me.id = who.body.id;
      this.me.role = who.body.role;
      this.owner.onOffer(listed(models.body, 'id'), listed(agents.body, 'name'));
    }
    this.owner.onChange();
  }

  /** Another key, or a second try. */
  reopen() {
    this.client.close();
    this.barred = null;
    this.why = '';
    this.isOutdated = false;
  }

  /** The server wants a key, or another one. */
  lock() {
    this.unlock.refused();
    this.client.close();
    this.me.id = null;
    this.#bar('locked', LOCKED);
    this.owner.onLocked();
  }

  /** @param {string} message of the server */
  #outdate(message) {
    this.isOutdated = true;
    this.#bar('refused', `${message} This page is of another one: reload it. What was said is kept by the server.`);
  }

  /** @param {'locked' | 'refused'} kind @param {string} why */
  #bar(kind, why) {
    this.barred = kind;
    this.why = why;
    this.owner.onChange();
  }
}

/** @param {any} body of a list @param {string} field @returns {string[]} */
const listed = (body, field) => (body?.data ?? []).map((/** @type {any} */ one) => one[field]);
