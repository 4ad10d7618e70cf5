/** The tools this client has handlers for. What works on their calls is loaded with the first one: see tools.ts. */
import type { AntiphonError, Winner } from '../core/errors.js';
import type { PendingCall } from '../wire/index.js';
import type { Call } from './calls.js';
import type { Http } from './http.js';
import type { Run } from './run.js';
import type { Socket } from './socket.js';
import type { ToolRunner } from './tools.js';

export interface ToolContext {
  readonly run: Run;
  readonly call: Call & { readonly deadline: number };
  /** Aborts when the answer is not wanted any more: somebody else gave it, our claim went, or the run ended. */
  readonly signal: AbortSignal;
}

/** Gives the output: text or JSON. If it throws, the model is told so. */
export type ToolHandler = (args: any, context: ToolContext) => unknown;

export interface ToolOptions {
  /** Whether others are kept from answering meanwhile; true unless it says false. */
  claim?: boolean;
}

/** What became of a held call here. */
export interface ToolCallEvent {
  readonly phase: 'claimed' | 'waiting' | 'answered' | 'lost' | 'failed';
  readonly runId: string;
  readonly callId: string;
  readonly name: string;
  /** Who answered it, of one that was lost. */
  readonly winner?: Winner | null;
  /** Who works on it, while this client waits. */
  readonly holder?: string;
  readonly error?: AntiphonError | Error;
}

/** What the desk needs of the session. */
export interface DeskSession {
  readonly http: Http;
  /** Again after a loss: what is done this way must be harmless to repeat. */
  perform<T>(attempt: (socket: Socket | null) => Promise<T>): Promise<T>;
  /** How long a claim lasts. */
  readonly leaseMs: number;
  /** Whether this client may claim the call. */
  isAsked(call: PendingCall): boolean;
  /** The call as the whole response shows it. */
  call(runId: string, callId: string): Promise<Call | null>;
  /** Resolves after `ms`, or as soon as `signal` aborts. */
  pause(ms: number, signal?: AbortSignal): Promise<void>;
  /** Loads a part of this client that not everybody needs. */
  load<Part>(part: () => Promise<Part>): Promise<Part>;
  toldOfCall(run: Run, event: ToolCallEvent): void;
  tell(name: 'error', problem: AntiphonError): void;
  /** The tools that others can ask this client for have changed. */
  toolsChanged(): void;
  readonly wanted: ReadonlySet<Run>;
}

/** A handler, and what it is for. */
export interface Tool {
  readonly handler: ToolHandler;
  readonly options: ToolOptions;
  /** null: of all runs. */
  readonly run: Run | null;
}

export class Desk {
  readonly #tools = new Map<string, Tool[]>();
  #runner: ToolRunner | null = null;
  #isLoading = false;

  constructor(private readonly session: DeskSession) {}

  /** Names for the hello: of the tools of this client, not of single runs. */
  get names(): string[] {
    return [...this.#tools].filter(([, list]) => list.some(({ run }) => run === null)).map(([name]) => name);
  }

  /** `run`: null for all runs. Gives the function that ends it. */
  register(name: string, handler: ToolHandler, options: ToolOptions, run: Run | null): () => void {
    const one: Tool = { handler, options, run };
    this.#tools.set(name, [...(this.#tools.get(name) ?? []), one]);
    if (!run) this.session.toolsChanged();
    this.#considerAll();
    return () => {
      const rest = this.#tools.get(name)!.filter((other) => other !== one);
      if (rest.length) this.#tools.set(name, rest);
      else this.#tools.delete(name);
      if (!run) this.session.toolsChanged();
    };
  }

  /** The tool for a call of this run: the run's own one before one for all runs. */
  tool(name: string, run: Run): Tool | null {
    const tools = this.#tools.get(name) ?? [];
    return tools.find((tool) => tool.run === run) ?? tools.find((tool) => tool.run === null) ?? null;
  }

  /** Something about the run has changed: its calls are looked at. */
  consider(run: Run): void {
    if (this.#runner) this.#runner.consider(run);
    else if (run.isWanted && run.state?.pending_calls?.some(({ name }) => this.tool(name, run))) void this.#load();
  }

  #considerAll(): void {
    for (const run of this.session.wanted) this.consider(run);
  }

  async #load(): Promise<void> {
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      const { ToolRunner } = await this.session.load(() => import('./tools.js'));
      this.#runner = new ToolRunner(this.session, this);
    } catch (error) {
      if (!this.session.wanted.size) return; // The client was closed, or nobody waits for an answer any more.
      this.session.tell('error', error as AntiphonError);
      setTimeout(() => this.#considerAll(), 5_000);
      return;
    } finally {
      this.#isLoading = false;
    }
    this.#considerAll();
  }
}
