/** Who else is in a session, and that this person is. */
import { useEffect, useRef } from 'react';
import { useSederunt } from '../context.js';
import { PresenceBeat } from '../document/presenceBeat.js';
import type { PresentPerson } from '../document/wire.js';
import { isRecord } from '../vocabulary/content.js';
import { useFeedState, usePresenceWish } from './useSessionRealtime.js';

export interface Presence {
  present: readonly PresentPerson[];
  /** How many are there. Share links are told nothing else. */
  count: number;
}

const NO_PEOPLE: readonly PresentPerson[] = [];

function isPresent(value: unknown): value is PresentPerson {
  return isRecord(value) && (typeof value['user_id'] === 'string' || value['user_id'] === null);
}

/** What a `presence` message says. */
export function readPresence(data: unknown): Presence {
  if (!isRecord(data)) return { present: NO_PEOPLE, count: 0 };
  const present = Array.isArray(data['present']) ? data['present'].filter(isPresent) : NO_PEOPLE;
  return { present, count: typeof data['count'] === 'number' ? data['count'] : present.length };
}

export interface UsePresenceOptions {
  /** What others are shown of this person, such as the field that they edit; at most 1 KiB. */
  state?: Record<string, unknown> | undefined;
  /** Only look, and do not tell the others that this person is here. */
  isSilent?: boolean | undefined;
}

/** Is present while the component is there and the tab is visible. */
export function usePresence(sessionId: string, options: UsePresenceOptions = {}): Presence {
  const { state, isSilent = false } = options;
  const { client } = useSederunt();
  usePresenceWish(sessionId);
  const { presence } = useFeedState(sessionId);
  const beat = useRef<PresenceBeat | null>(null);
  useEffect(() => {
    if (isSilent) return undefined;
    const current = new PresenceBeat(client, sessionId);
    beat.current = current;
    return () => {
      beat.current = null;
      current.leave();
    };
  }, [client, sessionId, isSilent]);

  const text = JSON.stringify(state);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new session is shown the state too.
  useEffect(
    () => beat.current?.show(text === undefined ? undefined : JSON.parse(text)),
    [text, client, sessionId, isSilent],
  );

  return readPresence(presence);
}
