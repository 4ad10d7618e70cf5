/** Puts the page together. */
import { fetchModels, fetchResponse, fetchTicket } from './api.js';
import { Chat } from './chat.js';
import { Composer } from './composer.js';
import { Connection } from './connection.js';
import { answerText, isBusy, openQuestions } from './conversation.js';
import { byId, el } from './dom.js';
import { ListView } from './list_view.js';
import { LogView } from './log_view.js';
import { ModelPicker } from './model_picker.js';
import { Runs } from './runs.js';
import { Shell } from './shell.js';
import { LOCKED, outcomeWords } from './status.js';
import { forConnection, later, newId, now, socketUrl, storage, tab, tabId } from './surroundings.js';
import { isOver } from './turn.js';
import { Unlock } from './unlock.js';

const SUGGESTIONS = [
  'What time is it where I am?',
  'Ask me a question, and wait for my answer.',
  'Write a long answer, so that I can reload the page while you write.',
];
/** Failed attempts in a row after which HTTP is asked whether the server is there and wants a key. */
const ASK_HTTP_AFTER = 2;

const asked = new URLSearchParams(location.search);
const me = tabId();
const suggestions = byId('suggestions', HTMLElement);
/** Calls that were announced to a screen reader. @type {Set<string>} */
const announced = new Set();
let failures = 0;
let isDrawing = false;

const unlock = new Unlock(
  {
    form: byId('unlock', HTMLFormElement),
    field: byId('key', HTMLInputElement),
    hint: byId('key-hint', HTMLElement),
    forget: byId('forget', HTMLElement),
  },
  tab,
  enter,
);
/** @type {Connection} */
const connection = new Connection(
  socketUrl(),
  me,
  {
    onState,
    onFrame: (frame) => runs.onFrame(frame),
    isBusy: () => runs.isBusy,
    ticket: () => (unlock.key ? fetchTicket(unlock.key) : null),
    onUnauthorized: lock,
  },
  forConnection,
);
/** @type {Runs} */
const runs = new Runs(connection, {
  onChange: onTurn,
  onNotice: notice,
  fetchResponse: (id) => fetchResponse(id, unlock.key),
  later,
  now,
});
const chat = new Chat(storage, runs, { me, now, newId, later, onChange: onConversation, onList: drawList });
const shell = new Shell(tryNow);
const picker = new ModelPicker(byId('model', HTMLSelectElement), pick);
const list = new ListView(
  {
    list: byId('list', HTMLElement),
    sidebar: byId('sidebar', HTMLElement),
    opener: byId('open-list', HTMLElement),
    shade: byId('shade', HTMLElement),
  },
  { open: (id) => chat.open(id) && showCurrent(), remove, isRunning: (id) => chat.isRunning(id) },
);
const log = new LogView(
  {
    scroller: byId('scroller', HTMLElement),
    turns: byId('turns', HTMLElement),
    empty: byId('empty', HTMLElement),
    latest: byId('latest', HTMLElement),
  },
  {
    retry: (turn) => chat.retry(turn),
    continueElsewhere: (turn) => chat.continueElsewhere(turn),
    answer: (turn, item) => runs.held.answer(turn, item),
    held: (callId) => runs.held.view(callId),
    takeFocus,
    giveFocusBack: focusDraft,
  },
);
const composer = new Composer(
  {
    form: byId('composer', HTMLFormElement),
    draft: byId('draft', HTMLTextAreaElement),
    send: byId('send', HTMLButtonElement),
    stop: byId('stop', HTMLButtonElement),
  },
  { send, stop: () => chat.stop(), draftChanged: (text) => tab.setItem('antiphon.draft', text) },
);

/** @param {import('./types.js').ConnectionState} state */
function onState(state) {
  if (state.phase === 'open') {
    failures = 0;
    runs.onOpen();
    if (!picker.isFilled) void askServer();
  }
  if (state.phase === 'waiting') {
    failures += 1;
    if (failures > ASK_HTTP_AFTER) void askServer().then(() => runs.pollOnce());
  }
  draw();
}

/** Which models there are, and on the way whether this page is welcome at all. */
async function askServer() {
  const { models, status } = await fetchModels(unlock.key);
  if (status === 401) lock();
  else if (status === 403)
    connection.giveUp('refused', 'The server does not answer to the address in the address bar.');
  else if (models.length) picker.offer(models);
  draw();
}

