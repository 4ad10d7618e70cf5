/** What changes something at the server: each is asked for once more, and what went wrong is said. */
import { confirmDialog, textDialog } from '../shared/dialog.js';
import { shortId } from './words.js';

/** @typedef {import('./types.js').RunState} RunState */

export class Actions {
  /**
   * @param {import('../../vendor/antiphon.js').Antiphon} client @param {import('./api.js').Api} api
   * @param {(message: string) => void} say
   */
  constructor(client, api, say) {
    this.client = client;
    this.api = api;
    this.say = say;
  }

  /** @param {RunState} run @param {import('./open_run.js').OpenRun} open */
  async cancel(run, open) {
    const asked = {
      title: `Cancel the run ${shortId(run.response_id)} of ${run.principal}?`,
      text: 'What it has said so far is kept. It cannot be continued.',
      action: 'Cancel run',
      dismiss: 'Let it go on',
      isDangerous: true,
    };
    if (!(await confirmDialog(asked))) return;
    await this.#try(async () => {
      const result = await open.attached.cancel('cancelled by an operator');
      this.say(result === 'already_terminal' ? 'It had already ended.' : '');
    });
  }

  /** @param {RunState} run @param {import('./open_run.js').OpenRun} open */
  async steer(run, open) {
    const asked = {
      title: `Say something to the run ${shortId(run.response_id)}`,
      text: 'It hears this as a message of the user, at its next step.',
      action: 'Steer',
      isLong: true,
    };
    const text = (await textDialog(asked))?.trim();
    if (!text) return;
    const refusal = await open.steer(text);
    // The panel says it, if it is still there.
    if (refusal && open.isClosed) this.say(refusal);
  }

  /** @param {string} tenant @param {() => Promise<void>} done */
  async pause(tenant, done) {
    const asked = {
      title: `Pause the tenant ${tenant}?`,
      text: 'New runs are refused until it is resumed. What runs goes on.',
      action: 'Pause',
      isDangerous: true,
    };
    if (!(await confirmDialog(asked))) return;
    await this.#try(() => this.api.pause(tenant, false));
    await done();
  }

  /** @param {string} tenant @param {() => Promise<void>} done */
  async resume(tenant, done) {
    const asked = { title: `Resume the tenant ${tenant}?`, text: 'New runs are taken again.', action: 'Resume' };
    if (!(await confirmDialog(asked))) return;
    await this.#try(() => this.api.resume(tenant));
    await done();
  }

  /** @param {() => Promise<unknown>} act */
  async #try(act) {
    this.say('');
    try {
      await act();
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
  }
}
