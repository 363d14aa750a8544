/** Copies a text to the clipboard, and shows it for copying by hand where the browser has no clipboard. */
import { useToast } from './ToastProvider.js';

/** Resolves to whether it was copied. */
export function useCopyText(): (text: string) => Promise<boolean> {
  const toast = useToast();
  return async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Browsers without HTTPS have no clipboard.
      toast.show({ text: `This browser does not copy here. Select it by hand: ${text}` });
      return false;
    }
  };
}
