/** Everything that `@sederunt/react` offers. */
export type { components, paths } from './api/schema.js';
export type {
  ActiveWork,
  Approval,
  DraftEvent,
  Entity,
  EntitySession,
  EventPage,
  Session,
  SessionEvent,
  Task,
  WorkQueueCounts,
} from './api/types.js';
export type { ApprovalContext, ApprovalInContext } from './approval/context.js';
export { type ApprovalVerdict, DecisionOutbox, type PendingDecision } from './approval/outbox.js';
export { refusalSentence } from './approval/refusalSentence.js';
export { readStaged, type StagedValue } from './approval/stagedValue.js';
export {
  type CallOptions,
  createSederuntClient,
  type HeaderSource,
  type RawCall,
  type SederuntClient,
  type SederuntClientOptions,
} from './client/client.js';
export { newIdempotencyKey } from './client/idempotency.js';
export { isPassing, isRefusal, passingRetryDelay, retryPassing, SederuntRefusal } from './client/refusal.js';
export { ActivityRecorderMount } from './components/ActivityRecorderMount.js';
export { ApprovalDetail, type ApprovalDetailProps, type ApprovalHandle } from './components/ApprovalDetail.js';
export { QuickMarkerDialog, type QuickMarkerDialogProps } from './components/QuickMarkerDialog.js';
export { SessionStatusBadge, type SessionStatusBadgeProps } from './components/SessionStatusBadge.js';
export {
  SessionTranscript,
  type SessionTranscriptProps,
  type TranscriptHandle,
} from './components/SessionTranscript.js';
export type { RenderMarkdown } from './components/TranscriptRowView.js';
export { WorkingOnPicker, type WorkingOnPickerProps } from './components/WorkingOnPicker.js';
export {
  type WorkQueueBucket,
  WorkQueueCommandStrip,
  type WorkQueueCommandStripProps,
} from './components/WorkQueueCommandStrip.js';
export { useSederuntClient } from './context.js';
export { applyPatch, type JsonValue, PatchError, type PatchOp, pointerToken } from './document/jsonPatch.js';
export type { DocumentKind, PresentPerson } from './document/wire.js';
export { type ActiveHumanSession, type TaskChoice, useActiveHumanSession } from './hooks/useActiveHumanSession.js';
export { useActiveTasks, useCreateTask } from './hooks/useActiveTasks.js';
export { useActivityRecorder } from './hooks/useActivityRecorder.js';
export {
  type ApprovalDecision,
  type DecisionPhase,
  type UseApprovalDecisionOptions,
  useApproval,
  useApprovalDecision,
  useDecisionOutbox,
  useOutboxDecision,
} from './hooks/useApprovalDecision.js';
export {
  type EntitySessionsResult,
  type UseEntitySessionsOptions,
  useEntitySessions,
} from './hooks/useEntitySessions.js';
export { useHintPhase, useHintRefetch, useHints } from './hooks/useHints.js';
export { type Presence, type UsePresenceOptions, usePresence } from './hooks/usePresence.js';
export { type DocumentConflict, type SessionDocument, useSessionDocument } from './hooks/useSessionDocument.js';
export { type SessionEventsResult, type UseSessionEventsOptions, useSessionEvents } from './hooks/useSessionEvents.js';
export { type SessionRealtime, useSessionRealtime } from './hooks/useSessionRealtime.js';
export { useWorkQueueCounts, type WorkQueueCountsResult } from './hooks/useWorkQueueCounts.js';
export { SederuntProvider, type SederuntProviderProps } from './provider.js';
export type { StreamPhase } from './stream/follow.js';
export type { Hint, SessionHint } from './stream/hintFeed.js';
export { firstSentence } from './vocabulary/announcement.js';
export { contentText, metadataText, saidText } from './vocabulary/content.js';
export { type EntityRef, extractEntityRefFromPath } from './vocabulary/entityPath.js';
export {
  type CustomEventType,
  type HumanEventType,
  isHumanEventType,
  isKnownEventType,
  isValidEventType,
  SESSION_EVENT_TYPES,
  type SessionEventType,
} from './vocabulary/eventTypes.js';
export {
  activeHumanSessionQueryKey,
  activeTasksQueryKey,
  approvalQueryKey,
  type EntitySessionsKeyOptions,
  entitySessionsQueryKey,
  sessionEventsQueryKey,
  workQueueCountsQueryKey,
} from './vocabulary/queryKeys.js';
export { isMarkerShortcut, isTypingSurface, type KeyPress } from './vocabulary/shortcut.js';
export { isTerminalStatus, isValidSessionStatus, SESSION_STATUSES, type SessionStatus } from './vocabulary/status.js';
export {
  BLOCK_STATUSES,
  type BlockStatus,
  buildTaskStatusMap,
  EMPTY_TASK_STATUS_MAP,
  type StatusMapSession,
  sessionStatusToBlockStatus,
  type TaskStatusMap,
} from './vocabulary/taskStatusMap.js';
export { agoText, durationText } from './vocabulary/time.js';
