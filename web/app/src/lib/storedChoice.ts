/** A choice of the person that this browser keeps, told to all components that show it. Never anything of a credential. */
import { useSyncExternalStore } from 'react';

export interface StoredChoice<T extends string> {
  get: () => T;
  set: (value: T) => void;
  use: () => T;
}

function readStorage(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function writeStorage(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Storage is full or switched off: the choice holds until the page is closed.
  }
}

/** The first of `values` is what holds without a choice, or where the stored one is none of them. */
export function storedChoice<const T extends string>(key: string, values: readonly [T, ...T[]]): StoredChoice<T> {
  const listeners = new Set<() => void>();
  const read = (): T => values.find((value) => value === readStorage(key)) ?? values[0];
  let current: T | undefined;
  const get = () => {
    current ??= read();
    return current;
  };
  const tell = () => {
    for (const listener of listeners) listener();
  };
  const onStorage = (event: StorageEvent) => {
    if (event.key !== key && event.key !== null) return;
    current = read();
    tell();
  };
  const subscribe = (listener: () => void) => {
    if (listeners.size === 0) window.addEventListener('storage', onStorage);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) window.removeEventListener('storage', onStorage);
    };
  };
  return {
    get,
    set(value) {
      current = value;
      writeStorage(key, value);
      tell();
    },
    use: () => useSyncExternalStore(subscribe, get),
  };
}
