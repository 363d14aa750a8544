/** Which events belong together in the filter of a transcript. */
import { isKnownEventType, SESSION_EVENT_TYPES } from '@sederunt/react';

/** `other`: what people did, documents, and types of your own. */
export const EVENT_GROUPS = ['talk', 'tools', 'other', 'lifecycle', 'thinking'] as const;
export type EventGroup = (typeof EVENT_GROUPS)[number];

/** What is shown unless the address says otherwise. */
export const DEFAULT_GROUPS: readonly EventGroup[] = ['talk', 'tools', 'other'];

const TALK = new Set(['user.message', 'agent.message', 'session.error', 'human.marker']);
/** Decisions stand with the calls and results that they are about. */
const TOOLS = new Set([
  'agent.tool_call',
  'agent.tool_result',
  'user.tool_result',
  'user.tool_confirmation',
  'user.output_approval',
  'session.waiting_approval',
]);

export function eventGroup(type: string): EventGroup {
  if (!isKnownEventType(type)) return 'other';
  if (TALK.has(type)) return 'talk';
  if (TOOLS.has(type)) return 'tools';
  if (type === 'agent.thinking') return 'thinking';
  return type.startsWith('session.') || type.startsWith('tool.') ? 'lifecycle' : 'other';
}

/** The types to ask the server for; undefined where names of your own are wanted too, which cannot be listed. */
export function askedTypes(groups: readonly EventGroup[]): readonly string[] | undefined {
  if (groups.includes('other')) return undefined;
  return SESSION_EVENT_TYPES.filter((type) => groups.includes(eventGroup(type)));
}
