/**
 * What a person has written and the server has not taken yet, kept in this tab's storage, so that a reload loses none of it.
 * Kept apart by person. Text of incognito chats is never stored.
 */

/** A message whose button was pressed. */
export interface UnsentMessage {
  threadId: string;
  text: string;
  /** Lets the message have one effect, however often it is sent. */
  key: string;
  mode: BusyMode;
  /** The chat has to be opened before it. */
  opensChat: boolean;
  userId: string | undefined;
  isIncognito: boolean;
  /** The last event that was on the screen: the message can only come after it. */
  afterSequence: number;
}

/** What happens to a message while a reply is being written. */
export type BusyMode = 'queue' | 'steer' | 'interrupt';

const MODES: readonly unknown[] = ['queue', 'steer', 'interrupt'];

export interface Drafts {
  read: (place: string) => string;
  write: (place: string, text: string) => void;
  readUnsent: () => readonly UnsentMessage[];
  writeUnsent: (messages: readonly UnsentMessage[]) => void;
}

function isUnsent(value: unknown): value is UnsentMessage {
  if (typeof value !== 'object' || value === null) return false;
  const one = value as Record<string, unknown>;
  const areTexts = [one['threadId'], one['text'], one['key']].every((text) => typeof text === 'string' && text !== '');
  const isUserFit = one['userId'] === undefined || typeof one['userId'] === 'string';
  return (
    areTexts &&
    isUserFit &&
    MODES.includes(one['mode']) &&
    typeof one['opensChat'] === 'boolean' &&
    one['isIncognito'] === false &&
    Number.isSafeInteger(one['afterSequence'])
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `scope` names the person. */
export function draftsOf(scope: string): Drafts {
  const prefix = `sederunt:chat:${scope}:`;
  const get = (name: string) => {
    try {
      return sessionStorage.getItem(prefix + name) ?? '';
    } catch {
      return '';
    }
  };
  const put = (name: string, text: string) => {
    try {
      if (text === '') sessionStorage.removeItem(prefix + name);
      else sessionStorage.setItem(prefix + name, text);
    } catch {
      // Storage is full or switched off: the text is in the page alone.
    }
  };
  return {
    read: (place) => get(`draft:${place}`),
    write: (place, text) => put(`draft:${place}`, text),
    readUnsent: () => {
      const stored = parsed(get('unsent'));
      return Array.isArray(stored) ? stored.filter(isUnsent) : [];
    },
    writeUnsent: (messages) => {
      const kept = messages.filter((message) => !message.isIncognito);
      put('unsent', kept.length === 0 ? '' : JSON.stringify(kept));
    },
  };
}
