/** The runs of one socket: creates on lanes, attachments, and where each frame belongs (PROTOCOL 4, 10.3). */
import { isTerminal } from '../core/accumulate.js';
import { attachFields } from '../core/cursor.js';
import { toError, type AntiphonError } from '../core/errors.js';
import type { LogEvent, Response, RunAttached, RunState } from '../wire/index.js';
import type { Run } from './run.js';
import { ConnectionLost, type Frame, type Socket } from './socket.js';

/** Below the 32 names a connection has; each carries one run after the other. */
const MOST_LANES = 30;

/** Refusals that are about this connection only: the next one is asked again. */
const ELSEWHERE = new Set(['server_draining', 'websocket_connection_limit_reached']);

interface Lane {
  readonly name: string;
  /** The run whose frames come here. */
  run: Run | null;
  /** Sent and not yet begun. */
  asked: Run | null;
  /** A turn goes on here, whether somebody reads it or not. */
  isBusy: boolean;
  usedAt: number;
}

/** What the lanes tell of. */
export interface LanesOwner {
  /** The run with this id as this client knows it, or a new one. */
  runOf(id: string): Run;
  /** A run that goes on already, or null. */
  known(id: string): Run | null;
  onState(state: RunState): void;
  /** A run of a conversation, or one that follows another. */
  onRun(run: Run): void;
  /** This connection takes no more creates. */
  onExhausted(): void;
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #attachments = new Map<string, Run>();
  /** Creates for which no lane is free. */
  readonly #queue: Run[] = [];
  /** Frames of lanes whose run may be one of our own creates, which has no id yet. */
  readonly #held = new Map<string, Frame[]>();
  /** Runs whose attach is not answered: what comes meanwhile may have a hole. */
  readonly #attaching = new Set<Run>();

  constructor(
    private readonly socket: Socket,
    private readonly owner: LanesOwner,
  ) {}

  /** Brings the run's log: from its cursor on, or by creating it. */
  follow(run: Run): void {
    if (run.id !== null) this.#attach(run);
    else this.#create(run);
  }

  /** The run is not wanted any more. */
  leave(run: Run): void {
    const queued = this.#queue.indexOf(run);
    if (queued >= 0) this.#queue.splice(queued, 1);
    for (const [name, attached] of this.#attachments) {
      if (attached !== run) continue;
      this.#attachments.delete(name);
      this.socket.command('antiphon:detach', { response_id: run.id }).catch(() => {});
    }
  }

  /** Gives true if the frame was for a run. */
  take(frame: Frame): boolean {
    const name = frame.stream_id;
    if (frame.type === 'antiphon:run') this.owner.onState(frame['state'] as RunState);
    else if (name === undefined) return false;
    else if (frame.type === 'antiphon:run_attached') this.#runAttached(name, frame);
    else if (this.#held.has(name)) this.#held.get(name)!.push(frame);
    else if (frame.type === 'antiphon:detached') this.#detached(name, frame);
    else if (frame.type === 'error') this.#refused(name, frame);
    else if (frame['sequence_number'] !== undefined && !isBeside(frame.type))
      this.#event(name, frame as unknown as LogEvent);
    return true;
  }

  // Creates

  #create(run: Run): void {
    const lane = this.#choose(run);
    if (!lane) {
      this.#queue.push(run);
      return;
    }
    const { create, key } = run.asked!;
    lane.asked = run;
    lane.usedAt = Date.now();
    this.socket.send({ ...create, type: 'response.create', stream_id: lane.name, idempotency_key: key });
  }

  /** The parent's own lane, so that what hangs on it is found; else one that was not used for the longest time. */
  #choose(run: Run): Lane | null {
    const parent = run.asked!.create.previous_response_id;
    let best: Lane | null = null;
    for (const lane of this.#lanes.values()) {
      if (lane.asked || lane.isBusy || (lane.run && awaitsSuccessor(lane.run))) continue;
      if (parent && lane.run?.id === parent) return lane;
      if (!best || lane.usedAt < best.usedAt) best = lane;
    }
    if (this.#lanes.size >= MOST_LANES) return best;
    const lane: Lane = { name: `run.${this.#lanes.size + 1}`, run: null, asked: null, isBusy: false, usedAt: 0 };
    this.#lanes.set(lane.name, lane);
    return lane;
  }

