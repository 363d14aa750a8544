/** A call of a tool and its result as one line, which opens to show both. */
import { contentText, metadataText, type SessionEvent } from '@sederunt/react';
import type { CallRow } from './chatRows.js';

const SHOWN_CHARS_MAX = 10_000;
const LINE_CHARS_MAX = 120;

function argumentsOf(event: SessionEvent): unknown {
  const { content } = event;
  const part: unknown = Array.isArray(content) ? content[0] : content;
  return typeof part === 'object' && part !== null && 'args' in part ? part.args : part;
}

function json(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, null, indent) ?? '';
  } catch {
    return String(value);
  }
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

function outcomeOf(row: CallRow): { sign: string; words: string } {
  if (row.result === undefined) return { sign: '…', words: 'no result yet' };
  const metadata = row.result.metadata as Readonly<Record<string, unknown>> | null;
  const isError = metadata?.['is_error'] === true;
  const outcome = metadataText(row.result, 'outcome');
  if (!isError && (outcome === undefined || outcome === 'ok' || outcome === 'succeeded'))
    return { sign: '✓', words: 'done' };
  return { sign: '✕', words: (outcome ?? 'failed').replaceAll('_', ' ') };
}

function Code({ label, text }: { label: string; text: string }) {
  return (
    <div>
      <p className="text-meta text-soft">{label}</p>
      {/* A scrolling region has to be reachable by keyboard. */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: see above. */}
      <pre tabIndex={0} className="max-h-64 overflow-auto rounded-control bg-sunken p-2 font-mono text-meta">
        {cut(text, SHOWN_CHARS_MAX)}
      </pre>
    </div>
  );
}

export function ToolCall({ row }: { row: CallRow }) {
  const name = metadataText(row.event, 'tool_name') ?? 'a tool';
  const isOrphan = row.event.type === 'agent.tool_result';
  const args = isOrphan ? undefined : argumentsOf(row.event);
  const { sign, words } = outcomeOf(row);
  return (
    <details className="rounded-control border border-line bg-raised text-row">
      <summary className="flex min-h-8 items-center gap-2 px-3">
        <span aria-hidden="true" className="text-soft">
          ▸
        </span>
        <b className="font-semibold whitespace-nowrap">{name}</b>
        <span className="min-w-0 flex-1 truncate font-mono text-meta text-soft">
          {args === undefined ? '' : cut(json(args), LINE_CHARS_MAX)}
        </span>
        <span className="whitespace-nowrap text-soft">
          <span aria-hidden="true">{sign}</span> {words}
        </span>
      </summary>
      <div className="grid gap-2 px-3 pb-3">
        {args !== undefined && <Code label="Called with" text={json(args, 2)} />}
        {row.result !== undefined && <Code label="Result" text={contentText(row.result.content)} />}
      </div>
    </details>
  );
}
