/** Opens the palette by its key, and reads its code while the browser is idle, so that it opens at once. */
import { createContext, lazy, type ReactNode, Suspense, useContext, useEffect, useState } from 'react';
import { useKey } from '../keyboard/KeyboardProvider.js';
import { useOfferedActions } from './pageActions.js';

const loadPalette = () => import('./Palette.js');
const Palette = lazy(() => loadPalette().then((module) => ({ default: module.Palette })));

const PaletteContext = createContext<() => void>(() => undefined);

/** Opens the palette. */
export function useOpenPalette(): () => void {
  return useContext(PaletteContext);
}

const IDLE_MS = 2_000;

function preloadWhenIdle(): () => void {
  // Safari has no `requestIdleCallback`.
  const timer = setTimeout(() => void loadPalette().catch(() => undefined), IDLE_MS);
  return () => clearTimeout(timer);
}

export function PaletteHost({ children }: { children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  const actions = useOfferedActions();
  useEffect(preloadWhenIdle, []);
  useKey('palette', () => setOpen((before) => !before));
  return (
    <PaletteContext value={() => setOpen(true)}>
      {children}
      {isOpen && (
        <Suspense>
          <Palette actions={actions} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </PaletteContext>
  );
}
