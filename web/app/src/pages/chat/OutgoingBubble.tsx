/** A message that is not in the log yet: on its way, refused, or left over from before a reload. */
import { useEffect, useState } from 'react';
import { Button } from '../../components/Button.js';
import { PersonBubble } from './ChatMessage.js';
import type { OutgoingMessage } from './outbox.js';

function useSecondsUntil(time: number | undefined): number {
  const [now, setNow] = useState(Date.now);
  const left = time === undefined ? 0 : Math.max(0, Math.ceil((time - now) / 1_000));
  const isWaiting = left > 0;
  useEffect(() => {
    if (!isWaiting) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [isWaiting]);
  return left;
}

export interface OutgoingBubbleProps {
  message: OutgoingMessage;
  onRetry: () => void;
  /** Puts the text back into the composer. */
  onEdit: () => void;
  onDiscard: () => void;
}

export function OutgoingBubble({ message, onRetry, onEdit, onDiscard }: OutgoingBubbleProps) {
  const secondsLeft = useSecondsUntil(message.retryAt);
  if (message.state === 'sending') {
    return (
      <PersonBubble text={message.text}>
        <p className="text-meta text-soft">Sending…</p>
      </PersonBubble>
    );
  }
  const isUnsent = message.state === 'unsent';
  return (
    <PersonBubble text={message.text}>
      <p role="alert" dir="auto" className={isUnsent ? 'text-row text-soft' : 'text-row text-error'}>
        {isUnsent ? 'Not sent before the page was loaded again.' : `Not sent: ${message.error?.message ?? 'it failed'}`}
      </p>
      <div className="flex flex-wrap gap-2">
        <Button onClick={onRetry} disabled={secondsLeft > 0}>
          Send again{secondsLeft > 0 && <span className="figures">({secondsLeft})</span>}
        </Button>
        <Button kind="ghost" onClick={onEdit}>
          Edit
        </Button>
        <Button kind="ghost" onClick={onDiscard}>
          Discard
        </Button>
      </div>
    </PersonBubble>
  );
}
