/** How long ago something was, kept up to date, with the full time when it is pointed at. */
import { agoText } from '@sederunt/react';
import { useNow } from './clock.js';

export function TimeAgo({ at, className }: { at: string | null | undefined; className?: string | undefined }) {
  const now = useNow();
  const time = at === null || at === undefined ? new Date(Number.NaN) : new Date(at);
  if (Number.isNaN(time.getTime())) return null;
  return (
    <time dateTime={time.toISOString()} title={time.toLocaleString()} className={className}>
      {agoText(time.toISOString(), now)}
    </time>
  );
}
