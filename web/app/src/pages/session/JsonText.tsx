/** JSON as text, with a button that copies all of it. Beyond a size only its beginning is drawn. */
import { useState } from 'react';
import { Button } from '../../components/Button.js';
import { CopyButton } from '../../components/CopyButton.js';

const DRAWN_CHARS_MAX = 20_000;

export function jsonText(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? 'null';
}

export function JsonText({ value }: { value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  const text = jsonText(value);
  const isCut = text.length > DRAWN_CHARS_MAX && !isWhole;
  return (
    <div className="relative min-w-0">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
      <pre tabIndex={0} className="max-h-[60vh] overflow-auto rounded-card bg-sunken p-3 pr-12 font-mono text-meta">
        {isCut ? `${text.slice(0, DRAWN_CHARS_MAX)}…` : text}
      </pre>
      <div className="absolute top-2 right-2">
        <CopyButton text={text} label="Copy the JSON" />
      </div>
      {isCut && (
        <Button kind="ghost" onClick={() => setWhole(true)}>
          Show all ({text.length.toLocaleString()} characters)
        </Button>
      )}
    </div>
  );
}
