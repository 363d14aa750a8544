/** Grey lines while a page or list is read, but only once that has taken long enough to be noticed. */
import { type ReactNode, useEffect, useState } from 'react';

const NOTICED_MS = 150;

export function AfterNoticed({ children }: { children: ReactNode }) {
  const [isNoticed, setNoticed] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setNoticed(true), NOTICED_MS);
    return () => clearTimeout(timer);
  }, []);
  return isNoticed ? children : null;
}

export function Skeleton({ rows = 6 }: { rows?: number | undefined }) {
  return (
    <AfterNoticed>
      <div aria-busy="true" className="grid gap-2">
        {Array.from({ length: rows }, (_, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines have no identity and never change places.
          <div key={at} className="h-9 rounded-control bg-sunken" />
        ))}
      </div>
    </AfterNoticed>
  );
}
