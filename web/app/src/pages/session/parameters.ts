/** What the page of a session keeps in its address. */
import { oneOf, type ParameterValues, someOf, wholeNumber } from '../../lib/urlParameters.js';
import { EVENT_GROUPS } from './eventGroups.js';

export const TABS = ['transcript', 'timeline', 'steps', 'result', 'raw'] as const;
export type TabName = (typeof TABS)[number];

export const SESSION_PARAMETERS = {
  tab: oneOf(TABS, 'transcript'),
  /** The event that is pointed at. */
  seq: wholeNumber(1),
  /** The kinds of events in the transcript; none is what is shown by default. */
  show: someOf(EVENT_GROUPS),
};

export type SessionParameters = ParameterValues<typeof SESSION_PARAMETERS>;
export type ChangeParameters = (patch: Partial<SessionParameters>, options?: { replace?: boolean }) => void;
