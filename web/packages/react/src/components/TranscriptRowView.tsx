/** One row of a transcript. */
import { memo, type ReactNode, useState } from 'react';
import type { SessionEvent } from '../api/types.js';
import { contentText, isRecord, metadataText, readableJson, saidText } from '../vocabulary/content.js';
import { clockText, durationText } from '../vocabulary/time.js';
import { LongText } from './LongText.js';
import { RowBoundary } from './RowBoundary.js';
import { callValue, rowSummary, type TranscriptRow } from './transcriptRows.js';

export type RenderMarkdown = (text: string, event: SessionEvent) => ReactNode;

const ONE_LINE_CHARS = 120;

function oneLine(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > ONE_LINE_CHARS ? `${text.slice(0, ONE_LINE_CHARS)}…` : text;
}

function MessageBody({ event, renderMarkdown }: { event: SessionEvent; renderMarkdown: RenderMarkdown | undefined }) {
  const text = saidText(event);
  if (text === '') {
    const isSilence = contentText(event.content) !== '';
    return <span className="sdr-soft">{isSilence ? '(chose to say nothing)' : '(no text)'}</span>;
  }
  return <LongText text={text} render={renderMarkdown && ((whole) => renderMarkdown(whole, event))} />;
}

function callOutcome(row: TranscriptRow): string {
  if (row.event.type === 'agent.tool_result') return 'result without its call';
  if (row.result === undefined) return 'no result';
  const metadata: unknown = row.result.metadata;
  const isError = isRecord(metadata) && metadata['is_error'] === true;
  const took = Date.parse(row.result.at) - Date.parse(row.event.at);
  const time = took >= 0 ? `${durationText(took)} ` : '';
  return `${time}${isError ? '✕ failed' : '✓ done'}`;
}

function CallBody({ row }: { row: TranscriptRow }) {
  const [isOpen, setOpen] = useState(false);
  const name = metadataText(row.event, 'tool_name') ?? 'tool';
  const value = callValue(row.event);
  return (
    <>
      <button type="button" className="sdr-call" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> <b>{name}</b>{' '}
        <span className="sdr-code sdr-one-line">{oneLine(value)}</span>{' '}
        <span className="sdr-soft">{callOutcome(row)}</span>{' '}
        {row.result !== undefined && <span className="sdr-soft sdr-one-line">{oneLine(callValue(row.result))}</span>}
      </button>
      {isOpen && (
        <div className="sdr-call-detail">
          <LongText text={readableJson(value ?? null)} isCode />
          {row.result !== undefined && <LongText text={readableJson(callValue(row.result) ?? null)} isCode />}
        </div>
      )}
    </>
  );
}

function OtherBody({ event }: { event: SessionEvent }) {
  const said = rowSummary(event) || contentText(event.content);
  const metadata: unknown = event.metadata;
  const hasMetadata = isRecord(metadata) && Object.keys(metadata).length > 0;
  return (
    <>
      <span className="sdr-type">{event.type}</span> {said !== '' && <LongText text={said} />}
      {said === '' && hasMetadata && <LongText text={readableJson(metadata)} isCode />}
    </>
  );
}

function RowBody({ row, renderMarkdown }: { row: TranscriptRow; renderMarkdown: RenderMarkdown | undefined }) {
  if (row.kind === 'message' || row.kind === 'thinking') {
    return <MessageBody event={row.event} renderMarkdown={renderMarkdown} />;
  }
  return row.kind === 'call' ? <CallBody row={row} /> : <OtherBody event={row.event} />;
}

function speaker(row: TranscriptRow): string {
  if (row.kind === 'thinking') return 'thinking';
  if (row.kind !== 'message') return '';
  return row.event.type === 'agent.message' ? 'agent' : (row.event.author ?? 'user');
}

export interface TranscriptRowViewProps {
  row: TranscriptRow;
  isSelected?: boolean | undefined;
  renderMarkdown: RenderMarkdown | undefined;
  /** Draws the row instead; null draws nothing special. */
  renderEvent: ((event: SessionEvent, result: SessionEvent | undefined) => ReactNode) | undefined;
  renderRowEnd?: ((event: SessionEvent, result: SessionEvent | undefined) => ReactNode) | undefined;
}

/** Drawn again only if the row itself changed. */
export const TranscriptRowView = memo(function TranscriptRowView({
  row,
  isSelected = false,
  renderMarkdown,
  renderEvent,
  renderRowEnd,
}: TranscriptRowViewProps) {
  const { event } = row;
  return (
    <article
      className="sdr-row"
      data-seq={event.sequence}
      data-kind={row.kind}
      aria-label={event.type}
      aria-current={isSelected || undefined}
    >
      <span className="sdr-row-meta">
        <span>#{event.sequence}</span> <time dateTime={event.at}>{clockText(event.at)}</time>{' '}
        <span className="sdr-row-speaker" dir="auto">
          {speaker(row)}
        </span>
      </span>
      <div className="sdr-row-body">
        <RowBoundary raw={event}>
          {renderEvent?.(event, row.result) ?? <RowBody row={row} renderMarkdown={renderMarkdown} />}
        </RowBoundary>
      </div>
      {renderRowEnd !== undefined && <div className="sdr-row-end">{renderRowEnd(event, row.result)}</div>}
    </article>
  );
});