/** The server wants a key, or another one. */
function lock() {
  unlock.refused();
  connection.giveUp('locked', LOCKED);
}

/** There is a key now, or none any more. */
async function enter() {
  connection.giveUp('locked', LOCKED);
  await askServer();
  if (unlock.key) connection.connect();
}

/** @param {import('./types.js').Turn} turn @param {boolean} important */
function onTurn(turn, important) {
  chat.onTurn(turn, important);
  if (!chat.current.turns.includes(turn)) return;
  if (isOver(turn)) shell.speak(outcomeWords(turn)?.text ?? answerText(turn));
  for (const { id, words } of openQuestions(turn)) {
    if (!announced.has(id)) shell.speak(words);
    announced.add(id);
  }
}

function onConversation() {
  tab.setItem('antiphon.current', chat.current.id);
  draw();
}

/** @param {string} message */
function notice(message) {
  shell.notice(message);
  draw();
}

/** @param {string} model */
function pick(model) {
  chat.current.model = model;
  storage.saveSetting('model', model);
}

/** @param {string} text */
function send(text) {
  shell.notice('');
  chat.current.model = picker.select.value;
  chat.send(text);
  log.toEnd();
  focusDraft();
}

/** @param {string} id */
function remove(id) {
  chat.remove(id);
  showCurrent();
}

function startNew() {
  chat.startNew(picker.select.value);
  list.close();
  showCurrent();
}

/** Another conversation is on the page now. */
function showCurrent() {
  picker.show(chat.current.model || picker.first(storage.setting('model')));
  shell.notice('');
  draw();
  log.toEnd();
  focusDraft();
}

/** Not on a touch screen, where it would bring up the keyboard. */
function focusDraft() {
  if (matchMedia('(pointer: fine)').matches) byId('draft', HTMLElement).focus({ preventScroll: true });
}

/** A question came: somebody who waits with an empty field can answer at once. @param {HTMLElement} field */
function takeFocus(field) {
  const draft = byId('draft', HTMLTextAreaElement);
  if (document.activeElement === draft && !draft.value && matchMedia('(pointer: fine)').matches) field.focus();
}

function tryNow() {
  connection.connect();
}

function drawList() {
  list.update(storage.heads(), chat.current.id);
}

/** At most once per frame, however many events came. */
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    const { state } = connection;
    document.title = chat.current.title ? `${chat.current.title} · Antiphon` : 'Antiphon';
    shell.update(state, navigator.onLine, chat.current, now());
    log.update(chat.current);
    unlock.update(state.phase === 'locked');
    composer.update({ isBusy: isBusy(chat.current), isUsable: state.phase !== 'locked' });
    for (const button of suggestions.querySelectorAll('button')) button.disabled = state.phase === 'locked';
    if (state.phase === 'waiting') later(draw, 250);
  });
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key !== 'Escape' || event.isComposing) return;
  if (list.isOpen) list.close();
  else chat.stop();
}

function listen() {
  for (const kind of ['keydown', 'pointerdown'])
    document.addEventListener(kind, () => byId('field', HTMLElement).classList.remove('is-quiet'), { once: true });
  byId('new', HTMLElement).addEventListener('click', startNew);
  document.addEventListener('keydown', onKey);
  window.addEventListener('online', () => connection.wake());
  window.addEventListener('offline', () => {
    connection.probe();
    draw();
  });
  window.addEventListener('pageshow', (event) => event.persisted && connection.wake());
  window.addEventListener('pagehide', () => chat.flush());
  document.addEventListener('visibilitychange', () => (document.hidden ? chat.flush() : connection.wake()));
  window.addEventListener('storage', (event) => {
    const change = storage.read(event);
    if (change) chat.onStored(change);
  });
  for (const text of SUGGESTIONS) {
    const button = el('button', { type: 'button' }, text);
    button.addEventListener('click', () => send(text));
    suggestions.append(el('li', {}, button));
  }
}

/** The conversation that this tab had open, else the last one of this browser. */
function reopen() {
  const known = tab.getItem('antiphon.current');
  const id = known ?? storage.heads()[0]?.id;
  if (!id || !chat.open(id)) chat.startNew('');
}

async function start() {
  listen();
  reopen();
  composer.write(tab.getItem('antiphon.draft') ?? '');
  await askServer();
  showCurrent();
  const model = asked.get('model');
  if (model) {
    picker.show(model);
    chat.current.model = model;
  }
  if (connection.state.phase === 'connecting') connection.connect();
}

void start();
