/** The panel about one run. */
import { copyButton, el, setText } from '../shared/dom.js';
import { clients } from './arrange.js';
import { mayCancel, atLeast } from './api.js';
import { callsOf } from './calls.js';
import { CallsView } from './calls_view.js';
import { ChainView } from './chain_view.js';
import { PeopleView } from './people_view.js';
import { ReplayView } from './replay_view.js';
import { about, ageWords, costWords, pendingWords, tokenWords } from './row_view.js';
import { StateMark } from './state_mark.js';
import { steersOf } from './steers.js';
import { SteersView } from './steers_view.js';
import { StreamView } from './stream_view.js';
import { Tabs } from './tabs.js';
import { TimelineView } from './timeline_view.js';
import { ENDED, count, rate, shortId, timeOfDay } from './words.js';

/**
 * @typedef {import('./open_run.js').OpenRun} OpenRun
 * @typedef {import('./types.js').RunState} RunState
 * @typedef {import('./types.js').Row} Row
 */

/** Values with more signs than this stand in two columns. */
const LONG = 18;
/** How near to its end a stream has to be to be followed. */
const NEAR_PX = 60;

export class RunView {
  /** @type {OpenRun | null} */
  #open = null;

  /**
   * @param {{close: () => void, cancel: (run: RunState) => void, steer: (run: RunState) => void, draw: () => void,
   *   open: (run: string) => void, addressOf: (run: string) => string}} does
   */
  constructor(does) {
    this.mark = new StateMark();
    this.title = el('h2', { id: 'panel-title', tabIndex: -1 });
    this.close = button('Close', 'plain', does.close);
    this.cancel = button('Cancel run', 'danger', () => this.#open?.run && does.cancel(this.#open.run));
    this.steer = button('Steer', 'plain', () => this.#open?.run && does.steer(this.#open.run));
    this.chat = el('a', { class: 'plain button' }, 'Open in chat');
    this.note = el('p', { class: 'note', role: 'status' });
    this.chain = new ChainView(does);
    this.steers = new SteersView();
    this.facts = new Facts();
    this.stream = new StreamView();
    this.calls = new CallsView();
    this.timeline = new TimelineView();
    this.people = new PeopleView();
    this.replay = new ReplayView(() => this.#open);
    const parts = {
      stream: { title: 'Stream', content: el('div', {}, this.replay.element, this.stream.element) },
      calls: { title: 'Calls', content: this.calls.element },
      timeline: { title: 'Timeline', content: this.timeline.element },
      people: { title: 'Attached', content: this.people.element },
    };
    this.tabs = new Tabs('About this run', parts, does.draw);
    const copy = copyButton('Copy id', () => this.#open?.id ?? '');
    this.element = el(
      'div',
      { class: 'panel-body' },
      el('header', { class: 'panel-head' }, this.mark.element, this.title, copy, this.close),
      el('div', { class: 'panel-acts' }, this.cancel, this.steer, this.chat),
      this.note,
      this.chain.element,
      this.steers.element,
      this.facts.element,
      this.tabs.element,
    );
  }

  /** Another run is open. @param {OpenRun} open */
  show(open) {
    this.#open = open;
    this.tabs.choose('stream');
    setText(this.title, shortId(open.id));
    this.title.title = open.id;
  }

  /**
   * @param {OpenRun} open @param {Row | undefined} row @param {import('./types.js').Caller | null} caller
   * @param {number} now Unix seconds
   */
  update(open, row, caller, now) {
    open.update(row?.run);
    const run = open.run;
    const isLive = run !== null && !ENDED.has(run.state);
    this.mark.element.hidden = run === null;
    if (run) this.mark.update(run.state);
    this.cancel.hidden = !run || !isLive || !mayCancel(caller, run);
    this.steer.hidden = !run || !isLive || !atLeast(caller, 'driver');
    this.chat.hidden = !run?.conversation_id;
    if (run?.conversation_id) this.chat.href = `./?conversation=${encodeURIComponent(run.conversation_id)}`;
    setText(this.note, noteOf(open, run));
    this.note.hidden = !this.note.textContent;
    this.chain.update(open.before, open.chain.followers(run), run?.terminal?.successor ?? '');
    this.steers.update(steersOf(run, open.said));
    this.facts.update(run, row, now);
    this.#updateParts(open, run, isLive, now);
  }

  /** @param {OpenRun} open @param {RunState | null} run @param {boolean} isLive @param {number} now */
  #updateParts(open, run, isLive, now) {
    const calls = callsOf(open.wholeOutput, run, open.timeline);
    this.tabs.count('calls', calls.length);
    this.tabs.count('people', run ? clients({ run }) : 0);
    if (this.tabs.chosen === 'stream') {
      const { scrollHeight, scrollTop, clientHeight } = this.element;
      // Who has not gone down to its end looks at what stands above it.
      const isFollowed = scrollTop > 0 && scrollHeight - scrollTop - clientHeight < NEAR_PX;
      this.replay.update(open, isLive);
      this.stream.update(open.output());
      if (isFollowed && (isLive || open.isPlaying)) this.element.scrollTop = this.element.scrollHeight;
    }
    if (this.tabs.chosen === 'calls') this.calls.update(calls, now);
    if (this.tabs.chosen === 'timeline') this.timeline.update(open.timeline, run?.created_at ?? 0, open.hasTimeline);
    if (this.tabs.chosen === 'people') this.people.update(run);
  }
}

/** @param {string} title @param {string} kind @param {() => void} act */
function button(title, kind, act) {
  const element = el('button', { class: kind, type: 'button' }, title);
  element.addEventListener('click', act);
  return element;
}

/** @param {OpenRun} open @param {RunState | null} run */
function noteOf(open, run) {
  if (open.problem && !open.events) return wordsOfProblem(open.problem);
  if (!run) return 'Looking for this run…';
  const { terminal } = run;
  if (terminal?.status === 'cancelled') return `Cancelled${terminal.by ? ` by ${terminal.by}` : ''}.`;
  if (terminal?.code) return `${terminal.status === 'failed' ? 'Failed' : 'Ended early'}: ${terminal.code}.`;
  if (run.degraded) return 'The store is away; the end of this run waits for it.';
  if (run.stalled) return 'Nothing has come from the upstream for a while.';
  return '';
}

/** @param {import('../../vendor/antiphon.js').AntiphonError} problem */
function wordsOfProblem({ code, message }) {
  return code === 'response_not_found' ? 'There is no such run any more, or you may not see it.' : message;
}

class Facts {
  /** @type {Map<string, {pair: HTMLElement, value: HTMLElement}>} */
  #pairs = new Map();

  constructor() {
    this.element = el('dl', { class: 'facts' });
  }

  /** @param {RunState | null} run @param {Row | undefined} row @param {number} now */
  update(run, row, now) {
    this.element.hidden = run === null;
    if (!run) return;
    const facts = factsOf(run, row, now);
    for (const [name, value] of facts) {
      const { pair, value: element } = this.#pairs.get(name) ?? this.#add(name);
      pair.hidden = !value;
      setText(element, value);
      pair.classList.toggle('is-long', value.length > LONG);
    }
  }

  /** @param {string} name */
  #add(name) {
    const value = el('dd');
    const pair = el('div', {}, el('dt', {}, name), value);
    this.element.append(pair);
    const added = { pair, value };
    this.#pairs.set(name, added);
    return added;
  }
}

/** @param {RunState} run @param {Row | undefined} row @param {number} now @returns {[string, string][]} */
function factsOf(run, row, now) {
  const { usage } = run;
  const isEstimate = run.usage_estimated === true;
  const output = row ? tokenWords(row) : about(isEstimate, count(usage?.output_tokens ?? 0));
  const fallback = run.fallback_from ? `${run.model}, in place of ${run.fallback_from}` : run.model;
  return [
    ['Agent', run.agent ?? ''],
    ['Model', fallback],
    ['Upstream', run.upstream ?? ''],
    ['By', run.principal],
    ['Tenant', run.tenant],
    ['Through', run.origin],
    ['Began', timeOfDay(run.created_at)],
    ['Age', `${ENDED.has(run.state) ? 'took ' : ''}${ageWords({ run }, now)}`],
    ['Step', String(run.step ?? 0)],
    ['Tool', run.current_tool ?? ''],
    ['Waits for', pendingWords({ run }, now)],
    ['Tokens', `${usage ? `${about(isEstimate, count(usage.input_tokens))} in, ` : ''}${output} out`],
    ['Tokens a second', row?.tokensPerS ? rate(row.tokensPerS) : ''],
    ['Cost', costWords({ run })],
    [
      'Labels',
      Object.entries(run.labels ?? {})
        .map(([name, value]) => `${name}=${value}`)
        .join(', '),
    ],
  ];
}
