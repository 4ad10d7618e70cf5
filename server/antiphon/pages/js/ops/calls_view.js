/** The tool calls of a run: what was asked, who answered, and how long is left. */
import { el, setText } from '../shared/dom.js';
import { milliseconds, untilDeadline } from './words.js';

/** @typedef {import('./calls.js').Call} Call */

const STAGES = { waiting: 'Waiting', busy: 'Under way', done: 'Answered', failed: 'Failed' };

export class CallsView {
  /** @type {Map<string, CallView>} */
  #views = new Map();

  constructor() {
    this.nothing = el('p', { class: 'muted' }, 'No calls.');
    this.list = el('ul', { class: 'facts-list' });
    this.element = el('div', {}, this.nothing, this.list);
  }

  /** @param {readonly Call[]} calls @param {number} now Unix seconds */
  update(calls, now) {
    this.nothing.hidden = calls.length > 0;
    const ids = new Set(calls.map(({ id }) => id));
    for (const [id, view] of this.#views) {
      if (ids.has(id)) continue;
      view.element.remove();
      this.#views.delete(id);
    }
    for (const call of calls) {
      let view = this.#views.get(call.id);
      if (!view) {
        view = new CallView();
        this.#views.set(call.id, view);
        this.list.append(view.element);
      }
      view.update(call, now);
    }
  }
}

class CallView {
  constructor() {
    this.name = el('strong');
    this.who = el('span', { class: 'muted' });
    this.word = el('span');
    this.standing = el('span', { class: 'standing' }, el('span', { class: 'dot' }), this.word);
    this.given = el('pre', { class: 'stream-words' });
    this.output = el('pre', { class: 'stream-words stream-output' });
    const head = el('p', { class: 'fact-name' }, this.name, this.who, this.standing);
    this.element = el('li', {}, head, this.given, this.output);
  }

  /** @param {Call} call @param {number} now */
  update(call, now) {
    setText(this.name, call.name);
    setText(this.who, whoWords(call));
    setText(this.word, stageWords(call, now));
    this.standing.dataset.tone = { waiting: 'busy', busy: 'busy', done: 'good', failed: 'bad' }[call.stage];
    this.element.title = call.id;
    setText(this.given, call.given);
    this.given.hidden = !call.given;
    setText(this.output, call.output);
    this.output.hidden = !call.output;
  }
}

/** @param {Call} call */
function whoWords({ owner, by, stage }) {
  const holder = by && (stage === 'waiting' ? `held by ${by}` : `by ${by}`);
  return [owner && `tool of the ${owner}`, holder].filter(Boolean).join(', ');
}

/** @param {Call} call @param {number} now */
function stageWords({ stage, deadline, durationMs }, now) {
  if (stage === 'waiting' && deadline !== null) return `${STAGES.waiting}, ${untilDeadline(deadline, now)}`;
  return durationMs === null ? STAGES[stage] : `${STAGES[stage]} in ${milliseconds(durationMs)}`;
}
