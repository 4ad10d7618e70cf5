/** The line of totals with their charts. */
import { el, setText } from '../shared/dom.js';
import { Chart } from './chart.js';
import { markEdges } from './edges.js';
import { Series } from './series.js';
import { count, milliseconds, minuteOfDay, rate } from './words.js';

const ERROR_LINES = 3;

export class FiguresView {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.runs = new Figure(place, 'runs', 'Runs live', ['--line-1', '--line-2']);
    this.events = new Figure(place, 'events', 'Events a second', ['--line-1']);
    this.tokens = new Figure(place, 'tokens', 'Tokens a second', ['--line-1']);
    this.firstToken = new Figure(place, 'first-token', 'First token, p50 and p99', ['--line-1', '--line-2']);
    this.errors = new Figure(place, 'errors', 'Errors by code', ['--line-3', '--line-2', '--line-1']);
    this.all = [this.runs, this.events, this.tokens, this.firstToken, this.errors];
    markEdges(place);
  }

  /**
   * One sample a second.
   * @param {object} sample
   * @param {number} sample.at Unix seconds
   * @param {ReturnType<typeof import('./arrange.js').totals>} sample.totals
   * @param {number | null} sample.eventsPerS @param {number | null} sample.tokensPerS
   * @param {import('./types.js').Quantiles | undefined} sample.firstToken undefined: not to be known here
   * @param {Map<string, number>} sample.errors what is new
   * @param {[string, number][]} sample.errorSums the largest first
   * @param {number | null} sample.errorsSince from when on they are counted, Unix seconds; null: not yet
   */
  take({ at, totals, eventsPerS, tokensPerS, firstToken, errors, errorSums, errorsSince }) {
    this.runs.take(at, [totals.live, totals.waiting]);
    this.events.take(at, [eventsPerS]);
    this.tokens.take(at, [tokensPerS]);
    this.firstToken.take(at, [firstToken?.p50 ?? null, firstToken?.p99 ?? null]);
    const named = errorSums.slice(0, ERROR_LINES).map(([code]) => errors.get(code) ?? 0);
    this.errors.take(
      at,
      Array.from({ length: ERROR_LINES }, (_, index) => named[index] ?? 0),
    );
    this.events.say(rate(eventsPerS ?? 0));
    this.tokens.say(rate(tokensPerS ?? 0), 'of output, about');
    this.#sayFirstToken(firstToken);
    if (errorsSince !== null) this.#sayErrors(errorSums, errorsSince);
  }

  /** @param {ReturnType<typeof import('./arrange.js').totals>} totals of what the table knows of */
  count(totals) {
    this.runs.say(count(totals.live), `${count(totals.waiting)} waiting, ${count(totals.queued)} queued`);
  }

  recolour() {
    for (const { chart } of this.all) chart.recolour();
  }

  /** @param {import('./types.js').Quantiles | undefined} firstToken */
  #sayFirstToken(firstToken) {
    if (firstToken === undefined) this.firstToken.say('–', 'admins see it');
    else if (!firstToken) this.firstToken.say('–', 'no call yet');
    else this.firstToken.say(milliseconds(firstToken.p50), `p99 ${milliseconds(firstToken.p99)}`);
  }

  /** The table has runs that failed before; that these are not among them is said. @param {[string, number][]} sums @param {number} since */
  #sayErrors(sums, since) {
    const all = sums.reduce((sum, [, more]) => sum + more, 0);
    const words = sums.slice(0, ERROR_LINES).map(([code, more]) => `${count(more)} ${code}`);
    this.errors.say(count(all), `${words.join(', ') || 'none'} since ${minuteOfDay(since)}`);
  }
}

class Figure {
  /** @param {HTMLElement} place @param {string} id @param {string} name @param {readonly string[]} colours */
  constructor(place, id, name, colours) {
    this.value = el('span', { class: 'figure-value' }, '–');
    this.more = el('span', { class: 'figure-more' });
    const picture = el('div', { class: 'figure-chart', 'aria-hidden': 'true' });
    const words = el('p', { class: 'figure-words' }, this.value, ' ', this.more);
    place.append(el('div', { class: 'figure', id: `figure-${id}` }, el('h3', {}, name), words, picture));
    this.series = new Series(colours.length);
    this.chart = new Chart(picture, this.series, colours);
  }

  /** @param {number} at @param {readonly (number | null)[]} sample */
  take(at, sample) {
    this.series.push(at, sample);
    this.chart.draw();
  }

  /** @param {string} value @param {string} [more] */
  say(value, more = '') {
    setText(this.value, value);
    setText(this.more, more);
    this.more.title = more;
  }
}
