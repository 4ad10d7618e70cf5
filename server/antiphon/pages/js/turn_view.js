/** One turn on the page: what was asked, the items of the answer, how it ended, what can be done. */
import { answerText, askedText, outputText } from './conversation.js';
import { copyButton, el, icon } from './dom.js';
import { itemView } from './item_view.js';
import { outcomeWords } from './status.js';
import { isOver } from './turn.js';

/**
 * @typedef {import('./types.js').Turn} Turn
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./item_view.js').ItemView} ItemView
 * @typedef {{
 *   retry: (turn: Turn) => void, continueElsewhere: (turn: Turn) => void,
 *   answer: (turn: Turn, item: import('./types.js').Answer) => void,
 *   held: (callId: string) => import('./types.js').HeldCall,
 *   takeFocus: (field: HTMLElement) => void, giveFocusBack: () => void,
 * }} Actions
 * @typedef {{results: Map<string, string>, isLast: boolean}} Around
 */

export class TurnView {
  /** @type {{item: string, view: ItemView}[]} */ #items = [];
  #footer = '';

  /** @param {Turn} turn @param {Actions} actions */
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    const asked = askedText(turn);
    const carried = turn.context.filter((part) => part.type === 'message').length;
    this.body = el('div', { class: 'items' });
    this.thinking = el('p', { class: 'thinking', 'aria-hidden': 'true' }, el('i'), el('i'), el('i'));
    this.outcome = el('div', { class: 'outcome', hidden: true });
    this.tools = el('div', { class: 'tools' });
    this.element = el(
      'article',
      { class: 'turn', 'data-key': turn.key, 'aria-label': asked ? 'Question and answer' : 'Answer' },
      carried > 0 &&
        el('p', { class: 'carried' }, `Goes on from an earlier conversation; ${carried} messages were sent along.`),
      asked && el('div', { class: 'asked' }, asked),
      this.body,
      this.thinking,
      this.outcome,
      this.tools,
    );
  }

  /** @param {Around} around */
  update(around) {
    const over = isOver(this.turn);
    const shown = this.turn.items.filter((item) => item && !isResult(item));
    const pending = new Map(this.turn.pending.map((call) => [call.call_id, call]));
    this.#updateItems(shown, { isOver: over, results: around.results, pending, held: this.actions.held });
    this.thinking.hidden = over || shown.some((item) => item.type === 'message' || item.type === 'reasoning');
    this.element.dataset.status = this.turn.status;
    this.#updateFooter(around);
  }

  /** @param {Item[]} shown @param {Omit<import('./item_view.js').Around, 'isLast'>} around */
  #updateItems(shown, around) {
    for (const [index, item] of shown.entries()) {
      const identity = `${item.type} ${item.id ?? index}`;
      if (this.#items[index]?.item !== identity) {
        for (const { view } of this.#items.splice(index)) view.element.remove();
        const view = itemView(item, {
          answer: (given) => this.actions.answer(this.turn, given),
          takeFocus: this.actions.takeFocus,
          giveFocusBack: this.actions.giveFocusBack,
        });
        this.body.append(view.element);
        this.#items.push({ item: identity, view });
      }
      this.#items[index].view.update(item, { ...around, isLast: index === shown.length - 1 });
    }
    for (const { view } of this.#items.splice(shown.length)) view.element.remove();
  }

  /** Built again only when it says something else, so that a focused button stays. @param {Around} around */
  #updateFooter({ isLast }) {
    const words = outcomeWords(this.turn);
    const hasText = isOver(this.turn) && answerText(this.turn) !== '';
    const footer = JSON.stringify([words, isLast, hasText]);
    if (footer === this.#footer) return;
    this.#footer = footer;
    this.outcome.hidden = !words;
    this.outcome.dataset.tone = words?.tone ?? 'quiet';
    this.outcome.replaceChildren(
      el(
        'p',
        {},
        words?.text,
        words?.code && ' ',
        words?.code && el('code', {}, words.code),
      ),
      ...(isLast ? this.#ways(words?.tone === 'bad') : []),
    );
    this.tools.replaceChildren(...(hasText ? [copyButton('Copy', () => answerText(this.turn))] : []));
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
