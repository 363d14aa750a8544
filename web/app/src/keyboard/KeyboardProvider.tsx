/** The one listener for keys. Components say what a key of the map does while they are there; the newest one wins. */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef } from 'react';
import type { KeyId } from './keymap.js';
import { letterKeys } from './letterKeys.js';
import { bindingsFor, isMac } from './press.js';

/** How long the second key of a sequence may take. */
const SEQUENCE_MS = 1_200;

/** Returns false where it did nothing: then the handler before it is asked, and in the end the browser. */
export type KeyHandler = (event: KeyboardEvent) => unknown;

interface Registered {
  id: KeyId;
  handle: KeyHandler;
}

interface Keyboard {
  add: (one: Registered) => () => void;
}

const KeyboardContext = createContext<Keyboard | null>(null);

function innermost(event: KeyboardEvent): EventTarget | null {
  return event.composedPath()[0] ?? event.target;
}

export function KeyboardProvider({ children }: { children: ReactNode }) {
  const handlers = useRef<Registered[]>([]);
  const keyboard = useMemo<Keyboard>(
    () => ({
      add: (one) => {
        handlers.current.push(one);
        return () => {
          handlers.current = handlers.current.filter((other) => other !== one);
        };
      },
    }),
    [],
  );

  useEffect(() => {
    let prefix: string | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onKeyDown = (event: KeyboardEvent) => {
      const where = { target: innermost(event), isMac, prefix, lettersAreOn: letterKeys.get() === 'on' };
      const { found, prefix: begun } = bindingsFor(event, where);
      if (!['Shift', 'Control', 'Alt', 'Meta', 'AltGraph'].includes(event.key)) {
        clearTimeout(timer);
        prefix = begun;
        timer = setTimeout(() => {
          prefix = null;
        }, SEQUENCE_MS);
      }
      const able = handlers.current.filter((one) => found.some((binding) => binding.id === one.id));
      if (able.reverse().some((one) => one.handle(event) !== false)) event.preventDefault();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => {
      document.removeEventListener('keydown', onKeyDown);
      clearTimeout(timer);
    };
  }, []);

  return <KeyboardContext value={keyboard}>{children}</KeyboardContext>;
}

/** Says what a key of the map does while the component is there. */
export function useKey(id: KeyId, handle: KeyHandler, isEnabled = true): void {
  const keyboard = useContext(KeyboardContext);
  const latest = useRef(handle);
  latest.current = handle;
  useEffect(() => {
    if (!isEnabled) return undefined;
    return keyboard?.add({ id, handle: (event) => latest.current(event) });
  }, [keyboard, id, isEnabled]);
}

/** The same for several keys at once, such as the actions of a page. */
export function useKeys(handlers: Readonly<Partial<Record<KeyId, KeyHandler>>>): void {
  const keyboard = useContext(KeyboardContext);
  const latest = useRef(handlers);
  latest.current = handlers;
  const ids = Object.keys(handlers).sort().join(' ');
  useEffect(() => {
    const named = ids === '' ? [] : (ids.split(' ') as KeyId[]);
    const removes = named.map((id) => keyboard?.add({ id, handle: (event) => latest.current[id]?.(event) }));
    return () => {
      for (const remove of removes) remove?.();
    };
  }, [keyboard, ids]);
}
