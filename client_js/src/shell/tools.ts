/**
 * Answers held calls with the handlers of tools: claims, renews, runs, injects (PROTOCOL 7.4, 10.9). Loaded with the
 * first such call; of what is loaded before only types are imported, so that bundles need no third file for both.
 */
import { NEW_WORK, step, type Work, type WorkSignal } from '../core/claims.js';
import type { AntiphonError, ClaimHeld, Winner } from '../core/errors.js';
import type { PendingCall } from '../wire/index.js';
import type { Desk, DeskSession, Tool, ToolCallEvent } from './desk.js';
import type { Run } from './run.js';

/** One call this client has something to do with. */
interface Task {
  readonly run: Run;
  readonly pending: PendingCall;
  readonly tool: Tool;
  work: Work;
  /** Of the claim and the handler. */
  stop: AbortController;
}

export class ToolRunner {
  readonly #tasks = new Map<string, Task>();

  constructor(
    private readonly session: DeskSession,
    private readonly desk: Desk,
  ) {}

  /** Something about the run has changed: its calls are looked at. */
  consider(run: Run): void {
    const { state, id } = run;
    if (!id) return;
    const pending = new Map((run.isWanted ? (state?.pending_calls ?? []) : []).map((call) => [call.call_id, call]));
    for (const [callId, task] of this.#tasks) {
      if (task.run !== run || pending.has(callId)) continue;
      if (task.work.phase === 'over') this.#tasks.delete(callId);
      else this.#settled(task);
    }
    for (const [callId, call] of pending) {
      let task = this.#tasks.get(callId);
      const tool = this.desk.tool(call.name, run);
      if (!task && tool) {
        task = { run, pending: call, tool, work: NEW_WORK, stop: new AbortController() };
        this.#tasks.set(callId, task);
      }
      // The state may come before the event that shows the call.
      if (!task || (run.response && !run.call(callId))) continue;
      const claims = task.tool.options.claim !== false;
      if (!claims || this.session.isAsked(call)) this.#signal(task, { on: 'pending', claims });
    }
  }

  #signal(task: Task, signal: WorkSignal): void {
    const [work, effect] = step(task.work, signal);
    task.work = work;
    if (effect === 'claim') void this.#claim(task);
    else if (effect === 'run') void this.#run(task);
    else if (effect === 'abort') task.stop.abort();
  }

  async #claim(task: Task): Promise<void> {
    task.stop = new AbortController();
    try {
      const { fence } = await this.#say('claim', task);
      if (task.work.phase !== 'claiming') return;
      this.#tell(task, { phase: 'claimed' });
      this.#signal(task, { on: 'claimed', fence });
      void this.#renew(task, task.stop.signal);
    } catch (error) {
      await this.#notClaimed(task, error as AntiphonError);
    }
  }

  async #notClaimed(task: Task, error: AntiphonError): Promise<void> {
    const held = error.code === 'claim_held' ? (error as ClaimHeld) : null;
    if (!held && error.code !== 'not_eligible') return this.#refused(task, error);
    this.#signal(task, { on: 'held' });
    this.#tell(task, held ? { phase: 'waiting', holder: held.holder } : { phase: 'waiting' });
    // The next state of the run brings it back here, or its own answer; a lease that runs out is told by the server.
    if (!held) return;
    const leftMs = held.expiresAt * 1000 - Date.now();
    await this.session.pause(Math.min(Math.max(leftMs, 500), this.session.leaseMs), task.stop.signal);
    this.consider(task.run);
  }

  /** Keeps the claim until it is lost or the answer is given. */
  async #renew(task: Task, stop: AbortSignal): Promise<void> {
    for (;;) {
      await this.session.pause(this.session.leaseMs / 3, stop);
      const { phase, fence } = task.work;
      if (stop.aborted || fence === null || (phase !== 'working' && phase !== 'answering')) return;
      try {
        await this.#say('renew', task, { fence });
      } catch (error) {
        if ((error as AntiphonError).code === 'stale_fence') return this.#signal(task, { on: 'claim_lost' });
      }
    }
  }

  async #run(task: Task): Promise<void> {
    const { run, pending, tool } = task;
    const { signal } = task.stop;
    let output: unknown;
    try {
      const call = run.call(pending.call_id) ?? (await this.session.call(run.id!, pending.call_id));
      if (!call) throw new Error('The call is not in the log.');
      const context = { run, call: { ...call, deadline: pending.deadline }, signal };
      output = await tool.handler(call.arguments, context);
    } catch (error) {
      if (signal.aborted) return;
      this.#tell(task, { phase: 'failed', error: error as Error });
      output = `The tool failed: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (signal.aborted) return;
    const { fence } = task.work;
    this.#signal(task, { on: 'output' });
    try {
      await run.respond(pending.call_id, output, fence === null ? {} : { fence });
      this.#tell(task, { phase: 'answered' });
      this.#over(task);
    } catch (error) {
      this.#refused(task, error as AntiphonError);
    }
  }

  /** Nothing more can be done about this call here. */
  #refused(task: Task, error: AntiphonError): void {
    const winner = (error.detail?.['winner'] as Winner | undefined) ?? null;
    this.#tell(task, { phase: 'lost', winner, error });
    this.#over(task);
  }

  /** The run does not wait for this call any more. */
  #settled(task: Task): void {
    if (task.work.phase === 'answering') return; // The answer to our answer says how that was.
    const { run, pending, work } = task;
    const said = run.state?.resolved_calls?.find((call) => call.call_id === pending.call_id);
    if (run.status === 'detached' && work.fence !== null) {
      this.#say('release', task, { fence: work.fence }).catch(() => {}); // Else its lease runs out.
    }
    this.#signal(task, { on: 'settled' });
    if (work.phase !== 'open') this.#tell(task, { phase: 'lost', winner: said ?? null });
    this.#over(task);
  }

  /** It is kept as long as the run shows it as waiting, so that it is not begun again. */
  #over(task: Task): void {
    task.work = { ...task.work, phase: 'over' };
    task.stop.abort();
    const { run, pending } = task;
    if (!run.isWanted || !run.pendingCall(pending.call_id)) this.#tasks.delete(pending.call_id);
  }

  /** About our claim. */
  #say(verb: 'claim' | 'renew' | 'release', { run, pending }: Task, fence: { fence?: number } = {}): Promise<any> {
    const fields = { call_id: pending.call_id, ...fence };
    return this.session.perform((socket) =>
      socket
        ? socket.command(`antiphon:${verb}`, { response_id: run.id, ...fields })
        : this.session.http.request('POST', `/v1/responses/${run.id}/${verb}`, { body: fields }),
    );
  }

  #tell(task: Task, event: Omit<ToolCallEvent, 'runId' | 'callId' | 'name'>): void {
    const { run, pending } = task;
    this.session.toldOfCall(run, { runId: run.id!, callId: pending.call_id, name: pending.name, ...event });
  }
}
