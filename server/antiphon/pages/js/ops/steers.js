/** What was said to a run, and what became of it (PROTOCOL 7.3). */

/**
 * @typedef {import('./types.js').RunState} RunState
 *
 * @typedef {object} Said something that this page has said to a run
 * @property {string} text
 * @property {string} id of the steer; empty until the server has taken it
 * @property {string} refusal why the server did not take it; empty: it did, or has not answered yet
 *
 * @typedef {'sending' | 'accepted' | 'pending' | 'applied' | 'failed' | 'refused'} Stage
 *
 * @typedef {object} Steer
 * @property {string} text empty: somebody else said it, and only the run was told
 * @property {string} by
 * @property {Stage} stage
 * @property {string} more what that means here
 */

/**
 * Those that the run knows of, in their order, then those of this page that it does not.
 * @param {RunState | null} run @param {readonly Said[]} said
 * @returns {Steer[]}
 */
export function steersOf(run, said) {
  const known = run?.steers ?? [];
  const ids = new Set(known.map(({ id }) => id));
  const own = new Map(said.map((one) => [one.id, one.text]));
  return [
    ...known.map(({ id, stage, principal }) => ({
      text: own.get(id) ?? '',
      by: principal,
      stage,
      more: moreOf(stage, run),
    })),
    ...said.filter(({ id }) => !ids.has(id)).map((one) => unknown(one, run)),
  ];
}

/** @param {Said} said @param {RunState | null} run @returns {Steer} */
function unknown({ text, id, refusal }, run) {
  if (refusal) return { text, by: '', stage: 'refused', more: refusal };
  return id
    ? { text, by: '', stage: 'accepted', more: moreOf('accepted', run) }
    : { text, by: '', stage: 'sending', more: '' };
}

/** @param {Stage} stage @param {RunState | null} run */
function moreOf(stage, run) {
  if (stage === 'accepted')
    return run?.state === 'waiting_for_tool'
      ? 'It is heard once the calls of this run are answered.'
      : 'It is heard at the next step of this run.';
  if (stage === 'pending') return 'This run ended on open calls. The run that answers them hears it.';
  return stage === 'failed' ? whyNot(run) : '';
}

/** @param {RunState | null} run whose steers became part of nothing */
function whyNot(run) {
  // The steers are told of first, the end of the run a moment later.
  if (!run?.terminal) return '';
  const { status, code } = run.terminal;
  if (status === 'cancelled') return 'The run was cancelled before it was heard.';
  if (status === 'failed') return `The run failed before it was heard${code ? `: ${code}` : ''}.`;
  return `No run could follow this one${code && code !== 'steered' ? `, which ended early: ${code}` : ''}.`;
}
