/** Light, dark, or as the system is: chosen once for all pages of this server in this browser. */
import { browserArea } from './areas.js';
import { icon } from './dom.js';

const NAME = 'antiphon.theme';

/** @typedef {'system' | 'light' | 'dark'} Theme */

/** @type {Record<Theme, {next: Theme, icon: 'screen' | 'sun' | 'moon', words: string}>} */
const THEMES = {
  system: { next: 'light', icon: 'screen', words: 'as the system' },
  light: { next: 'dark', icon: 'sun', words: 'light' },
  dark: { next: 'system', icon: 'moon', words: 'dark' },
};

/**
 * Makes a button that changes the colours, and says which are chosen.
 * @param {HTMLElement} button
 */
export function themeSwitch(button) {
  const area = browserArea();
  const show = () => {
    const theme = themeIn(area);
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.replaceChildren(icon(THEMES[theme].icon));
    button.setAttribute('aria-label', `Colours: ${THEMES[theme].words}`);
    button.title = `Colours: ${THEMES[theme].words}`;
  };
  button.addEventListener('click', () => {
    area.setItem(NAME, THEMES[themeIn(area)].next);
    show();
  });
  window.addEventListener('storage', (event) => event.key === NAME && show());
  show();
}

/** @param {Pick<Storage, 'getItem'>} area @returns {Theme} */
export function themeIn(area) {
  const kept = area.getItem(NAME);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}
