/** Steers and answers of runs. Loaded with the first of them; of what is loaded before only types are imported. */
import { answerItem } from '../core/answers.js';
import type { AntiphonError } from '../core/errors.js';
import type { PendingCall, RunState } from '../wire/index.js';
import type { Session } from './session.js';

export interface HeldCall {
  readonly callId: string;
  readonly kind: PendingCall['kind'];
}

export interface AnswerOptions {
  /** Of our claim. */
  readonly fence?: number;
  /** Makes a repeat harmless; random by default. */
  readonly resultId?: string;
}

export class Commands {
  #me: Promise<string> | null = null;
  /** Steers that were taken for ours, so that none is taken for two. */
  readonly #taken = new Set<string>();

  constructor(private readonly session: Session) {}

  /**
   * Over HTTP always: there the answer belongs to its request. A steer has no key that makes it harmless to say it
   * twice, so after a loss the run's state is asked whether it has one more of ours.
   */
  async steer(id: string, input: unknown, known: string[]): Promise<{ id: string; previous_response_id: string }> {
    const before = new Set(known);
    let isUnsure = false;
    return this.session.perform(async (_, ask) => {
      if (isUnsure) {
        const own = await this.#own(id, before);
        if (own) return { id: own, previous_response_id: id };
      }
      try {
        isUnsure = true;
        const path = `/v1/responses/${id}/steer`;
        const { steer } = await this.session.http.request('POST', path, { ...ask, body: { input } });
        this.#taken.add(steer.id);
        return steer;
      } catch (error) {
        // Only of a refusal it is known that nothing was done.
        if ((error as AntiphonError).code !== 'connection_failed') isUnsure = false;
        throw error;
      }
    });
  }

  /** Over HTTP always, as above. The result id makes a repeat harmless. */
  async respond(
    id: string,
    { callId, kind }: HeldCall,
    output: unknown,
    { fence, resultId = this.session.newId() }: AnswerOptions,
  ): Promise<{ duplicate: boolean }> {
    const antiphon = { result_id: resultId, ...(fence === undefined ? {} : { fence }) };
    const body = { input: [{ ...answerItem(callId, kind, output), antiphon }] };
    return this.session.perform(async (_, ask) => {
      const path = `/v1/responses/${id}/inject`;
      const { duplicate = false } = await this.session.http.request('POST', path, { ...ask, body });
      return { duplicate };
    });
  }

  async #own(id: string, before: Set<string>): Promise<string | null> {
    const { http } = this.session;
    this.#me ??= http.request('GET', '/v1/me').then((me) => me.id);
    const [me, { run }] = await Promise.all([this.#me, http.request('GET', `/v1/runs/${id}`)]);
    const steers = (run as RunState).steers ?? [];
    const found = steers.find((one) => one.principal === me && !before.has(one.id) && !this.#taken.has(one.id));
    if (found) this.#taken.add(found.id);
    return found?.id ?? null;
  }
}
