/** The browser's own modal dialog: it keeps the focus inside, gives it back, and closes by Escape. */
import { useEffect, useRef } from 'react';

export function useDialog(isOpen: boolean, onClose: () => void) {
  const dialog = useRef<HTMLDialogElement>(null);
  const latest = useRef(onClose);
  latest.current = onClose;
  useEffect(() => {
    const element = dialog.current;
    if (element === null) return undefined;
    const close = () => latest.current();
    element.addEventListener('close', close);
    if (isOpen && !element.open) element.showModal();
    if (!isOpen && element.open) element.close();
    return () => element.removeEventListener('close', close);
  }, [isOpen]);
  return dialog;
}
