/** Puts the page together. */
import { Antiphon } from '../../vendor/antiphon.js';
import { browserArea, tabArea } from '../shared/areas.js';
import { textDialog } from '../shared/dialog.js';
import { byId, copy, el, setText } from '../shared/dom.js';
import { StatusLine } from '../shared/status_line.js';
import { themeSwitch } from '../shared/theme.js';
import { Unlock } from '../shared/unlock.js';
import { Answers } from './answers.js';
import { Composer } from './composer.js';
import { Entry } from './entry.js';
import { isNamed } from './heads.js';
import { ListView } from './list_view.js';
import { LogView } from './log_view.js';
import { ModelPicker } from './model_picker.js';
import { authors, forkWords, people, typingWords } from './people.js';
import { PeopleView } from './people_view.js';
import { Rooms } from './rooms.js';
import { watchSelection } from './selection.js';
import { Shelf } from './shelf.js';
import { Spoken } from './spoken.js';
import { activityWords } from './status.js';
import { newId, placesIn, tabId } from './surroundings.js';
import { LOCAL_TIME, TOOLS, localTime } from './tools.js';
import { isOver, transcript } from './turns.js';
import { Typing } from './typing.js';

const SUGGESTIONS = [
  'What time is it where I am?',
  'Ask me a question, and wait for my answer.',
  'Write a long answer, so that I can reload the page while you write.',
];
const NOT_FOUND = 'There is no such conversation here, or it is not for you to see. Ask whoever sent you the link.';
const COPIED_MS = 1_500;

const given = new URLSearchParams(location.search);
const tab = tabArea();
const shelf = new Shelf(browserArea());
/** @type {import('./types.js').Me} */
const me = { id: null, role: 'driver', instance: tabId(tab) };
const now = () => Date.now();
let isDrawing = false;
/** Signed in where that is needed: until then there is nothing to show or to remember. */
let isIn = false;
/** The conversation to open then: of a link, of this tab before its reload, or the last one of this browser. */
let wanted = linked() ?? tab.getItem('antiphon.current') ?? shelf.heads()[0]?.id;

const page = {
  title: byId('title', HTMLButtonElement),
  share: byId('share', HTMLButtonElement),
  trouble: byId('trouble', HTMLElement),
  loading: byId('loading', HTMLElement),
  activity: byId('activity', HTMLElement),
  suggestions: byId('suggestions', HTMLElement),
  draft: byId('draft', HTMLTextAreaElement),
  ops: byId('ops', HTMLAnchorElement),
};
const unlock = new Unlock(
  {
    form: byId('unlock', HTMLFormElement),
    field: byId('key', HTMLInputElement),
    hint: byId('key-hint', HTMLElement),
    forget: byId('forget', HTMLElement),
  },
  tab,
  () => void enter(),
);
const client = new Antiphon({
  url: new URL('.', document.baseURI).href,
  auth: unlock.auth,
  name: 'antiphon-page',
  version: '2',
  instanceId: me.instance,
  tools: TOOLS.map(({ name }) => ({ name })),
});
const connection = () => client.welcome?.connection_id ?? '';
const spoken = new Spoken(byId('spoken', HTMLElement));
const status = new StatusLine(() => void tryNow());
const entry = new Entry(client, unlock, me, {
  onOffer: (models, agents) => picker.offer(models, agents),
  onLocked: () => {
    if (isIn) wanted = rooms.current.head.id;
    isIn = false;
    rooms.forget();
  },
  onChange: draw,
});
const answers = new Answers({ me: () => me, connection, onChange: draw, onNotice: notice });
const places = placesIn(tab);
const rooms = new Rooms(client, shelf, { now, newId, places, onNotice: notice, onList: drawList, onChange: onTurn });
const typing = new Typing((state, label) => rooms.current.presence(state, label), now);
const selection = watchSelection(draw);
const picker = new ModelPicker(byId('model', HTMLSelectElement), pick);
const crowd = new PeopleView(byId('people', HTMLElement));
const list = new ListView(
  {
    list: byId('list', HTMLElement),
    sidebar: byId('sidebar', HTMLElement),
    opener: byId('open-list', HTMLElement),
    shade: byId('shade', HTMLElement),
  },
  {
    open: (id) => showAfter(() => rooms.open(id)),
    remove: (id) => showAfter(() => rooms.remove(id)),
    isRunning: (id) => rooms.isRunning(id),
  },
);
const log = new LogView(
  {
    scroller: byId('scroller', HTMLElement),
    turns: byId('turns', HTMLElement),
    empty: byId('empty', HTMLElement),
    latest: byId('latest', HTMLElement),
    older: byId('older', HTMLElement),
  },
  {
    retry: (turn) => {
      rooms.current.head = { ...rooms.current.head, model: picker.select.value };
      rooms.current.retry(turn);
    },
    continueElsewhere,
    answer: (turn, answer) => {
      typing.off();
      void answers.give(turn, rooms.current.runOf(turn), answer);
    },
    held: (turn, callId) => answers.view(turn, callId),
    writing: (callId) => typing.on(callId),
    selection,
    takeFocus,
    giveFocusBack: focusDraft,
    goTo,
  },
);
const composer = new Composer(
  {
    form: byId('composer', HTMLFormElement),
    draft: page.draft,
    send: byId('send', HTMLButtonElement),
    stop: byId('stop', HTMLButtonElement),
  },
  { send, say: (text) => void say(text), stop: () => rooms.current.stop(), draftChanged },
);

