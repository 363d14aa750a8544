/** Short messages at the lower edge, with one thing to do, such as Undo. Pointing at them or focusing them stops their time. */
import { X } from 'lucide-react';
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from 'react';
import { Button } from './Button.js';
import { IconButton } from './IconButton.js';

const SHOWN_MS = 6_000;
const SHOWN_MAX = 3;
const TICK_MS = 250;

export interface ToastMessage {
  text: string;
  /** A verb and what it does. The toast goes with it. */
  action?: { verb: string; run: () => void } | undefined;
  durationMs?: number | undefined;
  /** Shows the seconds that remain beside the verb, as in `Undo (5)`. Its time is not stopped. */
  isCountedDown?: boolean | undefined;
}

export interface Toaster {
  /** Returns a function that takes it away. */
  show: (message: ToastMessage) => () => void;
}

interface Shown extends ToastMessage {
  id: number;
}

const ToastContext = createContext<Toaster>({ show: () => () => undefined });

export function useToast(): Toaster {
  return useContext(ToastContext);
}

function ToastView({ toast, onGone }: { toast: Shown; onGone: () => void }) {
  const [leftMs, setLeftMs] = useState(toast.durationMs ?? SHOWN_MS);
  const [isHeld, setHeld] = useState(false);
  const isStopped = isHeld && toast.isCountedDown !== true;
  const isOver = leftMs <= 0;
  const latest = useRef(onGone);
  latest.current = onGone;
  useEffect(() => {
    if (isStopped) return undefined;
    const timer = setInterval(() => setLeftMs((left) => left - TICK_MS), TICK_MS);
    return () => clearInterval(timer);
  }, [isStopped]);
  useEffect(() => {
    if (isOver) latest.current();
  }, [isOver]);
  const { action } = toast;
  return (
    <li
      className="layer-in pointer-events-auto flex items-center gap-3 rounded-card border border-line bg-raised py-2 pr-2 pl-4 shadow-layer"
      onPointerEnter={() => setHeld(true)}
      onPointerLeave={() => setHeld(false)}
      onFocus={() => setHeld(true)}
      onBlur={() => setHeld(false)}
    >
      <span dir="auto" className="min-w-0 wrap-anywhere">
        {toast.text}
      </span>
      {action !== undefined && (
        <Button
          onClick={() => {
            onGone();
            action.run();
          }}
        >
          {action.verb}
          {toast.isCountedDown === true && (
            <span className="figures" aria-hidden="true">
              ({Math.max(1, Math.ceil(leftMs / 1000))})
            </span>
          )}
        </Button>
      )}
      <IconButton label="Close" onClick={onGone}>
        <X size={14} aria-hidden="true" />
      </IconButton>
    </li>
  );
}

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Shown[]>([]);
  const nextId = useRef(1);
  const remove = useCallback((id: number) => setToasts((before) => before.filter((one) => one.id !== id)), []);
  const toaster = useMemo<Toaster>(
    () => ({
      show: (message) => {
        const id = nextId.current;
        nextId.current += 1;
        setToasts((before) => [...before.slice(1 - SHOWN_MAX), { ...message, id }]);
        return () => remove(id);
      },
    }),
    [remove],
  );
  return (
    <ToastContext value={toaster}>
      {children}
      <section aria-label="Messages" className="pointer-events-none fixed inset-x-4 bottom-4 z-50 flex justify-center">
        <ul aria-live="polite" className="grid max-w-xl gap-2">
          {toasts.map((toast) => (
            <ToastView key={toast.id} toast={toast} onGone={() => remove(toast.id)} />
          ))}
        </ul>
      </section>
    </ToastContext>
  );
}
