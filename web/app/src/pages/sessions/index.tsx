/** Sessions: all runs and conversations that the person may see, and below it the page of one of them. */
import { lazy, useEffect } from 'react';
import { useLocation, useSearch } from 'wouter';
import { segmentAfter } from '../../lib/pathSegment.js';
import { useUrlParameters } from '../../lib/urlParameters.js';
import { PageHeader, usePageTitle } from '../../shell/pageFrame.js';
import { FilterBar, SearchBar } from './FilterBar.js';
import { NO_FILTERS, SESSION_FILTERS } from './filters.js';
import { noteListSearch } from './listAddress.js';
import { MessageHits } from './MessageHits.js';
import { SessionList } from './SessionList.js';

const loadSessionPage = () => import('../session/index.js');
const SessionPage = lazy(() => loadSessionPage().then((module) => ({ default: module.Page })));

function SessionsPage() {
  const [filters, change] = useUrlParameters(SESSION_FILTERS);
  usePageTitle('Sessions');
  const search = useSearch();
  useEffect(() => noteListSearch(search === '' ? '' : `?${search}`), [search]);
  // The page of one session is what comes next: its code is here before the click.
  useEffect(() => void loadSessionPage().catch(() => undefined), []);
  return (
    <div className="p-4">
      <PageHeader>
        <SearchBar filters={filters} onChange={change} />
      </PageHeader>
      {filters.in === null && <FilterBar filters={filters} onChange={change} />}
      {filters.in === 'messages' ? (
        <MessageHits words={filters.q} />
      ) : (
        <SessionList filters={filters} onClear={() => change(NO_FILTERS)} />
      )}
    </div>
  );
}

export function Page() {
  // Draws again when the path changes.
  useLocation();
  const id = segmentAfter('/sessions/');
  return id === null ? <SessionsPage /> : <SessionPage key={id} id={id} />;
}
