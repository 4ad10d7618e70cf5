/**
 * The one tree of errors.
 *
 *     AntiphonError            code, retryable, status, retryAfterMs, param, detail
 *     ├── AuthenticationError  who are you: wrong, missing or worn-out credentials
 *     ├── PermissionDenied     you may not
 *     ├── NotFound             unknown, or not for you
 *     ├── ConnectionFailed     the server could not be reached, or closed for good
 *     ├── AlreadyResolved      somebody else answered the call: `winner`
 *     └── ClaimHeld            somebody else works on the call: `holder`, until `expiresAt`
 */

/** What the server says about a refusal, from a frame or a body (PROTOCOL 7.2, 10.1, 11.4). */
export interface Refusal {
  code?: string | null;
  message?: string;
  param?: string | null;
  retryable?: boolean;
  retry_after_ms?: number | null;
  headers?: Record<string, string>;
  [field: string]: unknown;
}

/** Who answered a call first. `at`: Unix seconds. */
export interface Winner {
  call_id: string;
  by: string;
  at: number;
  instance?: string | null;
}

/** Codes for which the status does not say whether the same request may work later (PROTOCOL 12). */
const RETRYABLE = 'claim_held conversation_locked response_in_progress websocket_connection_limit_reached';
const FINAL = 'too_many_connections quota_exceeded budget_exceeded tenant_paused emergency_stop skill_unavailable';

/** Whether sending the same again later is right. `status`: of HTTP, 0 if there is none. */
export function isRetryable(code: string, status: number): boolean {
  const among = (codes: string) => codes.split(' ').includes(code);
  return among(RETRYABLE) || ((status === 408 || status === 429 || status >= 500) && !among(FINAL));
}

export class AntiphonError extends Error {
  override name = 'AntiphonError';
  readonly code: string;
  /** Whether the same may work later. */
  readonly retryable: boolean;
  /** HTTP status, where there is one. */
  readonly status: number | undefined;
  /** How long to wait at least before trying again. */
  readonly retryAfterMs: number | undefined;
  /** The field that is wrong. */
  readonly param: string | undefined;
  /** Everything the server said. */
  readonly detail: Refusal;

  constructor(detail: Refusal, status = 0) {
    super(detail.message ?? detail.code ?? 'unknown error');
    this.code = detail.code ?? 'unknown_error';
    this.status = status || undefined;
    this.retryable = detail.retryable ?? isRetryable(this.code, status);
    this.param = detail.param ?? undefined;
    this.retryAfterMs = detail.retry_after_ms ?? retryAfter(detail.headers ?? {});
    this.detail = detail;
  }

  /** @internal Where the log differs from what the reader has, if that is what it says (PROTOCOL 6.4.3). */
  get other(): { epoch: string; fork: number } | null {
    const { epoch, fork, head } = this.detail;
    if (this.code === 'epoch_changed') return { epoch: String(epoch), fork: Number(fork) };
    if (this.code === 'cursor_in_future') return { epoch: String(epoch), fork: Number(head) + 1 };
    return null;
  }
}

export class AuthenticationError extends AntiphonError {}
export class PermissionDenied extends AntiphonError {}
export class NotFound extends AntiphonError {}

export class ConnectionFailed extends AntiphonError {
  constructor(message: string, code = 'connection_failed', retryable = true) {
    super({ code, message, retryable });
  }
}

export class AlreadyResolved extends AntiphonError {
  get winner(): Winner | null {
    return (this.detail['winner'] as Winner | undefined) ?? null;
  }
}

export class ClaimHeld extends AntiphonError {
  get holder(): string {
    return String(this.detail['holder'] ?? '');
  }
  /** Unix seconds. */
  get expiresAt(): number {
    return Number(this.detail['expires_at'] ?? 0);
  }
}

function retryAfter(headers: Record<string, string>): number | undefined {
  const ms = Number(headers['retry-after-ms'] ?? Number(headers['retry-after']) * 1000);
  return Number.isFinite(ms) ? ms : undefined;
}

/** The error a refusal stands for. `status`: of HTTP, 0 if there is none. */
export function toError(refusal: Refusal, status = 0): AntiphonError {
  const code = refusal.code ?? '';
  const isOf =
    code === 'already_resolved'
      ? AlreadyResolved
      : code === 'claim_held'
        ? ClaimHeld
        : status === 401 || /^(authentication_required|invalid_(api_key|token|ticket)|token_expired)$/.test(code)
          ? AuthenticationError
          : status === 403 || code === 'forbidden'
            ? PermissionDenied
            : status === 404 || code.endsWith('_not_found')
              ? NotFound
              : AntiphonError;
  return new isOf(refusal, status);
}

/** Close codes that end the connection for good (PROTOCOL 13). */
const FINAL_CLOSES: Record<number, string> = {
  1002: 'protocol_error',
  1007: 'protocol_error',
  1009: 'payload_too_large',
  4500: 'invalid_api_key',
  4501: 'protocol_error',
  4502: 'forbidden',
  4503: 'too_many_connections',
  4504: 'origin_not_allowed',
  4505: 'unsupported_version',
};

/** The error a close code stands for, null where coming back is right: 4000-4499 and what networks do. */
export function finalClose(status: number): AntiphonError | null {
  const code = FINAL_CLOSES[status] ?? (status >= 4500 && status < 5000 ? 'connection_refused' : null);
  if (!code) return null;
  const message = `The server closed the connection for good (${status}): ${code.replaceAll('_', ' ')}.`;
  return toError({ code, message, retryable: false });
}
