/** Questions that stop everything else on the page until they are answered. Esc is a no. */
import { el } from './dom.js';

/**
 * @param {{title: string, text?: string, action: string, dismiss?: string, isDangerous?: boolean}} asked
 * @returns {Promise<boolean>}
 */
export async function confirmDialog(asked) {
  return (await ask(asked, null)) !== null;
}

/**
 * @param {{title: string, text?: string, action: string, value?: string, isLong?: boolean}} asked
 *   `isLong`: room for several lines
 * @returns {Promise<string | null>} null if the person went away from it
 */
export function textDialog(asked) {
  const field = asked.isLong
    ? el('textarea', { class: 'text', rows: 5, value: asked.value ?? '' })
    : el('input', { class: 'text', type: 'text', autocomplete: 'off', value: asked.value ?? '' });
  field.setAttribute('aria-label', asked.title);
  return ask(asked, field);
}

/**
 * @param {{title: string, text?: string, action: string, dismiss?: string, isDangerous?: boolean}} asked
 * @param {HTMLInputElement | HTMLTextAreaElement | null} field
 * @returns {Promise<string | null>}
 */
function ask({ title, text, action, dismiss = 'Cancel', isDangerous }, field) {
  const no = el('button', { class: 'plain', type: 'button' }, dismiss);
  const yes = el('button', { class: isDangerous ? 'danger' : 'primary', type: 'submit' }, action);
  const form = el(
    'form',
    { method: 'dialog' },
    el('h2', { id: 'dialog-title' }, title),
    text && el('p', {}, text),
    field,
    el('div', { class: 'dialog-row' }, no, yes),
  );
  const dialog = el('dialog', { class: 'dialog', 'aria-labelledby': 'dialog-title' }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    /** @type {string | null} */
    let said = null;
    no.addEventListener('click', () => dialog.close());
    form.addEventListener('submit', () => {
      said = field?.value ?? '';
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(said);
    });
    dialog.showModal();
    (field ?? (isDangerous ? no : yes)).focus();
  });
}