/** @param {import('./thread.js').Thread} thread @param {import('./types.js').Turn | null} turn */
function onTurn(thread, turn) {
  if (turn && isOver(turn)) drawList();
  if (thread !== rooms.current) return;
  if (turn && thread.turns.includes(turn)) spoken.turn(turn);
  draw();
}

/** @param {string} message */
function notice(message) {
  status.notice(message);
  draw();
}

/** @param {string} model */
function pick(model) {
  rooms.current.head = { ...rooms.current.head, model };
  shelf.saveSetting('model', model);
}

/** @param {string} text */
function send(text) {
  status.notice('');
  typing.off();
  rooms.current.head = { ...rooms.current.head, model: picker.select.value };
  rooms.current.send(text);
  log.toEnd();
  focusDraft();
}

/** What was not taken is given back. @param {string} text */
async function say(text) {
  status.notice('');
  typing.off();
  log.toEnd();
  if (!(await rooms.current.steer(text)) && !page.draft.value) composer.write(text);
}

/** @param {string} text */
function draftChanged(text) {
  tab.setItem('antiphon.draft', text);
  if (text) typing.on();
  else typing.off();
}

/** The server lost the history: what was said goes along as input. @param {import('./types.js').Turn} turn */
function continueElsewhere(turn) {
  const context = transcript(rooms.current.turns);
  rooms.startNew(picker.select.value);
  rooms.current.send(turn.asked || 'Please go on.', context);
  log.toEnd();
}

/** Shows another branch. @param {string} key of the turn that it begins with */
function goTo(key) {
  const turn = [...rooms.current.forks.values()].flat().find((one) => one.key === key);
  if (!turn) return;
  log.chosen(key);
  rooms.current.goTo(turn);
}

/** @param {() => void} change another conversation is on the page after it */
function showAfter(change) {
  change();
  showCurrent();
}

function showCurrent() {
  picker.show(rooms.current.head.model || picker.first(shelf.setting('model')));
  status.notice('');
  draw();
  log.toEnd();
  focusDraft();
}

/** Not on a touch screen, where it would bring up the keyboard. */
function focusDraft() {
  if (matchMedia('(pointer: fine)').matches) page.draft.focus({ preventScroll: true });
}

/** A question came: somebody who waits with an empty field can answer at once. @param {HTMLElement} field */
function takeFocus(field) {
  const { draft } = page;
  if (document.activeElement === draft && !draft.value && matchMedia('(pointer: fine)').matches) field.focus();
}

async function rename() {
  const { id, title } = rooms.current.head;
  const text = await textDialog({
    title: 'What shall this conversation be called?',
    text: 'The title is kept in this browser only.',
    action: 'Rename',
    value: title,
  });
  if (text !== null) rooms.retitle(id, text);
  draw();
}

/** The link holds an id and nothing else: who opens it signs in, and sees what they may. */
async function share() {
  const link = new URL(`./?conversation=${rooms.current.head.id}`, document.baseURI).href;
  const words = page.share.querySelector('.words');
  if (!words) return;
  setText(words, (await copy(link)) ? 'Link copied' : 'Not copied');
  setTimeout(() => setText(words, 'Share'), COPIED_MS);
}

function drawList() {
  list.update(shelf.heads(), rooms.current.head.id);
}

/** At most once per frame, however many events came. */
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    const { current } = rooms;
    const { turns, problem, isLoaded } = current;
    const isLocked = entry.barred === 'locked';
    status.update(client.status, entry.barred, entry.why, navigator.onLine);
    const isEmpty = isLoaded && !turns.length && !problem;
    const fork = forksOf(current);
    log.update(turns, { isEmpty, hasMore: current.hasMore, author: authors(turns, me), fork });
    crowd.update(people(current.participants, me, connection()));
    drawHead(current);
    drawActivity(current);
    page.loading.hidden = isLoaded || turns.length > 0;
    // What bars the whole page is said in the banner.
    page.trouble.hidden = !problem || entry.barred !== null;
    setText(page.trouble, problem?.code === 'conversation_not_found' ? NOT_FOUND : (problem?.message ?? ''));
    unlock.update(isLocked);
    page.ops.hidden = !isIn || (me.role !== 'operator' && me.role !== 'admin');
    composer.update({ isBusy: current.isBusy, isUsable: !isLocked && me.role !== 'viewer' && !problem });
    for (const button of page.suggestions.querySelectorAll('button'))
      button.disabled = isLocked || me.role === 'viewer';
  });
}

