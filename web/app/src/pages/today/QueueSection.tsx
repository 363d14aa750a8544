/** One bucket of the work queue with its loading, empty and error states. */
import type { WorkQueueBucket } from '@sederunt/react';
import type { ReactNode } from 'react';
import { ErrorState } from '../../components/ErrorState.js';
import { List } from '../../components/ListRow.js';
import { Section } from '../../components/Section.js';
import { Skeleton } from '../../components/Skeleton.js';
import { BUCKET_ROWS_MAX, type Bucket, type QueueItem } from './useBucket.js';

export interface QueueSectionProps {
  bucket: WorkQueueBucket;
  title: string;
  empty: string;
  state: Bucket;
  items: readonly QueueItem[];
  row: (item: QueueItem) => ReactNode;
}

export function sectionAnchor(bucket: WorkQueueBucket): string {
  return bucket.replaceAll('_', '-');
}

function Rows({ title, empty, state, items, row }: Omit<QueueSectionProps, 'bucket'>) {
  if (state.error !== null && items.length === 0) return <ErrorState error={state.error} onRetry={state.refetch} />;
  if (state.isLoading) return <Skeleton rows={2} />;
  if (items.length === 0) return <p className="px-3 pb-2 text-row text-soft">{empty}</p>;
  return (
    <>
      <List label={title}>{items.map(row)}</List>
      {state.hasMore && <p className="px-3 py-1 text-meta text-soft">The newest {BUCKET_ROWS_MAX} are shown.</p>}
    </>
  );
}

export function QueueSection({ bucket, ...rest }: QueueSectionProps) {
  return (
    <Section title={rest.title} anchor={sectionAnchor(bucket)}>
      <Rows {...rest} />
    </Section>
  );
}
