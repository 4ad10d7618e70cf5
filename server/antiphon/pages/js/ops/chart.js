/** One small line chart. The numbers stand beside it as text; the picture is for the eye only. */
import uPlot from '../../vendor/uplot.js';
import { SAMPLES } from './series.js';

/** @typedef {import('./series.js').Series} Series */

/** @type {import('../../vendor/uplot.js').default.Axis} */
const NO_AXIS = { show: false };

export class Chart {
  /** @type {uPlot | null} */
  #plot = null;
  #width = 0;

  /**
   * @param {HTMLElement} place its width decides that of the chart
   * @param {Series} series
   * @param {readonly string[]} colours names of custom properties, one for each line
   */
  constructor(place, series, colours) {
    this.place = place;
    this.series = series;
    this.colours = colours;
    new ResizeObserver(([entry]) => this.#resize(entry.contentRect.width)).observe(place);
  }

  draw() {
    this.#plot?.setData([this.series.times, ...this.series.values]);
  }

  /** Other colours are chosen: the lines are drawn with them. */
  recolour() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#resize(this.#width);
  }

  /** @param {number} width */
  #resize(width) {
    this.#width = Math.floor(width);
    if (!this.#width) return;
    const height = this.place.clientHeight;
    if (this.#plot) this.#plot.setSize({ width: this.#width, height });
    else this.#plot = this.#make(height);
  }

  /** @param {number} height */
  #make(height) {
    const lines = this.colours.map((name, index) => {
      const stroke = colourOf(this.place, name);
      // The first line stands on a soft ground, the others are thin.
      const fill = index === 0 ? colourOf(this.place, `${name}-ground`) : undefined;
      return { stroke, fill, width: 1.5, points: { show: false }, spanGaps: true };
    });
    return new uPlot(
      {
        width: this.#width,
        height,
        padding: [3, 0, 1, 0],
        legend: { show: false },
        cursor: { show: false },
        axes: [NO_AXIS, NO_AXIS],
        scales: {
          x: { time: false, range: (_, __, newest) => [newest - SAMPLES, newest] },
          y: { range: (_, __, most) => [0, Math.max(most, 1)] },
        },
        series: [{}, ...lines],
      },
      [this.series.times, ...this.series.values],
      this.place,
    );
  }
}

/** A canvas knows no custom properties. @param {HTMLElement} near @param {string} name */
function colourOf(near, name) {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  near.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
