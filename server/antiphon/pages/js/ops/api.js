/** What the page asks of the server beside its feeds. */

/**
 * @typedef {import('../../vendor/antiphon.js').Antiphon} Antiphon
 * @typedef {import('./types.js').Caller} Caller
 * @typedef {import('./types.js').ServerStatus} ServerStatus
 * @typedef {import('./types.js').RunState} RunState
 * @typedef {import('./types.js').Moment} Moment
 */

/** @type {Record<import('./types.js').Role, number>} */
const RANK = { viewer: 0, driver: 1, operator: 2, admin: 3 };

/** @param {Caller | null} caller @param {import('./types.js').Role} role */
export const atLeast = (caller, role) => caller !== null && RANK[caller.role] >= RANK[role];

/** Operators cancel every run they see, drivers their own. @param {Caller | null} caller @param {RunState} run */
export const mayCancel = (caller, run) =>
  atLeast(caller, 'operator') || (atLeast(caller, 'driver') && caller?.id === run.principal);

export class Api {
  /** @param {Antiphon} client */
  constructor(client) {
    this.client = client;
  }

  /** @returns {Promise<Caller>} */
  me() {
    return this.client.request('GET', '/v1/me');
  }

  /** @returns {Promise<ServerStatus>} */
  status() {
    return this.client.request('GET', '/v1/admin/status');
  }

  /** @returns {Promise<{id: string, paused: boolean, live_runs: number}[]>} */
  async tenants() {
    return (await this.client.request('GET', '/v1/admin/tenants')).data;
  }

  /** @param {string} id @returns {Promise<{run: RunState, timeline: Moment[]}>} */
  run(id) {
    return this.client.request('GET', `/v1/runs/${encodeURIComponent(id)}`);
  }

  /** Newest first. @param {string} conversation @returns {Promise<RunState[]>} */
  async runsOf(conversation) {
    const path = `/v1/conversations/${encodeURIComponent(conversation)}/runs?limit=100`;
    return (await this.client.request('GET', path)).data;
  }

  /** The run that this one continues. @param {string} id @returns {Promise<string | null>} */
  async parentOf(id) {
    return (await this.client.request('GET', `/v1/responses/${encodeURIComponent(id)}`)).previous_response_id;
  }

  /** @param {string} tenant @param {boolean} cancel whether what runs ends too */
  pause(tenant, cancel) {
    return this.client.request('POST', `/v1/admin/tenants/${encodeURIComponent(tenant)}/pause`, { cancel });
  }

  /** @param {string} tenant */
  resume(tenant) {
    return this.client.request('POST', `/v1/admin/tenants/${encodeURIComponent(tenant)}/resume`);
  }
}
