/** One turn on the page: who asked what, the items of the answer, how it ended, what can be done. */
import { copyButton, el, icon, setText } from '../shared/dom.js';
import { ForkView } from './fork_view.js';
import { itemView } from './item_view.js';
import { outputText } from './items.js';
import { outcomeWords } from './status.js';
import { answerText, isOver } from './turns.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./item_view.js').ItemView} ItemView
 * @typedef {{
 *   retry: (turn: Turn) => void, continueElsewhere: (turn: Turn) => void,
 *   answer: (turn: Turn, answer: import('./types.js').Answer) => void,
 *   held: (turn: Turn, callId: string) => import('./types.js').HeldCall,
 *   writing: (callId: string) => void, selection: () => string,
 *   takeFocus: (field: HTMLElement) => void, giveFocusBack: () => void, goTo: (key: string) => void,
 * }} Actions
 * @typedef {{
 *   results: Map<string, string>, isLast: boolean, author: string, fork: import('./fork_view.js').Fork | null,
 * }} Around `author`: who wrote it, empty where that goes without saying
 */

export class TurnView {
  /** @type {{item: string, view: ItemView}[]} */ #items = [];
  #footer = '';
  #said = '';

  /** @param {Turn} turn @param {Actions} actions */
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.carried = el('p', { class: 'carried', hidden: true });
    this.fork = new ForkView(actions.goTo);
    this.author = el('p', { class: 'author', hidden: true });
    this.asked = el('div', { class: 'asked', hidden: true });
    this.body = el('div', { class: 'items' });
    this.said = el('div', { class: 'said' });
    this.thinking = el('p', { class: 'thinking', 'aria-hidden': 'true' }, el('i'), el('i'), el('i'));
    this.outcome = el('div', { class: 'outcome', hidden: true });
    this.tools = el('div', { class: 'tools' });
    this.element = el(
      'article',
      { class: 'turn', 'data-key': turn.key },
      this.carried,
      this.fork.element,
      this.author,
      this.asked,
      this.body,
      this.thinking,
      this.said,
      this.outcome,
      this.tools,
    );
  }

  /** @param {Around} around */
  update(around) {
    const { turn } = this;
    const over = isOver(turn);
    const shown = turn.items.filter((item) => item && !isResult(item));
    const pending = new Map(turn.pending.map((call) => [call.call_id, call]));
    this.fork.update(around.fork);
    this.#updateQuestion(around.author);
    this.#updateItems(shown, {
      isOver: over,
      results: around.results,
      pending,
      held: (callId) => this.actions.held(turn, callId),
    });
    this.thinking.hidden = over || shown.some((item) => item.type === 'message' || item.type === 'reasoning');
    this.element.dataset.status = turn.status;
    this.element.dataset.run = turn.runId ?? '';
    this.#updateSaid();
    this.#updateFooter(around);
  }

  /** @param {string} author */
  #updateQuestion(author) {
    const { asked, carried } = this.turn;
    setText(this.asked, asked);
    setText(this.author, author);
    setText(this.carried, `Goes on from an earlier conversation; ${carried} messages were sent along.`);
    this.asked.hidden = !asked;
    this.author.hidden = !author;
    this.carried.hidden = !carried;
    this.element.setAttribute('aria-label', asked ? 'Question and answer' : 'Answer');
  }

  /** @param {Item[]} shown @param {Omit<import('./item_view.js').Around, 'isLast'>} around */
  #updateItems(shown, around) {
    for (const [index, item] of shown.entries()) {
      const identity = `${item.type} ${item.id ?? index}`;
      if (this.#items[index]?.item !== identity) {
        for (const { view } of this.#items.splice(index)) view.element.remove();
        const { takeFocus, giveFocusBack, writing, selection } = this.actions;
        const answer = (/** @type {import('./types.js').Answer} */ given) => this.actions.answer(this.turn, given);
        const view = itemView(item, { answer, takeFocus, giveFocusBack, writing, selection });
        this.body.append(view.element);
        this.#items.push({ item: identity, view });
      }
      this.#items[index].view.update(item, { ...around, isLast: index === shown.length - 1 });
    }
    for (const { view } of this.#items.splice(shown.length)) view.element.remove();
  }

  /** What was said into the run, until the run that reads it begins. */
  #updateSaid() {
    const said = JSON.stringify(this.turn.said);
    if (said === this.#said) return;
    this.#said = said;
    const bubbles = this.turn.said.map((text) => el('div', { class: 'asked' }, text));
    const note = el('p', { class: 'carried' }, 'Read at the next step');
    this.said.replaceChildren(...bubbles, ...(bubbles.length ? [note] : []));
  }

  /** Built again only when it says something else, so that a focused button stays. @param {Around} around */
  #updateFooter({ isLast }) {
    const words = outcomeWords(this.turn);
    const hasText = isOver(this.turn) && answerText(this.turn) !== '';
    const footer = JSON.stringify([words, isLast, hasText, this.turn.model]);
    if (footer === this.#footer) return;
    this.#footer = footer;
    this.outcome.hidden = !words;
    this.outcome.dataset.tone = words?.tone ?? 'quiet';
    this.outcome.replaceChildren(
      el('p', {}, words?.text, words?.code && ' ', words?.code && el('code', {}, words.code)),
      ...(isLast ? this.#ways(words?.tone === 'bad') : []),
    );
    const copy = copyButton('Copy', () => answerText(this.turn));
    this.tools.replaceChildren(...(hasText ? [copy, el('span', { class: 'by' }, this.turn.model)] : []));
  }

  /** @param {boolean} isBad */
  #ways(isBad) {
    const { turn, actions } = this;
    if (turn.problem?.code === 'previous_response_not_found')
      return [button('Continue in a new conversation', () => actions.continueElsewhere(turn))];
    if (isBad || turn.status === 'cancelled' || turn.status === 'incomplete')
      return [button('Try again', () => actions.retry(turn))];
    return [];
  }
}

/** Results are shown in the card of their call. @param {Item} item */
const isResult = (item) => /_call_output$/.test(item.type) && outputText(item.output) !== '';

/** @param {string} label @param {() => void} act */
function button(label, act) {
  const element = el('button', { type: 'button' }, icon('retry'), label);
  element.addEventListener('click', act);
  return element;
}
