/**
 * A run shown again from its start. The log keeps no times of its events, so they are spread evenly over the time
 * that the run took.
 */

/** A run of one event, or one that took no time, is still to be seen. */
const SHORTEST_S = 1;

export class Replay {
  /**
   * @param {number} events how many the run has
   * @param {number} lasted seconds that it took
   * @param {number} speed 1: as long as the run; infinite: at once
   * @param {number} now seconds on any clock
   */
  constructor(events, lasted, speed, now) {
    this.events = events;
    this.speed = speed;
    this.seconds = Number.isFinite(speed) ? Math.max(lasted, SHORTEST_S) / speed : 0;
    this.begun = now;
  }

  /** @param {number} now @returns {number} how many of the events are to be seen */
  position(now) {
    if (this.seconds === 0) return this.events;
    const part = Math.min(1, (now - this.begun) / this.seconds);
    return Math.max(0, Math.floor(part * this.events));
  }
}
