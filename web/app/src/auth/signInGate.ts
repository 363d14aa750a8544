/**
 * What happens to calls while the person is signed out. A call that is answered with 401 is held, with all that is in it, until
 * the same person has signed in again; then it is sent once more. Pages do not notice: to them the answer takes long.
 */

export interface Person {
  tenant: string;
  userId: string | null;
}

type Waiter = { release: () => void; give: (answer: Response) => void; answer: Response };
type TabMessage = 'signed-in' | 'signed-out';

/** Names the person for the streams and caches of this browser. */
export function scopeOf(person: Person): string {
  return `${person.tenant}/${person.userId ?? ''}`;
}

export interface SignInGate {
  /** Stands in for `fetch`. */
  readonly fetch: typeof globalThis.fetch;
  readonly isSignedOut: () => boolean;
  readonly subscribe: (listener: () => void) => () => void;
  /** How many times a person's own action has been held. The dialog opens again when it grows. */
  readonly heldActions: () => number;
  /** The person is signed in again: sends what is held. */
  readonly open: () => void;
  /** Signed out, or another tab says so: holds what is refused from now on. */
  readonly close: () => void;
  readonly stop: () => void;
}

const CHANNEL = 'sederunt:sign-in';

/** What a person did carries a key that lets it have one effect. What the page sends by itself has none. */
function isAction(init: RequestInit | undefined): boolean {
  return new Headers(init?.headers).has('idempotency-key');
}

/** `ask` tells whether the browser is signed in; it is called when another tab has signed in or out. */
export function createSignInGate(ask: () => Promise<boolean>): SignInGate {
  let isClosed = false;
  let held = 0;
  /** Grows with each sign-in, so that an answer to a call from before it is known. */
  let signIns = 0;
  let waiters: Waiter[] = [];
  const listeners = new Set<() => void>();
  const tabs = typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel(CHANNEL);

  const tell = () => {
    for (const listener of listeners) listener();
  };

  function shut(): void {
    if (isClosed) return;
    isClosed = true;
    tell();
  }

  function release(): void {
    isClosed = false;
    signIns += 1;
    const released = waiters;
    waiters = [];
    for (const waiter of released) waiter.release();
    tell();
  }

  /** Waits until the gate opens, or until the caller gives up. */
  function hold(answer: Response, signal: AbortSignal | null | undefined): Promise<Response | 'again'> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { answer, give: resolve, release: () => resolve('again') };
      waiters.push(waiter);
      signal?.addEventListener('abort', () => {
        waiters = waiters.filter((one) => one !== waiter);
        reject(signal.reason);
      });
    });
  }

  async function gatedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const sentAt = signIns;
    const answer = await globalThis.fetch(input, init);
    if (answer.status !== 401) return answer;
    if (sentAt !== signIns) return globalThis.fetch(input, init);
    if (!isClosed) tabs?.postMessage('signed-out' satisfies TabMessage);
    if (isAction(init)) held += 1;
    isClosed = true;
    tell();
    // A call that outlives its page is not held: nothing of the page is left to wait for it.
    if (init?.keepalive === true) return answer;
    const outcome = await hold(answer, init?.signal);
    return outcome === 'again' ? globalThis.fetch(input, init) : outcome;
  }

  if (tabs !== undefined) {
    tabs.onmessage = async () => {
      const isSignedIn = await ask().catch(() => !isClosed);
      if (isSignedIn && isClosed) release();
      else if (!isSignedIn) shut();
    };
  }

  return {
    fetch: gatedFetch,
    isSignedOut: () => isClosed,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    heldActions: () => held,
    open: () => {
      tabs?.postMessage('signed-in' satisfies TabMessage);
      release();
    },
    close: () => {
      tabs?.postMessage('signed-out' satisfies TabMessage);
      shut();
    },
    stop: () => {
      for (const waiter of waiters) waiter.give(waiter.answer);
      waiters = [];
      tabs?.close();
    },
  };
}
