/** The field to write in, with send and stop. While an answer is written, what is sent is said into it. */

/**
 * @typedef {{
 *   send: (text: string) => void, say: (text: string) => void, stop: () => void, draftChanged: (text: string) => void,
 * }} Actions `send` asks, `say` speaks to what is going on
 */

const PLACEHOLDER = 'Write a message';
const PLACEHOLDER_BUSY = 'Say more while it works';

export class Composer {
  #isBusy = false;
  #isUsable = true;

  /**
   * @param {{form: HTMLFormElement, draft: HTMLTextAreaElement, send: HTMLButtonElement, stop: HTMLButtonElement}} parts
   * @param {Actions} actions
   */
  constructor(parts, actions) {
    this.parts = parts;
    this.actions = actions;
    const { form, draft, stop } = parts;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    draft.addEventListener('input', () => {
      this.#refresh();
      actions.draftChanged(draft.value);
    });
    draft.addEventListener('keydown', (event) => this.#pressed(event));
    stop.addEventListener('click', () => actions.stop());
  }

  /** @param {string} text */
  write(text) {
    this.parts.draft.value = text;
    this.actions.draftChanged(text);
    this.#refresh();
  }

  /** @param {{isBusy: boolean, isUsable: boolean}} state */
  update({ isBusy, isUsable }) {
    const hadFocus = document.activeElement === this.parts.stop;
    this.#isBusy = isBusy;
    this.#isUsable = isUsable;
    this.#refresh();
    if (hadFocus && !isBusy) this.parts.draft.focus();
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    // While an input method is composing, Enter chooses a character.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#submit();
  }

  #submit() {
    const text = this.parts.draft.value.trim();
    if (!text || !this.#isUsable) return;
    this.write('');
    if (this.#isBusy) this.actions.say(text);
    else this.actions.send(text);
  }

  #refresh() {
    const { draft, send, stop } = this.parts;
    const hasText = draft.value.trim() !== '';
    send.hidden = this.#isBusy && !hasText;
    stop.hidden = !this.#isBusy;
    send.disabled = !this.#isUsable || !hasText;
    draft.disabled = !this.#isUsable;
    draft.placeholder = this.#isBusy ? PLACEHOLDER_BUSY : PLACEHOLDER;
    // Grows with its text up to the limit in the style sheet.
    draft.style.height = 'auto';
    draft.style.height = `${draft.scrollHeight}px`;
  }
}
