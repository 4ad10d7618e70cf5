/**
 * One held call as this client works on it (PROTOCOL 7.4, 10.9). Pure: a signal goes in, what to do comes out.
 *
 *     open → claiming → working → answering → over
 *              ↓ held      ↓ lost      ↓ lost
 *            waiting ────→ open       over
 */
export type WorkPhase = 'open' | 'claiming' | 'waiting' | 'working' | 'answering' | 'over';

export interface Work {
  readonly phase: WorkPhase;
  /** Of our claim; null without one. */
  readonly fence: number | null;
}

export type WorkSignal =
  /** The call waits for an answer, and may be ours. */
  | { readonly on: 'pending'; readonly claims: boolean }
  | { readonly on: 'claimed'; readonly fence: number }
  /** Somebody else works on it, or others are asked. */
  | { readonly on: 'held' }
  /** Our claim is gone and another client has one. */
  | { readonly on: 'claim_lost' }
  | { readonly on: 'output' }
  /** It has an answer, from whomever, or its run is over. */
  | { readonly on: 'settled' };

export type WorkEffect = 'claim' | 'run' | 'inject' | 'wait' | 'abort' | null;

export const NEW_WORK: Work = { phase: 'open', fence: null };

type Step = readonly [phase: WorkPhase, effect: WorkEffect];

/** What each signal does in each phase; what is not here changes nothing. */
const STEPS: Partial<Record<`${WorkPhase} ${WorkSignal['on']}`, Step>> = {
  'open pending': ['claiming', 'claim'],
  'waiting pending': ['claiming', 'claim'],
  'claiming claimed': ['working', 'run'],
  'claiming held': ['waiting', 'wait'],
  'claiming settled': ['over', null],
  'open settled': ['over', null],
  'waiting settled': ['over', null],
  'working claim_lost': ['waiting', 'abort'],
  'working settled': ['over', 'abort'],
  'working output': ['answering', 'inject'],
  'answering settled': ['over', null],
};

/** The next phase, and what is to be done. */
export function step(work: Work, signal: WorkSignal): readonly [Work, WorkEffect] {
  if (signal.on === 'pending' && !signal.claims && work.phase === 'open') {
    return [{ phase: 'working', fence: null }, 'run'];
  }
  const found = STEPS[`${work.phase} ${signal.on}`];
  if (!found) return [work, null];
  const [phase, effect] = found;
  const fence = signal.on === 'claimed' ? signal.fence : phase === 'waiting' ? null : work.fence;
  return [{ phase, fence }, effect];
}
