/** A reply that is still being written. Paragraphs that are done are formatted; the last one is plain until it is done too. */
import { useSessionRealtime } from '@sederunt/react';
import { Markdown } from '../../markdown/Markdown.js';

/** Where the last paragraph begins; never inside of a code block, which may hold blank lines. */
export function lastParagraphStart(text: string): number {
  const start = text.lastIndexOf('\n\n');
  if (start < 0) return 0;
  const done = text.slice(0, start);
  const fences = done.split('\n').filter((line) => line.startsWith('```')).length;
  return fences % 2 === 0 ? start + 2 : Math.max(0, done.lastIndexOf('\n```'));
}

export function DraftReply({ threadId, isWriting }: { threadId: string; isWriting: boolean }) {
  const { delta } = useSessionRealtime(threadId);
  if (delta === null) {
    if (!isWriting) return null;
    return (
      <p className="flex items-center gap-2 text-row text-soft">
        <span aria-hidden="true" className="breathing text-running">
          ●
        </span>
        Writing a reply…
      </p>
    );
  }
  const start = lastParagraphStart(delta);
  return (
    <article aria-label="Reply, still being written" aria-busy="true" className="grid grid-cols-[minmax(0,1fr)] gap-2">
      {start > 0 && (
        <div>
          <Markdown text={delta.slice(0, start).trimEnd()} />
        </div>
      )}
      <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
        {delta.slice(start)}
        <span aria-hidden="true" className="text-running">
          ▌
        </span>
      </div>
    </article>
  );
}
