/** Requests with credentials, JSON and typed errors. */
import { ConnectionFailed, toError, type AntiphonError, type Refusal } from '../core/errors.js';

/** An API key or signed token, or what gives one. `null`: no credentials, for a server without authentication. */
export type Auth = string | (() => string | null | undefined | Promise<string | null | undefined>);

/** Of an answer that is no stream. */
const REQUEST_LIMIT_MS = 20_000;

export interface Ask {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
  readonly limitMs?: number;
}

export class Http {
  constructor(
    /** Without a slash at the end. */
    readonly origin: string,
    readonly instanceId: string,
    private readonly auth: Auth | undefined,
    private readonly fetch: typeof globalThis.fetch,
  ) {}

  /** The credentials as they are now. Whoever gives them may fail: then so does what needed them. */
  async token(): Promise<string | null> {
    return (typeof this.auth === 'function' ? await this.auth() : this.auth) || null;
  }

  /** Whether asking again may give other credentials. */
  get canRenew(): boolean {
    return typeof this.auth === 'function';
  }

  /** The body of the answer. Throws AntiphonError: the server's refusal, or ConnectionFailed. */
  async request(method: string, path: string, ask: Ask = {}): Promise<any> {
    const stop = under(ask.signal);
    const limit = setTimeout(() => stop.abort(), ask.limitMs ?? REQUEST_LIMIT_MS);
    try {
      const answer = await this.send(method, path, ask, stop.signal);
      return await unlessAborted(answer.json(), stop.signal);
    } finally {
      clearTimeout(limit);
      stop.abort();
    }
  }

  /** The answer, as soon as it has begun. Throws like `request`. */
  async send(method: string, path: string, { body, headers }: Ask, signal: AbortSignal): Promise<Response> {
    const token = await this.token();
    const all: Record<string, string> = { 'X-Antiphon-Instance': this.instanceId, ...headers };
    if (token) all['Authorization'] = `Bearer ${token}`;
    if (body !== undefined) all['Content-Type'] = 'application/json';
    const asked = this.fetch(this.origin + path, {
      method,
      headers: all,
      cache: 'no-store',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
    });
    const answer = await unlessAborted(asked, signal);
    if (answer.ok) return answer;
    throw await refusal(answer);
  }
}

/** What `work` gives. Whatever goes wrong with it is the connection's fault; some platforms hang where it is aborted. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const failed = (cause: unknown) =>
      reject(Object.assign(new ConnectionFailed('The server cannot be reached.'), { cause }));
    work.then(resolve, failed);
    signal.addEventListener('abort', failed);
    if (signal.aborted) failed(signal.reason);
  });
}

/** Aborts with `signal`. (Node may forget those of `AbortSignal.any` before they do.) Abort it when it is done with. */
function under(signal: AbortSignal | undefined): AbortController {
  const own = new AbortController();
  if (signal?.aborted) own.abort();
  else signal?.addEventListener('abort', () => own.abort(), { signal: own.signal });
  return own;
}

/** The refusal that an answer is; a proxy's answer has no body of ours. */
async function refusal(answer: Response): Promise<AntiphonError> {
  const body = (await answer.json().catch(() => null)) as ({ error?: Refusal } & Record<string, unknown>) | null;
  const { error, ...beside } = body ?? {};
  const headers: Record<string, string> = {};
  for (const name of ['retry-after', 'retry-after-ms']) {
    const value = answer.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  const said = error ?? { code: 'http_error', message: `The server answered with status ${answer.status}.` };
  return toError({ ...beside, ...said, headers }, answer.status);
}
