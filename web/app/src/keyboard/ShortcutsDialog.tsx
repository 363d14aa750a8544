/** The map of keys behind `?`, drawn from the same data that the dispatcher reads. */
import { createContext, type ReactNode, useContext, useState } from 'react';
import { Dialog } from '../components/Dialog.js';
import { Kbd } from '../components/Kbd.js';
import { useKey } from './KeyboardProvider.js';
import { KEYMAP, type KeyBinding, type KeyPlace } from './keymap.js';
import { letterKeys } from './letterKeys.js';

const ShowContext = createContext<() => void>(() => undefined);

export function useShowShortcuts(): () => void {
  return useContext(ShowContext);
}

function byPlace(): [KeyPlace, KeyBinding[]][] {
  const places = new Map<KeyPlace, KeyBinding[]>();
  for (const binding of KEYMAP) places.set(binding.place, [...(places.get(binding.place) ?? []), binding]);
  return [...places];
}

function LetterSwitch() {
  const isOn = letterKeys.use() === 'on';
  return (
    <label className="flex min-h-7 items-center gap-2 text-row">
      <input
        type="checkbox"
        className="size-4 accent-accent"
        checked={isOn}
        onChange={(event) => letterKeys.set(event.target.checked ? 'on' : 'off')}
      />
      Single letters are shortcuts
    </label>
  );
}

export function ShortcutsProvider({ children }: { children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  useKey('shortcuts', () => setOpen(true));
  return (
    <ShowContext value={() => setOpen(true)}>
      {children}
      <Dialog isOpen={isOpen} onOpenChange={setOpen} title="Keys" isWide>
        <div className="columns-1 gap-8 wide:columns-2">
          {byPlace().map(([place, bindings]) => (
            <section key={place} aria-label={place} className="mb-4 break-inside-avoid">
              <h3 className="text-row font-semibold text-soft">{place}</h3>
              <dl>
                {bindings.map((binding) => (
                  <div key={binding.id} className="flex min-h-7 items-center gap-3 text-row">
                    <dt className="flex-1">{binding.words}</dt>
                    <dd className="flex gap-1">
                      {binding.keys.map((keys) => (
                        <Kbd key={keys} keys={keys} isSpoken />
                      ))}
                    </dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </div>
        <LetterSwitch />
      </Dialog>
    </ShowContext>
  );
}
