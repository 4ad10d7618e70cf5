/** Elements without markup: text from a model can only become text nodes. */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [fields] properties; `class`, `role`, `aria-*` and `data-*` become attributes
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, fields = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (/^(class|role|for|(aria|data)-.*)$/.test(name)) element.setAttribute(name, value);
    else Object.assign(element, { [name]: value });
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

/** Drawn on a grid of 24. @type {Record<string, string>} */
const PATHS = {
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  retry: 'M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5',
  trash: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13',
  server: 'M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.01M7.5 16h.01',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
  screen: 'M3.5 5h17v11.5h-17zM8.5 20h7M12 16.5V20',
  tool: 'M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z',
};

/** @param {keyof typeof PATHS} name */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

/**
 * A button that copies what `text` returns when it is pressed, and says that it did.
 * @param {string} label
 * @param {() => string} text
 */
export function copyButton(label, text) {
  const word = el('span', {}, label);
  const button = el('button', { class: 'quiet', type: 'button' }, icon('copy'), word);
  button.addEventListener('click', async () => {
    const done = await copy(text());
    word.textContent = done ? 'Copied' : 'Not copied';
    setTimeout(() => (word.textContent = label), 1500);
  });
  return button;
}

/** @param {string} text @returns {Promise<boolean>} */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain http on another address than loopback has no clipboard object.
    const field = el('textarea', { value: text, class: 'offstage' });
    document.body.append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    return done;
  }
}

/** Only if it differs: a live region speaks whenever it is written. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return element;
}
