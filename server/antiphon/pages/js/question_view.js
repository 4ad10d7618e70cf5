/** A call that a person answers: a question of the model, or a call that wants to be allowed. */
import { outputText } from './conversation.js';
import { el, setText } from './dom.js';
import { questionOf } from './tools.js';

/**
 * @typedef {import('./types.js').Item} Item
 * @typedef {import('./item_view.js').Around} Around
 * @typedef {import('./item_view.js').ItemView} ItemView
 * @typedef {import('./item_view.js').Asking} Asking
 */

let count = 0;

/** @param {Asking} asking @returns {ItemView} */
export function questionView(asking) {
  const field = el('input', { type: 'text', class: 'reply-field', autocomplete: 'off', placeholder: 'Your answer' });
  field.setAttribute('aria-label', 'Your answer');
  const send = el('button', { class: 'reply-send', type: 'submit' }, 'Answer');
  const card = replyCard();
  card.fields.append(card.choices, el('div', { class: 'reply-row' }, field, send));
  let callId = '';
  let offered = '';
  /** @param {string} output */
  const answer = (output) => asking.answer({ type: 'function_call_output', call_id: callId, output });
  card.form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (field.value.trim()) answer(field.value.trim());
  });
  return {
    element: card.element,
    update(item, around) {
      callId = String(item.call_id);
      const { question, choices } = item.status === 'completed' ? questionOf(item) : { question: '…', choices: [] };
      if (offered !== JSON.stringify(choices)) {
        offered = JSON.stringify(choices);
        card.choices.replaceChildren(...choices.map((choice) => choiceButton(choice, () => answer(choice))));
        field.placeholder = choices.length ? 'Or say it in your words' : 'Your answer';
      }
      card.show(question, around.results.get(callId) ?? '', callId, around, asking, field);
    },
  };
}

/** @param {Asking} asking @returns {ItemView} */
export function approvalView(asking) {
  const wanted = el('pre', { tabIndex: 0 });
  wanted.setAttribute('aria-label', 'Arguments');
  const card = replyCard();
  card.fields.append(wanted, card.choices);
  let id = '';
  /** @param {boolean} approve */
  const say = (approve) => asking.answer({ type: 'mcp_approval_response', approval_request_id: id, approve });
  const allow = choiceButton('Allow', () => say(true));
  card.choices.append(allow, choiceButton('Do not allow', () => say(false)));
  return {
    element: card.element,
    update(item, around) {
      id = String(item.id);
      const from = item.server_label ? ` of ${item.server_label}` : '';
      if (wanted.textContent !== outputText(item.arguments)) wanted.textContent = outputText(item.arguments);
      const question = `May ${item.name}${from} be called with this?`;
      card.show(question, around.results.get(id) ?? '', id, around, asking, allow);
    },
  };
}

/** What both have in common: the question, what can be said, what was said. */
function replyCard() {
  const id = `question-${(count += 1)}`;
  const question = el('p', { class: 'reply-question', id });
  const choices = el('div', { class: 'choices' });
  const fields = el('fieldset', { class: 'reply-fields' });
  const given = el('p', { class: 'asked', hidden: true });
  const note = el('p', { class: 'reply-note', role: 'status' });
  const form = el('form', { class: 'reply', 'aria-labelledby': id }, question, fields, note);
  const element = el('div', { class: 'reply-box' }, form, given);
  let wasOpen = false;
  /**
   * @param {string} words @param {string} result @param {string} callId @param {Around} around
   * @param {Asking} asking @param {HTMLElement} first what has the focus when the question comes
   */
  function show(words, result, callId, { isOver, pending, held }, asking, first) {
    const call = pending.get(callId);
    const { isGiven, late } = held(callId);
    const isOpen = call !== undefined && !isOver && !result;
    const hadFocus = form.contains(document.activeElement);
    setText(question, words);
    setText(given, result);
    given.hidden = result === '';
    fields.hidden = !isOpen;
    fields.disabled = isGiven;
    form.classList.toggle('is-open', isOpen && !isGiven);
    setText(note, late || noteOf(result !== '', isOver, isGiven, call));
    note.hidden = note.textContent === '';
    if (isOpen && !wasOpen) asking.takeFocus(first);
    if (hadFocus && (!isOpen || isGiven)) asking.giveFocusBack();
    wasOpen = isOpen;
  }
  return { element, form, fields, choices, show };
}

/** @param {boolean} isAnswered @param {boolean} isOver @param {boolean} isGiven @param {{deadline: number} | undefined} call */
function noteOf(isAnswered, isOver, isGiven, call) {
  if (isAnswered) return '';
  if (isOver) return 'This was not answered.';
  if (isGiven) return 'Sending your answer…';
  return call ? `Waits until ${clockTime(call.deadline)}` : 'Answered';
}

/** @param {number} seconds Unix time */
function clockTime(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}

/** @param {string} label @param {() => void} act */
function choiceButton(label, act) {
  const button = el('button', { type: 'button' }, label);
  button.addEventListener('click', act);
  return button;
}
