/** A call that a person answers: a question of the model, a text to share, or a call that wants to be allowed. */
import { el, setText } from '../shared/dom.js';
import { outputText } from './items.js';
import { NOT_SHARED, questionOf } from './tools.js';

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
  const answer = (output) => asking.answer({ callId, output });
  field.addEventListener('input', () => asking.writing(callId));
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

/** Nothing is read before the person has seen it and said yes. @param {Asking} asking @returns {ItemView} */
export function selectionView(asking) {
  const placeholder = 'Select a text in the page, or paste one';
  const field = el('textarea', { class: 'reply-field', rows: 4, placeholder });
  field.setAttribute('aria-label', 'The text to share');
  const share = el('button', { class: 'reply-send', type: 'submit' }, 'Share this text');
  const card = replyCard();
  let callId = '';
  let isEdited = false;
  const keep = choiceButton('Do not share', () => asking.answer({ callId, output: JSON.stringify(NOT_SHARED) }));
  card.choices.append(share, keep);
  card.fields.append(field, card.choices);
  field.addEventListener('input', () => {
    isEdited = true;
    share.disabled = !field.value.trim();
    asking.writing(callId);
  });
  card.form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (field.value.trim()) asking.answer({ callId, output: JSON.stringify({ text: field.value }) });
  });
  return {
    element: card.element,
    update(item, around) {
      callId = String(item.call_id);
      const selected = asking.selection();
      if (!isEdited && around.pending.has(callId) && field.value !== selected) field.value = selected;
      share.disabled = !field.value.trim();
      const { question } = item.status === 'completed' ? questionOf(item) : { question: '…' };
      card.show(question, sharedText(around.results.get(callId) ?? ''), callId, around, asking, field);
    },
  };
}

/** @param {string} result what the model got, as it is shown */
function sharedText(result) {
  try {
    const { text, error } = JSON.parse(result);
    return typeof text === 'string' ? text : error === NOT_SHARED.error ? 'Not shared' : result;
  } catch {
    return result;
  }
}

/** @param {Asking} asking @returns {ItemView} */
export function approvalView(asking) {
  const wanted = el('pre', { tabIndex: 0 });
  wanted.setAttribute('aria-label', 'Arguments');
  const card = replyCard();
  card.fields.append(wanted, card.choices);
  let callId = '';
  /** @param {boolean} output */
  const say = (output) => asking.answer({ callId, output });
  const allow = choiceButton('Allow', () => say(true));
  card.choices.append(
    allow,
    choiceButton('Do not allow', () => say(false)),
  );
  return {
    element: card.element,
    update(item, around) {
      callId = String(item.id);
      const from = item.server_label ? ` of ${item.server_label}` : '';
      setText(wanted, outputText(item.arguments));
      const question = `May ${item.name}${from} be called with this?`;
      card.show(question, around.results.get(callId) ?? '', callId, around, asking, allow);
    },
  };
}

/** What all have in common: the question, what can be said, what was said and by whom. */
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
    const known = held(callId);
    const isOpen = call !== undefined && !isOver && !result;
    const hadFocus = form.contains(document.activeElement);
    setText(question, words);
    setText(given, result);
    given.hidden = result === '';
    fields.hidden = !isOpen;
    fields.disabled = known.isGiven;
    form.classList.toggle('is-open', isOpen && !known.isGiven);
    setText(note, noteOf(result !== '', isOver, call, known));
    note.hidden = note.textContent === '';
    if (isOpen && !wasOpen) asking.takeFocus(first);
    if (hadFocus && (!isOpen || known.isGiven)) asking.giveFocusBack();
    wasOpen = isOpen;
  }
  return { element, form, fields, choices, show };
}

/**
 * @param {boolean} isAnswered @param {boolean} isOver @param {{deadline: number} | undefined} call
 * @param {import('./types.js').HeldCall} known
 */
function noteOf(isAnswered, isOver, call, { isGiven, isTaken, late, by, working }) {
  if (late) return by ? `${late} ${by}.` : late;
  if (isAnswered || by) return by;
  if (isOver) return 'This was not answered.';
  if (isGiven) return isTaken ? 'Answered' : 'Sending your answer…';
  if (working) return `${working} is writing an answer…`;
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
