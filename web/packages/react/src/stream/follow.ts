/**
 * One stream of server-sent events that comes back by itself. Read by `fetch`, because `EventSource` sends no headers and
 * hides why a connection ended. It decides when to wait and when to give up; what the messages mean is the caller's.
 */
import { createParser } from 'eventsource-parser';
import type { SederuntClient } from '../client/client.js';
import { isRefusal, type SederuntRefusal, unreachable } from '../client/refusal.js';

/** `paused`: the tab is hidden. `ended`: the server refused for good, and the stream does not come back by itself. */
export type StreamPhase = 'connecting' | 'live' | 'reconnecting' | 'paused' | 'ended';

export interface StreamMessage {
  id: string | undefined;
  event: string;
  data: string;
}

export interface FollowOptions {
  client: SederuntClient;
  /** Asked before each connection. */
  path: () => string;
  /** The id of the last message that was taken; asked before each connection, and sent as `Last-Event-ID`. */
  lastId: () => string | undefined;
  onMessage: (message: StreamMessage) => void;
  onPhase: (phase: StreamPhase, refusal?: SederuntRefusal) => void;
  /** Between 0 and 1; spreads the clients of a server that restarts. */
  random?: () => number;
}

/** The server sends a sign of life every 15 seconds. */
const SILENCE_MS_MAX = 40_000;
const RETRY_MS_FIRST = 250;
const RETRY_MS_MAX_VISIBLE = 1_500;
const RETRY_MS_MAX_HIDDEN = 10_000;
const RETRY_AFTER_MS_MAX = 30_000;
/** An event has at most 256 KiB, and an unfinished reply is not much longer. More is no stream of Sederunt's. */
const BUFFER_CHARS_MAX = 4 * 1024 * 1024;
/** Answers that a repetition does not change. */
const FINAL_STATUSES = [401, 403, 404, 405, 422];

export function isHidden(): boolean {
  return typeof document !== 'undefined' && document.visibilityState === 'hidden';
}

function retryMs(tries: number, refusal: SederuntRefusal, random: () => number): number {
  const most = isHidden() ? RETRY_MS_MAX_HIDDEN : RETRY_MS_MAX_VISIBLE;
  const backOff = Math.min(most, RETRY_MS_FIRST * 2 ** Math.min(tries - 1, 10)) * (0.5 + random() / 2);
  return Math.max(backOff, Math.min(refusal.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX));
}

/** Waits, but not longer than until the network or the reader is back. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', wake);
      if (typeof window !== 'undefined') {
        window.removeEventListener('online', wake);
        document.removeEventListener('visibilitychange', wakeIfVisible);
      }
      resolve();
    };
    const wakeIfVisible = () => {
      if (!isHidden()) wake();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener('abort', wake);
    if (typeof window !== 'undefined') {
      window.addEventListener('online', wake);
      document.addEventListener('visibilitychange', wakeIfVisible);
    }
  });
}

/** Reads one connection to its end. Rejects when it breaks. */
async function readOnce(options: FollowOptions, stop: AbortSignal, onOpen: () => void): Promise<void> {
  const connection = new AbortController();
  const abort = () => connection.abort();
  let silence: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(abort, SILENCE_MS_MAX);
  };
  stop.addEventListener('abort', abort);
  try {
    heard();
    const lastId = options.lastId();
    const response = await options.client.open(options.path(), {
      headers: { accept: 'text/event-stream', ...(lastId === undefined ? {} : { 'last-event-id': lastId }) },
      signal: connection.signal,
    });
    if (response.body === null) throw new Error('the answer has no body');
    onOpen();
    const parser = createParser({
      maxBufferSize: BUFFER_CHARS_MAX,
      onEvent: ({ id, event, data }) => {
        if (!stop.aborted) options.onMessage({ id, event: event ?? 'message', data });
      },
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded') abort();
      },
    });
    const reader = response.body.getReader();
    const cancel = () => void reader.cancel().catch(() => undefined);
    connection.signal.addEventListener('abort', cancel);
    const decoder = new TextDecoder();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || connection.signal.aborted) return;
      heard();
      parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(silence);
    stop.removeEventListener('abort', abort);
  }
}

/** Follows the stream until the returned function is called, or the server refuses for good. */
export function followStream(options: FollowOptions): () => void {
  const stop = new AbortController();
  const random = options.random ?? Math.random;

  async function run(): Promise<void> {
    let tries = 0;
    options.onPhase('connecting');
    while (!stop.signal.aborted) {
      let refusal = unreachable(undefined);
      try {
        await readOnce(options, stop.signal, () => {
          tries = 0;
          if (!stop.signal.aborted) options.onPhase('live');
        });
      } catch (error) {
        if (isRefusal(error)) refusal = error;
      }
      if (stop.signal.aborted) return;
      if (FINAL_STATUSES.includes(refusal.status)) {
        options.onPhase('ended', refusal);
        return;
      }
      tries += 1;
      options.onPhase('reconnecting', refusal);
      await pause(retryMs(tries, refusal, random), stop.signal);
    }
  }

  void run();
  return () => stop.abort();
}
