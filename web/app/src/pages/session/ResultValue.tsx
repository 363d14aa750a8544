/** A value that a run came to: text formatted, the fields of an object by name, everything else as JSON. */
import { Markdown } from '../../markdown/Markdown.js';
import { JsonText } from './JsonText.js';

export function Value({ value }: { value: unknown }) {
  if (typeof value === 'string') return <Markdown text={value} />;
  if (value === null || ['number', 'boolean'].includes(typeof value))
    return <span className="font-mono">{String(value)}</span>;
  return <JsonText value={value} />;
}

export function ResultValue({ result }: { result: unknown }) {
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return <Value value={result} />;
  return (
    <dl className="divide-y divide-line rounded-card border border-line bg-raised">
      {Object.entries(result).map(([name, value]) => (
        <div key={name} className="grid gap-x-4 px-3 py-2 wide:grid-cols-[180px_minmax(0,1fr)]">
          <dt dir="auto" className="text-row font-semibold wrap-anywhere text-soft">
            {name}
          </dt>
          <dd className="min-w-0">
            <Value value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