/** @param {import('./thread.js').Thread} thread */
function forksOf({ forks }) {
  const told = new Map([...forks].map(([turn, all]) => [turn, forkWords(turn, all, me)]));
  for (const [turn, all] of forks)
    if (all.every(({ author }) => author !== '')) spoken.fork(turn, told.get(turn)?.words ?? '');
  return (/** @type {import('./types.js').Turn} */ turn) => told.get(turn) ?? null;
}

/** @param {import('./thread.js').Thread} thread */
function drawHead({ head, turns }) {
  const isKnown = isNamed(head.id);
  document.title = head.title ? `${head.title} · Antiphon` : 'Antiphon';
  setText(page.title, head.title || (turns.length ? 'Untitled' : 'New conversation'));
  page.title.disabled = !turns.length;
  page.share.hidden = !isKnown;
  if (!isIn) return;
  tab.setItem('antiphon.current', head.id);
  const address = new URL(isKnown ? `./?conversation=${head.id}` : './', document.baseURI).href;
  if (location.href !== address) history.replaceState(null, '', address);
}

/** @param {import('./thread.js').Thread} thread */
function drawActivity({ turns, isBusy, isRunning }) {
  const isConnected = client.status === 'open' || client.status === 'fallback';
  const does = activityWords(turns.at(-1), isConnected);
  const reads = me.role === 'viewer' ? 'Your key may read here, but not write' : '';
  const aside = isRunning && !isBusy ? 'An answer is being written in another branch' : '';
  const words = [does?.text ?? '', aside, typingWords(rooms.current.participants, me, connection()), reads].filter(
    Boolean,
  );
  setText(page.activity, words.join(' · '));
  page.activity.classList.toggle('is-busy', does?.isBusy ?? false);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key !== 'Escape' || event.isComposing || document.querySelector('dialog[open]')) return;
  if (list.isOpen) list.close();
  else rooms.current.stop();
}

function listen() {
  for (const kind of ['keydown', 'pointerdown'])
    document.addEventListener(kind, () => byId('field', HTMLElement).classList.remove('is-quiet'), { once: true });
  themeSwitch(byId('theme', HTMLElement));
  client.on('status', () => {
    if (client.status === 'open' && !picker.isFilled) void entry.check();
    draw();
  });
  client.onToolCall(LOCAL_TIME, (args) => localTime(args, new Date()));
  byId('new', HTMLElement).addEventListener('click', () => {
    list.close();
    showAfter(() => rooms.startNew(picker.select.value));
  });
  byId('older', HTMLElement).addEventListener('click', () => void rooms.current.loadMore());
  page.title.addEventListener('click', () => void rename());
  page.share.addEventListener('click', () => void share());
  document.addEventListener('keydown', onKey);
  for (const kind of ['online', 'offline'])
    window.addEventListener(kind, () => {
      client.retryNow();
      draw();
    });
  window.addEventListener('storage', (event) => rooms.onStored(event));
  for (const text of SUGGESTIONS) {
    const button = el('button', { type: 'button' }, text);
    button.addEventListener('click', () => send(text));
    page.suggestions.append(el('li', {}, button));
  }
}

/** The conversation that the address names; an address may hold anything. */
function linked() {
  return /^conv_[\w-]{1,128}$/.exec(given.get('conversation') ?? '')?.[0];
}

async function tryNow() {
  if (entry.isOutdated) location.reload();
  else if (entry.barred) await enter();
  else client.retryNow();
}

/** A key was given or taken away, or the page begins. */
async function enter() {
  if (isIn) wanted = rooms.current.head.id;
  isIn = false;
  entry.reopen();
  rooms.forget();
  await entry.check();
  if (entry.barred) return;
  client.connect().catch(() => {}); // Its status and its errors are told by events.
  isIn = true;
  const id = wanted;
  showAfter(() => (id ? rooms.open(id) : rooms.startNew('')));
  const model = given.get('model');
  if (model) {
    picker.show(model);
    pick(model);
  }
}

async function start() {
  listen();
  composer.write(tab.getItem('antiphon.draft') ?? '');
  await enter();
}

void start();
