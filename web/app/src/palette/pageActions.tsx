/** The actions that the page on screen offers: the palette lists them, and their keys run them. */
import type { LucideIcon } from 'lucide-react';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { useKeys } from '../keyboard/KeyboardProvider.js';
import type { KeyId } from '../keyboard/keymap.js';

export interface PageAction {
  /** Unique within the page. */
  id: string;
  /** A verb and its thing, such as `Trigger “Report the weather”`. */
  words: string;
  run: () => void;
  shortcut?: KeyId | undefined;
  icon?: LucideIcon | undefined;
}

interface ActionStore {
  add: (read: () => readonly PageAction[]) => () => void;
  all: () => readonly PageAction[];
  subscribe: (listener: () => void) => () => void;
}

function createActionStore(): ActionStore {
  let sources: (() => readonly PageAction[])[] = [];
  let all: readonly PageAction[] = [];
  const listeners = new Set<() => void>();
  const changed = () => {
    all = sources.flatMap((read) => read());
    for (const listener of listeners) listener();
  };
  return {
    add: (read) => {
      sources = [...sources, read];
      changed();
      return () => {
        sources = sources.filter((one) => one !== read);
        changed();
      };
    },
    all: () => all,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

const ActionsContext = createContext<ActionStore>(createActionStore());

export function PageActionsProvider({ children }: { children: ReactNode }) {
  const store = useMemo(createActionStore, []);
  return <ActionsContext value={store}>{children}</ActionsContext>;
}

/** Offers actions while the component is there. The newest `run` of each is the one that runs. */
export function usePageActions(actions: readonly PageAction[]): void {
  const store = useContext(ActionsContext);
  const latest = useRef(actions);
  latest.current = actions;
  const shape = actions.map((action) => `${action.id}\t${action.words}\t${action.shortcut ?? ''}`).join('\n');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the store is told when the words change, not at each render.
  useEffect(
    () =>
      store.add(() =>
        latest.current.map((action) => ({
          ...action,
          run: () => latest.current.find((one) => one.id === action.id)?.run(),
        })),
      ),
    [store, shape],
  );
  const keyed = actions.flatMap((action) =>
    action.shortcut === undefined ? [] : [[action.shortcut, () => action.run()]],
  );
  useKeys(Object.fromEntries(keyed));
}

export function useOfferedActions(): readonly PageAction[] {
  const store = useContext(ActionsContext);
  return useSyncExternalStore(store.subscribe, store.all);
}
