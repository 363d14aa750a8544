/** The types of events that Sederunt itself defines, and the guards around them. */

export const SESSION_EVENT_TYPES = [
  'user.message',
  'user.tool_result',
  'user.tool_confirmation',
  'user.form_submit',
  'user.form_draft',
  'user.output_approval',
  'agent.message',
  'agent.tool_call',
  'agent.tool_result',
  'agent.thinking',
  'session.created',
  'session.claimed',
  'session.status_change',
  'session.error',
  'session.completed',
  'session.context_injected',
  'session.waiting_approval',
  'session.introspection',
  'session.sitting_started',
  'session.sitting_ended',
  'session.turn',
  'tool.session_started',
  'tool.field_changed',
  'tool.invocation_started',
  'tool.invocation_completed',
  'tool.invocation_failed',
  'tool.composition_step.started',
  'tool.composition_step.completed',
  'human.navigate',
  'human.entity_view',
  'human.marker',
  'human.task_switch',
  'external.event',
  'state.patch',
] as const;

export type SessionEventType = (typeof SESSION_EVENT_TYPES)[number];
/** A name of your own, such as `billing.charged`. */
export type CustomEventType = `${string}.${string}`;
export type HumanEventType = Extract<SessionEventType, `human.${string}`>;

const KNOWN: ReadonlySet<string> = new Set(SESSION_EVENT_TYPES);
const CLOSED_PREFIXES = ['user.', 'agent.', 'session.', 'tool.', 'human.', 'external.', 'state.'];
const CUSTOM_NAME = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)+$/;
const NAME_CHARS_MAX = 200;

/** Whether Sederunt defines the type. */
export function isKnownEventType(text: string): text is SessionEventType {
  return KNOWN.has(text);
}

/** Whether the server takes the type: one that Sederunt defines, or a dotted name outside of its prefixes. */
export function isValidEventType(text: string): text is SessionEventType | CustomEventType {
  if (isKnownEventType(text)) return true;
  if (text.length > NAME_CHARS_MAX || CLOSED_PREFIXES.some((prefix) => text.startsWith(prefix))) return false;
  return CUSTOM_NAME.test(text);
}

/** Whether a browser may record it about its user. */
export function isHumanEventType(text: string): text is HumanEventType {
  return text.startsWith('human.') && isKnownEventType(text);
}
