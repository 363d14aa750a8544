/** One message of a chat: the person's at the right, the agent's over the whole width. */
import { saidText } from '@sederunt/react';
import { type ReactNode, useState } from 'react';
import { Button } from '../../components/Button.js';
import { CopyButton } from '../../components/CopyButton.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { Markdown } from '../../markdown/Markdown.js';
import { CrisisAnswer } from './CrisisAnswer.js';
import type { SaidRow } from './chatRows.js';

/** A longer text is folded at first. */
const FOLDED_CHARS = 20_000;

function Note({ children }: { children: ReactNode }) {
  return <p className="text-meta text-soft">{children}</p>;
}

/** The beginning of a text, not cut between the two halves of a character. */
function beginning(text: string): string {
  const half = text.charCodeAt(FOLDED_CHARS - 1);
  return text.slice(0, half >= 0xd800 && half <= 0xdbff ? FOLDED_CHARS - 1 : FOLDED_CHARS);
}

function Words({ text, isFormatted }: { text: string; isFormatted: boolean }) {
  const [isOpen, setOpen] = useState(false);
  if (text.length > FOLDED_CHARS && !isOpen) {
    return (
      <>
        <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
          {beginning(text)}…
        </div>
        <Button kind="ghost" onClick={() => setOpen(true)}>
          Show all {text.length.toLocaleString()} characters
        </Button>
      </>
    );
  }
  if (isFormatted) return <Markdown text={text} />;
  return (
    <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
      {text}
    </div>
  );
}

export function PersonBubble({
  text,
  author,
  children,
}: {
  text: string;
  author?: string | null;
  children?: ReactNode;
}) {
  return (
    <article aria-label={`Message of ${author ?? 'you'}`} className="grid justify-items-end gap-1">
      <div className="max-w-[85%] min-w-0 rounded-card border border-line bg-sunken px-3 py-2">
        <Words text={text} isFormatted={false} />
      </div>
      {children}
    </article>
  );
}

export function ChatMessage({ row, own }: { row: SaidRow; own: string | null }) {
  const text = saidText(row.event);
  const { author, at } = row.event;
  if (row.by === 'person') {
    const isAnother = author !== null && author !== own;
    return (
      <PersonBubble text={text} author={isAnother ? author : null}>
        <Note>
          {isAnother && <span dir="auto">{author} · </span>}
          {row.isWaiting ? 'Waits until the reply is done' : <TimeAgo at={at} />}
        </Note>
      </PersonBubble>
    );
  }
  return (
    <article aria-label="Reply" className="group grid gap-1">
      {row.isCrisis ? <CrisisAnswer text={text} /> : <Words text={text} isFormatted />}
      <div className="flex min-h-7 items-center gap-2">
        <Note>
          {row.isCut && 'Stopped · '}
          <TimeAgo at={at} />
        </Note>
        <span className="opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 pointer-coarse:opacity-100">
          <CopyButton text={text} label="Copy the reply" />
        </span>
      </div>
    </article>
  );
}
