/** Who is attached to a run: connections, or counts where there are many. */
import { el } from '../shared/dom.js';
import { count } from './words.js';

/** @typedef {import('./types.js').RunState} RunState */

export class PeopleView {
  #said = '';

  constructor() {
    this.element = el('ul', { class: 'facts-list' });
  }

  /** @param {RunState | null} run */
  update(run) {
    const participants = run?.participants ?? [];
    const said = JSON.stringify(participants);
    if (said === this.#said) return;
    this.#said = said;
    const lines = participants.map((participant) => line(participant));
    this.element.replaceChildren(...(lines.length ? lines : [el('li', { class: 'muted' }, 'Nobody is attached.')]));
  }
}

/** @param {NonNullable<RunState['participants']>[number]} participant */
function line(participant) {
  if ('count' in participant) {
    return el('li', {}, el('strong', {}, count(participant.count)), ` ${participant.role}s, ${participant.state}`);
  }
  const { principal, role, state, label } = participant;
  return el(
    'li',
    {},
    el(
      'p',
      { class: 'fact-name' },
      el('strong', {}, principal),
      el('span', { class: 'muted' }, role),
      el('span', { class: 'standing' }, label ? `${state} ${label}` : state),
    ),
  );
}
