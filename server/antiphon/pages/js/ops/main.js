/** Lets the reader in, then shows the page. */
import { Antiphon, AntiphonError } from '../../vendor/antiphon.js';
import { tabArea } from '../shared/areas.js';
import { byId, setText } from '../shared/dom.js';
import { themeSwitch } from '../shared/theme.js';
import { Unlock } from '../shared/unlock.js';
import { Api } from './api.js';
import { Page } from './page.js';

const RETRY_MS = 2_000;

const unlock = new Unlock(
  {
    form: byId('unlock', HTMLFormElement),
    field: byId('key', HTMLInputElement),
    hint: byId('key-hint', HTMLElement),
    forget: byId('forget', HTMLElement),
  },
  tabArea(),
  // Whatever was shown was shown to somebody else.
  () => (isOpen ? location.reload() : void enter()),
);
let isOpen = false;

async function enter() {
  const client = new Antiphon({ url: new URL('.', document.baseURI).href, auth: unlock.auth, name: 'antiphon-ops' });
  try {
    const caller = await new Api(client).me();
    isOpen = true;
    unlock.update(false);
    client.on('error', (error) => error.status === 401 && lock());
    byId('overview', HTMLElement).hidden = false;
    new Page(client, caller).start();
  } catch (error) {
    client.close();
    if (error instanceof AntiphonError && error.status === 401) lock();
    else retry(error instanceof Error ? error.message : String(error));
  }
}

function lock() {
  unlock.refused();
  unlock.update(true);
  say('bad', 'Key needed');
}

/** @param {string} why */
function retry(why) {
  say('bad', 'Not connected');
  setText(/** @type {Element} */ (byId('banner', HTMLElement).querySelector('.words')), why);
  byId('banner', HTMLElement).hidden = false;
  setTimeout(() => void enter(), RETRY_MS);
}

/** @param {string} tone @param {string} text */
function say(tone, text) {
  const line = byId('connection', HTMLElement);
  line.dataset.tone = tone;
  setText(/** @type {Element} */ (line.querySelector('.words')), text);
}

themeSwitch(byId('theme', HTMLElement));
void enter();
