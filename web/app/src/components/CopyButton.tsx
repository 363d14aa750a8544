/** Copies a text, and says that it did. */
import { Check, Copy } from 'lucide-react';
import { useEffect, useState } from 'react';
import { IconButton } from './IconButton.js';
import { useToast } from './ToastProvider.js';

const SHOWN_MS = 2_000;

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const toast = useToast();
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Browsers without HTTPS have no clipboard.
      toast.show({ text: `This browser does not copy here. Select it by hand: ${text}` });
    }
  };
  return (
    <IconButton label={isCopied ? 'Copied' : label} onClick={() => void copy()}>
      {isCopied ? <Check size={14} aria-hidden="true" /> : <Copy size={14} aria-hidden="true" />}
    </IconButton>
  );
}