  #refused(name: string, frame: Frame): void {
    const lane = this.#lanes.get(name);
    const run = lane?.asked;
    if (!lane || !run) return;
    lane.asked = null;
    const error = toError(frame['error'], frame['status'] as number);
    if (ELSEWHERE.has(error.code)) this.owner.onExhausted();
    else run.fail(error);
    this.#freed();
  }

  #freed(): void {
    if (this.#queue.length) this.#create(this.#queue.shift()!);
    if (![...this.#lanes.values()].some((lane) => lane.asked)) this.#letGo();
  }

  // Events

  #event(name: string, event: LogEvent): void {
    const lane = this.#lanes.get(name);
    const run = lane ? this.#onLane(lane, event) : this.#attachments.get(name);
    if (lane) lane.isBusy = !isTerminal(event);
    if (run && !run.take(event) && !this.#attaching.has(run)) this.#attach(run);
    if (lane && !lane.isBusy) this.#freed();
  }

  /** Whose event of a lane of ours this is: `response.created` begins the run that was asked for, or a successor. */
  #onLane(lane: Lane, event: LogEvent): Run | null {
    if (event.type !== 'response.created') return lane.run;
    const { id, previous_response_id: parent } = event.response as Response;
    const { run: last, asked } = lane;
    if (last && isSuccessor(last, id, parent, asked)) {
      lane.run = this.owner.runOf(id);
      last.followedBy(lane.run);
      this.owner.onRun(lane.run);
    } else if (asked) {
      lane.run = asked;
      lane.asked = null;
      queueMicrotask(() => this.#freed());
    }
    return lane.run;
  }

  // Attachments

  #attach(run: Run): void {
    this.#attaching.add(run);
    const fields = { response_id: run.id, ...attachFields(run.isFromNow ? { epoch: null, after: -1 } : run.cursor) };
    this.socket
      .command('antiphon:attach', fields, (reply) => this.#attached(run, reply))
      .catch((error: AntiphonError) => this.#notAttached(run, error));
  }

  #attached(run: Run, reply: Frame): void {
    this.#attaching.delete(run);
    const { stream_id: name, epoch, head, mode, response } = reply as unknown as RunAttached & { mode: string };
    for (const [other, attached] of this.#attachments) if (attached === run) this.#attachments.delete(other);
    if (name) this.#attachments.set(name, run);
    if (!run.isWanted) return this.leave(run);
    if (reply['state']) this.owner.onState(reply['state'] as RunState);
    this.#placed(run, epoch, head, mode, response);
  }

  #placed(run: Run, epoch: string, head: number, mode: string, response: Response | null | undefined): void {
    if (mode === 'snapshot' || mode === 'ended') run.snapshot(epoch, head, response ?? null);
    else run.attached(epoch, head);
  }

  #notAttached(run: Run, error: AntiphonError): void {
    this.#attaching.delete(run);
    if (error instanceof ConnectionLost || !run.isWanted) return;
    if (error.other) {
      run.forked(error.other.epoch, error.other.fork);
      this.#attach(run);
    } else if (error.retryable)
      setTimeout(() => run.isWanted && this.socket.isOpen && this.#attach(run), error.retryAfterMs ?? 1000);
    else run.fail(error);
  }

  /** A run of a conversation this connection is attached to, or one that follows another on its lane. */
  #runAttached(name: string, frame: Frame): void {
    const id = frame['response_id'] as string;
    if (!this.owner.known(id) && [...this.#lanes.values()].some((lane) => lane.asked)) {
      this.#held.set(name, [frame]);
      return;
    }
    const { epoch, head, mode, response } = frame as unknown as RunAttached & { mode: string };
    const before = this.#attachments.get(name);
    const run = this.owner.runOf(id);
    this.#attachments.set(name, run);
    this.#placed(run, epoch, head, mode, response);
    if (before?.state?.terminal?.successor === id) before.followedBy(run);
    this.owner.onRun(run);
  }

  /** Every create of ours has its id: what was held is somebody else's, or a second copy. */
  #letGo(): void {
    const held = [...this.#held];
    this.#held.clear();
    for (const [, frames] of held) for (const frame of frames) this.take(frame);
  }

  #detached(name: string, { reason }: Frame): void {
    const run = this.#attachments.get(name);
    if (!run) return;
    // Else the lane is remembered: what follows a run that was steered comes there.
    if (reason !== 'ended' && run.isWanted) this.#attach(run);
  }
}

/** Standard frames that repeat a number of the log without being part of it (PROTOCOL 7). */
function isBeside(type: string): boolean {
  return type === 'keepalive' || type.startsWith('response.steer.') || type.startsWith('response.inject.');
}

function awaitsSuccessor(run: Run): boolean {
  if (run.successor) return false;
  if (run.state?.terminal) return Boolean(run.state.terminal.successor);
  return Boolean(run.state?.steers?.length);
}

/** Whether the run `id` follows `last` because that was steered, and is not the create that waits on its lane. */
function isSuccessor(last: Run, id: string, parent: string | null, asked: Run | null): boolean {
  if (!last.id || parent !== last.id) return false;
  const named = last.state?.terminal?.successor;
  return named ? named === id : asked?.asked?.create.previous_response_id !== parent;
}
