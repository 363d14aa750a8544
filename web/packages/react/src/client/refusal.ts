/** What the server refused, or why no answer came, as one type that programs can decide by. */

export interface RefusalParts {
  status: number;
  code: string;
  message: string;
  field?: string | undefined;
  details?: Record<string, unknown> | undefined;
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
}

/**
 * A call that had no success. `code` is stable and comes from the server (`stale_base`, `denied`, …), except for two:
 * `unreachable` (no answer came; `status` is 0) and `unreadable` (an answer that is not Sederunt's, such as a proxy's page).
 */
export class SederuntRefusal extends Error {
  override readonly name = 'SederuntRefusal';
  readonly status: number;
  readonly code: string;
  /** The field, parameter or header that does not fit. */
  readonly field: string | undefined;
  readonly details: Record<string, unknown>;
  /** Names this request in the server's log. */
  readonly requestId: string | undefined;
  /** How long the server asks to wait. */
  readonly retryAfterMs: number | undefined;

  constructor(parts: RefusalParts) {
    super(parts.message);
    this.status = parts.status;
    this.code = parts.code;
    this.field = parts.field;
    this.details = parts.details ?? {};
    this.requestId = parts.requestId;
    this.retryAfterMs = parts.retryAfterMs;
  }
}

export function isRefusal(error: unknown): error is SederuntRefusal {
  return error instanceof SederuntRefusal;
}

/** Whether the same call may succeed later without any change: no answer, too many calls, or a fault of the server. */
export function isPassing(error: unknown): boolean {
  return isRefusal(error) && (error.status === 0 || error.status === 429 || error.status >= 500);
}

/** Where the server asks for a longer wait than this, a person is told so instead. */
const WAIT_MS_MAX = 10_000;
const RETRY_MS_FIRST = 1_000;
const RETRY_MS_MAX = 8_000;

function askedWaitMs(error: unknown): number {
  return isRefusal(error) ? (error.retryAfterMs ?? 0) : 0;
}

/** For `retry` of a query: three tries, and only where a repetition can help soon. */
export function retryPassing(failures: number, error: unknown): boolean {
  return failures < 3 && isPassing(error) && askedWaitMs(error) <= WAIT_MS_MAX;
}

/** For `retryDelay` of a query: longer each time, and never shorter than the server asks. */
export function passingRetryDelay(failures: number, error: unknown): number {
  return Math.max(askedWaitMs(error), Math.min(RETRY_MS_FIRST * 2 ** failures, RETRY_MS_MAX));
}

export function unreachable(cause: unknown): SederuntRefusal {
  const refusal = new SederuntRefusal({
    status: 0,
    code: 'unreachable',
    message: 'The server does not answer. Check the connection and try again.',
  });
  refusal.cause = cause;
  return refusal;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function retryAfterMs(header: string | null): number | undefined {
  if (header === null || !/^\d{1,6}$/.test(header)) return undefined;
  return Number(header) * 1000;
}

/** Reads the refusal out of an answer that is not a success. */
export async function refusalOf(response: Response): Promise<SederuntRefusal> {
  const body: unknown = await response.json().catch(() => undefined);
  const said = isRecord(body) && isRecord(body['error']) ? body['error'] : undefined;
  const requestId = response.headers.get('x-request-id') ?? undefined;
  const wait = retryAfterMs(response.headers.get('retry-after'));
  if (said === undefined || text(said['code']) === undefined) {
    const message = `The server answered ${response.status} with something that is not Sederunt's. Check the address.`;
    return new SederuntRefusal({ status: response.status, code: 'unreadable', message, requestId, retryAfterMs: wait });
  }
  return new SederuntRefusal({
    status: response.status,
    code: text(said['code']) ?? 'unreadable',
    message: text(said['message']) ?? `The server answered ${response.status}.`,
    field: text(said['field']),
    details: isRecord(said['details']) ? said['details'] : undefined,
    requestId: text(said['request_id']) ?? requestId,
    retryAfterMs: wait,
  });
}
