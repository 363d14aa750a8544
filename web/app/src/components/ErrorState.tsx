/** A call that failed: the server's sentence, the way out, and the id of the request to copy. */
import { durationText, isRefusal } from '@sederunt/react';
import type { ReactNode } from 'react';
import { Button } from './Button.js';
import { CopyButton } from './CopyButton.js';

export interface ErrorStateProps {
  error: Error;
  onRetry?: (() => void) | undefined;
  /** Another way out than trying again. */
  action?: ReactNode;
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

export function ErrorState({ error, onRetry, action }: ErrorStateProps) {
  const { requestId, retryAfterMs } = isRefusal(error) ? error : {};
  return (
    <div role="alert" className="grid justify-items-start gap-3 rounded-card border border-line bg-raised p-4">
      <p dir="auto" className="text-error">
        {sentence(error.message)}
        {retryAfterMs !== undefined && ` Try again in ${durationText(retryAfterMs)}.`}
      </p>
      {(onRetry !== undefined || action !== undefined) && (
        <div className="flex flex-wrap gap-2">
          {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
          {action}
        </div>
      )}
      {requestId !== undefined && (
        <p className="flex flex-wrap items-center gap-2 text-meta text-soft">
          Request <code className="font-mono">{requestId}</code>
          <CopyButton text={requestId} label="Copy the id of the request" />
        </p>
      )}
    </div>
  );
}
