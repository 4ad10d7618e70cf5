/**
 * The branches of a conversation: where two people wrote to the same answer at once, it goes on in two ways, of which
 * one is shown. No I/O.
 *
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {{get: () => string | null, keep: (runId: string) => void}} Place where in the branches this tab is: the id
 *   of a run. It outlives the page
 */
import { canGoOn, isOver, notAskedAgain } from './turns.js';

export class Branches {
  /** The last turn of what is shown, once that was decided. @type {Turn | null} */ #tip = null;

  /** @param {() => Iterable<Turn>} turns all that are known @param {Place} place */
  constructor(turns, place) {
    this.turns = turns;
    this.place = place;
  }

  /** The turns of the branch that is shown, oldest first, with those that failed on its way. @returns {Turn[]} */
  get shown() {
    const tree = treeOf(this.turns());
    const branch = new Set(this.#branch(tree));
    const shown = tree.sorted.filter((turn) => {
      const parent = tree.parents.get(turn);
      if (parent === undefined) return false;
      return branch.has(turn) || (!canGoOn(turn) && (parent === null || branch.has(parent)));
    });
    // Until it is told what a run continues, it goes on from the end, if there is but one.
    const last = shown.at(-1);
    const isPlain = !last || (isOver(last) && ![...branch].some((turn) => tree.beside(turn).length > 1));
    return isPlain ? [...shown, ...tree.sorted.filter((turn) => !tree.parents.has(turn))] : shown;
  }

  /** Of the turns that are shown: those that were written to the same answer, itself among them. */
  get forks() {
    const tree = treeOf(this.turns());
    /** @type {Map<Turn, Turn[]>} */
    const forks = new Map();
    for (const turn of this.#branch(tree)) if (tree.beside(turn).length > 1) forks.set(turn, tree.beside(turn));
    return forks;
  }

  /** No older turn is needed to know what is shown. */
  get isWhole() {
    const tree = treeOf(this.turns());
    const kept = this.place.get();
    return tree.gaps <= 1 && (!kept || tree.sorted.some(({ runId }) => runId === kept));
  }

  /** Shows the branch of a turn, to its newest end. @param {Turn} turn */
  show(turn) {
    const tree = treeOf(this.turns());
    this.#tip = tree.sorted.findLast((one) => canGoOn(one) && tree.upTo(one).includes(turn)) ?? turn;
    this.settle();
  }

  /** What is shown now stays, whoever writes elsewhere. */
  settle() {
    const tree = treeOf(this.turns());
    const branch = this.#branch(tree);
    this.#tip = branch.at(-1) ?? null;
    const isForked = branch.some((turn) => tree.beside(turn).length > 1);
    if (isForked && this.#tip?.runId && this.place.get() !== this.#tip.runId) this.place.keep(this.#tip.runId);
  }

  /** @param {Tree} tree @returns {Turn[]} */
  #branch(tree) {
    const kept = this.#tip ? this.#tip.runId : this.place.get();
    const tip = tree.sorted.find((turn) => turn === this.#tip || (kept !== null && turn.runId === kept));
    const newest = tree.sorted.findLast((turn) => canGoOn(turn) && tree.parents.has(turn));
    let end = tip && tree.parents.has(tip) ? tip : newest;
    if (end && !canGoOn(end)) end = tree.parents.get(end) ?? undefined;
    const branch = end ? tree.upTo(end) : [];
    for (let next = tree.next(end ?? null); next && !branch.includes(next); next = tree.next(next)) branch.push(next);
    return branch;
  }
}

/** What continues what. @param {Iterable<Turn>} turns */
function treeOf(turns) {
  const sorted = notAskedAgain(turns);
  const { parents, gaps } = parentsOf(sorted);
  /** Those that can be continued, by what they continue. @type {Map<Turn | null, Turn[]>} */
  const after = new Map();
  for (const [turn, parent] of parents) if (canGoOn(turn)) after.set(parent, [...(after.get(parent) ?? []), turn]);
  /** @param {Turn} turn @returns {Turn[]} from the first one to this */
  const upTo = (turn) => {
    const found = new Set([turn]);
    for (let at = parents.get(turn); at && !found.has(at); at = parents.get(at)) found.add(at);
    return [...found].reverse();
  };
  return {
    sorted,
    parents,
    gaps,
    upTo,
    /** @param {Turn | null} parent */
    next: (parent) => after.get(parent)?.[0],
    /** @param {Turn} turn @returns {Turn[]} itself among them */
    beside: (turn) => after.get(parents.get(turn) ?? null) ?? [],
  };
}

/** @typedef {ReturnType<typeof treeOf>} Tree */

/**
 * The turn that each one continues, null for the first; those of which it is not known yet have none.
 * @param {Turn[]} sorted @returns {{parents: Map<Turn, Turn | null>, gaps: number}} `gaps`: turns that are continued
 *   here and were not read
 */
function parentsOf(sorted) {
  /** @type {Map<Turn, Turn | null>} */
  const parents = new Map();
  const byRun = new Map(sorted.filter(({ runId }) => runId).map((turn) => [turn.runId, turn]));
  /** What stood before the first turn that continues one that is not here. @type {Map<string, Turn | null>} */
  const gaps = new Map();
  /** @type {Turn | null} */ let before = null;
  /** Turns of a conversation that a client made continue nothing by name (PROTOCOL 11.9). @type {Turn | null} */
  let unnamed = null;
  for (const turn of sorted) {
    const { previousResponseId: id } = turn;
    if (id === undefined && !isOver(turn)) continue;
    if (id === null) parents.set(turn, unnamed);
    else if (id === undefined) parents.set(turn, before);
    else {
      if (!byRun.has(id) && !gaps.has(id)) gaps.set(id, before);
      parents.set(turn, byRun.get(id) ?? gaps.get(id) ?? null);
    }
    if (!canGoOn(turn)) continue;
    before = turn;
    if (id === null) unnamed = turn;
  }
  return { parents, gaps: gaps.size };
}
