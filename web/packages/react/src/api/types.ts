/** Short names for the types of the API. They follow the checked-in description; nothing is written by hand here. */
import type { components } from './schema.js';

type Schemas = components['schemas'];

export type Session = Schemas['Session'];
export type SessionEvent = Schemas['Event'];
export type EventPage = Schemas['EventPage'];
export type DraftEvent = Schemas['DraftEvent'];
export type AppendedEvents = Schemas['Appended'];
export type EntitySession = Schemas['EntitySession'];
export type WorkQueueCounts = Schemas['QueueCounts'];
export type ActiveWork = Schemas['ActiveWork'];
export type Task = Schemas['Task'];
export type Approval = Schemas['Approval'];
export type Decide = Schemas['Decide'];
export type Entity = Schemas['Entity'];
export type RefusalBody = Schemas['Refusal'];
