//! The bounds of queues, pages, payloads and times, each with its name and the reason for its size. A test goes
//! to each limit of what others may send, keep or hold open, and one past it. Periods, defaults and sizes of the server's own
//! work that no test names stand in a table, with the reason, in `crates/sederunt/tests/limits.rs`.

use std::time::Duration;

/// One event as stored (content and metadata together). Larger things are files, by reference.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;
/// Events in one append; with [`BATCH_BYTES_MAX`] it bounds the time one change holds the writer.
pub const BATCH_EVENTS_MAX: usize = 500;
/// Bytes of one append, and so of any request body.
pub const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Allowance for the JSON around a full batch, so that the batch limit is the one that callers meet.
pub const BODY_BYTES_MAX: usize = BATCH_BYTES_MAX + 64 * 1024;
/// Connections that may be open, unless the process may open too few files for that. An idle one costs about 10 KB.
pub const CONNECTIONS_MAX: usize = 65_536;
/// Connections beyond the cap that may still ask whether the server is healthy.
pub const CONNECTIONS_RESERVED: usize = 64;
/// How long a client may take to send the head of a request.
pub const CONNECTION_HEAD_MAX: Duration = Duration::from_secs(10);
/// How much of a refused request's unread body, and for how long, the server reads and drops so that the
/// connection can be kept: most refused requests are small and already on their way.
pub const UNREAD_BODY_DRAINED_BYTES_MAX: usize = 64 * 1024;
pub const UNREAD_BODY_DRAINED_FOR: Duration = Duration::from_secs(1);
/// How much more, and for how long, the server drops after it answered `Connection: close`: a client that is still
/// writing when the connection is reset may never see the answer.
pub const UNREAD_BODY_LINGER_BYTES_MAX: usize = 4 * BODY_BYTES_MAX;
pub const UNREAD_BODY_LINGER_FOR: Duration = Duration::from_secs(5);
/// Metadata of a session or an event: it is filtered on and listed, so it must stay small.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Nesting of any JSON that is taken in; keeps every recursive reader safe on a small stack.
pub const JSON_DEPTH_MAX: usize = 64;
/// Rows of one page.
pub const PAGE_ROWS_MAX: usize = 1000;
/// Rows of one page when the caller names no limit.
pub const PAGE_ROWS_DEFAULT: usize = 100;
/// Bytes of events on one page.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Sessions about an entity, newest first, by which the status of its fields and blocks is told.
pub const STATUS_MAP_SESSIONS_MAX: usize = 100;
/// Rows that a filtered page may look at before it answers with what it has.
pub const PAGE_SCAN_MAX: usize = 10_000;
/// Session ids, user ids, slugs, titles and other names, in characters.
pub const NAME_CHARS_MAX: usize = 200;
/// The id of a spoken turn: its two events are named by it and by who spoke.
pub const VOICE_TURN_ID_CHARS_MAX: usize = NAME_CHARS_MAX - ":assistant".len();
/// A description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 2_000;
/// The description that is taken from the first text when the caller wrote none.
pub const FALLBACK_DESCRIPTION_CHARS: usize = 80;
/// The preview of the last message, in characters; it lives in the hot row.
pub const PREVIEW_CHARS: usize = 80;
/// Participants named in one request.
pub const PARTICIPANTS_MAX: usize = 200;
/// Scalar metadata values that can be filtered on, per session.
pub const METADATA_FILTER_KEYS_MAX: usize = 64;
/// Characters of a metadata value that can be filtered on.
pub const METADATA_FILTER_CHARS_MAX: usize = 200;
/// An idempotency key, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 200;
/// How long an idempotency key keeps its answer.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(24 * 3600);
/// A search text, in characters.
pub const QUERY_CHARS_MAX: usize = 500;
/// An error message, reason or other sentence given by a caller, in characters.
pub const SENTENCE_CHARS_MAX: usize = 2_000;

/// How long a channel remembers what it was told: longer than any platform repeats itself.
pub const CHANNEL_UPDATE_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a node holds a channel without renewing: another one takes over within twice this time.
pub const CHANNEL_LEASE: Duration = Duration::from_secs(15);
/// The words of another message that a message answers.
pub const ANSWERED_MESSAGE_CHARS_MAX: usize = 1_000;
/// The longest wait before something is sent again.
pub const DELIVERY_WAIT_MAX: Duration = Duration::from_secs(60);
/// Deliveries that one look at a channel takes.
pub const DELIVERIES_TAKEN_MAX: usize = 100;

/// Default lease of a claim, renewed by heartbeats.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest lease: longer than this and a dead worker blocks its work for too long.
pub const LEASE_MAX: Duration = Duration::from_secs(600);
/// The shortest lease: below this a healthy worker cannot heartbeat in time.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// How long a claim call may wait for work.
pub const CLAIM_WAIT_MAX: Duration = Duration::from_secs(60);
/// Sessions handed out by one claim call.
pub const CLAIM_BATCH_MAX: usize = 100;
/// Runs of one session before a lost lease fails it.
pub const ATTEMPTS_MAX: u32 = 3;
/// Priorities outside this range add no meaning and could starve everything else.
pub const PRIORITY_RANGE: std::ops::RangeInclusive<i32> = -1000..=1000;

/// A task, agent, tool, entity, criteria set or view as it is kept.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Steps of one task: its sessions are made in one commit and looked at together whenever one ends.
pub const STEPS_MAX: usize = 100;
/// Tools with steps inside tools with steps: deeper than this, nobody can follow what one invocation does.
pub const TOOL_NESTING_MAX: usize = 3;
/// Sessions that one invocation of a tool with steps makes, those of nested tools counted: they are made in one commit.
pub const TOOL_TREE_SESSIONS_MAX: usize = 300;
/// The values of a tool session, and one of them: a changed value must fit into the metadata of an event.
pub const TOOL_VALUES_BYTES_MAX: usize = 64 * 1024;
pub const TOOL_FIELD_BYTES_MAX: usize = 12 * 1024;
/// The longest result of an invocation that its last event repeats; a longer one is in the session's row alone.
pub const TOOL_RESULT_LOGGED_BYTES_MAX: usize = 12 * 1024;
/// How long an invocation of a tool may take, where the tool does not say, and at most.
pub const TOOL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
pub const TOOL_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Criteria sets of one task.
pub const CRITERIA_SETS_MAX: usize = 10;
/// Dimensions of one criteria set, and options of one dimension.
pub const DIMENSIONS_MAX: usize = 100;
pub const OPTIONS_MAX: usize = 100;
/// Events of a recent-activity block.
pub const ACTIVITY_LINES_MAX: usize = 100;
/// Events of a block whose reader names no limit, and of the block that an agent is given.
pub const ACTIVITY_LINES_DEFAULT: usize = 20;
/// Characters of a title, a marker and a path in a recent-activity block: a line stays short enough to be skimmed.
pub const ACTIVITY_TITLE_CHARS_MAX: usize = 120;
pub const ACTIVITY_MARKER_CHARS_MAX: usize = 300;
pub const ACTIVITY_PATH_CHARS_MAX: usize = 200;
/// Tools of one agent; all of them are sent to the model with every call.
pub const TOOLS_MAX: usize = 64;
/// Instructions of an agent.
pub const INSTRUCTIONS_BYTES_MAX: usize = 64 * 1024;
/// A JSON Schema as text.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// The schema of a tool: it travels with every request to the model.
pub const TOOL_SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Subschemas of one schema that are applied, with every reference followed: each is compiled and walked through.
pub const SCHEMA_NODES_MAX: usize = 4_000;
/// Nesting of subschemas and references: compiling and checking go as deep on the stack.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// Patterns of one schema, their text in all, and the memory that one may take when it is compiled: together they
/// bound the time and the memory of compiling a schema and of checking a long text by it.
pub const SCHEMA_PATTERNS_MAX: usize = 64;
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 8 * 1024;
pub const SCHEMA_PATTERN_MEMORY_MAX: usize = 256 * 1024;
/// Steps that checking one value may take by a schema that applies itself several times to the same value.
pub const SCHEMA_STEPS_MAX: usize = 1_000_000;
/// Memory for compiled schemas, counted at the most that each can take.
pub const SCHEMA_CACHE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long an approval may wait for its decision, in seconds: up to a year.
pub const APPROVAL_EXPIRY_S: std::ops::RangeInclusive<u64> = 1..=31_536_000;
/// Characters of a text output that are staged for a decision.
pub const STAGED_TEXT_CHARS_MAX: usize = 2_000;
/// Denied outputs of one session before it fails.
pub const DENIALS_MAX: usize = 3;
/// Repairs of an output that does not fit its contract.
pub const REPAIRS_MAX: u32 = 1;
/// Entities that one output may write.
pub const WRITTEN_ENTITIES_MAX: usize = 100;
/// Types, and ids, that a task's grant to write entities names; also the entities that a trigger's input names. As many
/// as one output may write.
pub const WRITE_GRANT_NAMES_MAX: usize = WRITTEN_ENTITIES_MAX;
/// Retries of one session, counting those of its retries: a caller who needs more starts the task again, and no
/// caller fills the queue with retries of one session. Also bounds the ids that a row names of its chain of
/// retries.
pub const RETRIES_PER_ORIGIN_MAX: u32 = 50;
/// Complaints about an output that are sent back to its worker.
pub const COMPLAINTS_MAX: usize = 10;

/// Questions of one view: a form that people still fill in.
pub const QUESTIONS_MAX: usize = 50;
/// Steps of a scale: from 0 to 10 at most.
pub const SCALE_STEPS_MAX: usize = 11;
/// Web origins that may show one form in a frame.
pub const EMBED_ORIGINS_MAX: usize = 20;
/// The name of a host, in bytes.
pub const HOST_BYTES_MAX: usize = 253;
/// Open anonymous drafts of one view. The longest silent one makes room for the next.
pub const ANONYMOUS_DRAFTS_MAX: usize = 1_000;
/// A question, in characters.
pub const QUESTION_CHARS_MAX: usize = 500;
/// One answer to a view; with who gave it, it must fit into metadata.
pub const ANSWER_BYTES_MAX: usize = 12 * 1024;
/// Characters of a text answer whose question sets no maximum.
pub const ANSWER_TEXT_CHARS: usize = 2_000;
/// Answers that are handed to one claim.
pub const ANSWERS_HANDED_MAX: usize = 10;
/// Answers of one session that wait to be read: the run's row names each of them.
pub const ANSWERS_WAITING_MAX: usize = 1_000;
/// An e-mail address, in bytes.
pub const EMAIL_BYTES_MAX: usize = 254;
/// The longest life of a share link.
pub const SHARE_LIFE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a link opens its view, where neither the view nor an owner says otherwise: first a personal link,
/// which is short-lived because it lies in a mailbox, then the link that publishing makes.
pub const PERSONAL_LINK_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
pub const VIEW_LINK_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a respondent's cookie is valid.
pub const CLEARANCE_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// A call that waits for a person's input, with its arguments, the server's state and the input so far.
pub const ELICITATION_BYTES_MAX: usize = 256 * 1024;
/// Deadline of pending and waiting sessions.
pub const WAITING_DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Silence after which an open response session is abandoned.
pub const RESPONSE_DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Silence after which a tool session that was not invoked is abandoned.
pub const TOOL_SESSION_DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);
/// A human bridge session ends this long after its start.
pub const BRIDGE_DEADLINE: Duration = Duration::from_secs(12 * 3600);
/// Events of one append to a human bridge: what a browser collects in a few seconds.
pub const BRIDGE_BATCH_EVENTS_MAX: usize = 100;
/// The text of a marker, in characters.
pub const MARKER_CHARS_MAX: usize = 2_000;
/// A path that a person visited, in characters.
pub const PATHNAME_CHARS_MAX: usize = 512;
/// The time that a client says about an event, in bytes.
pub const TIME_BYTES_MAX: usize = 64;
/// Prefixes of paths that are not recorded.
pub const ACTIVITY_EXCLUDE_MAX: usize = 100;
/// Bridges that one commit forgets.
pub const FORGET_SESSIONS_MAX: usize = 100;
/// Silence after which a session is hidden from lists.
pub const INACTIVE_AFTER: Duration = Duration::from_secs(3 * 24 * 3600);
/// Rows that one sweep settles before it lets others write.
pub const SWEEP_ROWS_MAX: usize = 200;

/// Times a command is decided anew when its guard fails, before the caller sees a conflict.
pub const DECIDE_ROUNDS_MAX: usize = 8;
/// The same for an answer to a view that a session has published: as many people send theirs at once.
pub const ANSWER_ROUNDS_MAX: usize = 64;

/// Frames kept per live session for subscribers that are only a little behind.
pub const RING_FRAMES_MAX: usize = 256;
/// Bytes of those frames.
pub const RING_BYTES_MAX: usize = 1024 * 1024;
/// From this many readers of one log on, they are woken together, at most once in this interval.
pub const CROWD_READERS: usize = 128;
pub const CROWD_INTERVAL: Duration = Duration::from_millis(5);
/// Text of one unfinished reply that late readers are given.
pub const DELTA_TEXT_BYTES_MAX: usize = 256 * 1024;
/// What a person shows of themselves in a session, such as a cursor: it is sent to every reader at every change.
pub const PRESENCE_STATE_BYTES_MAX: usize = 1024;
/// A presence that is not renewed ends after this time; so a person whose browser or node has died vanishes.
pub const PRESENCE_LIFE: Duration = Duration::from_secs(30);
/// Between two changes of one person's state in one session.
pub const PRESENCE_CHANGE_EVERY: Duration = Duration::from_secs(1);
/// How long it is remembered that a person has left: longer than a change takes to reach every node.
pub const PRESENCE_LEFT_KEPT: Duration = Duration::from_secs(3);
/// People who are present in one session: the whole list goes to every reader.
pub const PRESENCE_SESSION_PEOPLE_MAX: usize = 100;
/// People who are present in the sessions of one tenant, and of all tenants, counted once per session: every node
/// holds them all in memory, at about 1.5 KiB each.
pub const PRESENCE_TENANT_PEOPLE_MAX: usize = 10_000;
pub const PRESENCE_PEOPLE_MAX: usize = 50_000;
/// A stream is told of changes at most this often, of several at once.
pub const PRESENCE_TOLD_EVERY: Duration = Duration::from_millis(500);
/// How often a node with such streams looks for presences that have lapsed, and how often a node drops lapsed ones
/// while others arrive.
pub const PRESENCE_LOOK_AGAIN: Duration = Duration::from_millis(250);
pub const PRESENCE_SWEPT_EVERY: Duration = Duration::from_secs(10);
/// Hints kept per tenant for streams that resume.
pub const HINT_RING_MAX: usize = 4096;
/// How long the audience of a session is cached for routing hints. A change of the session's row is seen at once;
/// this bounds changes of people that leave the row alone, such as merging two users.
pub const HINT_AUDIENCE_KEPT: Duration = Duration::from_secs(3);
/// Sessions of a tenant whose audience is remembered for hints.
pub const HINT_AUDIENCES_MAX: usize = 10_000;
/// How long hints are still collected for a user whose last hint stream has ended, so that a client that comes
/// back resumes from its cursor.
pub const HINT_SCOPE_LINGERS: Duration = Duration::from_secs(30);
/// The counts and pending approvals that hint streams tell of are read again at most this often, and at least this often
/// while a stream wants them: not everything that changes them gives a hint.
pub const FIGURES_INTERVAL: Duration = Duration::from_secs(1);
pub const FIGURES_REFRESHED: Duration = Duration::from_secs(60);
/// Readings of such figures at the same time on one node, so that many people's streams leave the store to others.
pub const FIGURE_READS_MAX: usize = 4;
/// Bytes of events that a stream reads at a time, from the store or from the ring. The next are read when
/// these have been written to the connection.
pub const STREAM_PAGE_BYTES_MAX: usize = 256 * 1024;
/// Live events up to this size are not charged to a stream's budget: they are in memory for all readers.
pub const STREAM_BYTES_UNCHARGED: usize = 16 * 1024;
/// Streams that may be open in all, unless the process may open too few files for that.
pub const STREAMS_MAX: usize = 32_768;
/// Streams of one credential: a person's browsers and programs, or a backend that streams to its users.
pub const STREAMS_PER_CREDENTIAL_MAX: usize = 256;
/// Streams through one share link, and those of them that come from one address: a link is read by strangers.
pub const STREAMS_PER_LINK_MAX: usize = 100;
pub const STREAMS_PER_LINK_AND_ADDRESS_MAX: usize = 8;
/// Bytes that all streams together may hold of pages that are not written yet, and those of one address or
/// credential, of one share link, and of one share link from one address.
pub const STREAM_BYTES_MAX: usize = 256 * 1024 * 1024;
pub const STREAM_BYTES_PER_CALLER_MAX: usize = 64 * 1024 * 1024;
pub const STREAM_BYTES_PER_LINK_MAX: usize = 8 * 1024 * 1024;
pub const STREAM_BYTES_PER_LINK_AND_ADDRESS_MAX: usize = 2 * 1024 * 1024;
/// When a caller with too many streams may try again.
pub const STREAM_RETRY_AFTER: Duration = Duration::from_secs(5);
/// A reader that has kept writes waiting for this long in all must have taken this much a second of it, or its
/// connection is cut.
pub const STREAM_DRAIN_WINDOW: Duration = Duration::from_secs(30);
pub const STREAM_DRAIN_BYTES_PER_SECOND_MIN: usize = 1024;
/// What may be asked from one address through all share links, as a multiple of what one holder of a link may ask. An
/// office behind one address has this many people.
pub const LINK_HOLDERS_PER_ADDRESS: u32 = 20;
/// Strangers from one address who become respondents within a minute.
pub const NEW_RESPONDENTS_PER_ADDRESS_AND_MINUTE: u32 = 60;
/// New leads through one link: per hour, and at once when a form goes out. Each becomes an entity of the tenant,
/// and any holder of the link can make one.
pub const LEADS_PER_LINK_AND_HOUR: u32 = 100;
pub const LEADS_PER_LINK_BURST: u32 = 1_000;
/// Comment heartbeat of a stream.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(15);
/// A reader that takes nothing for this long is cut; it resumes from its cursor.
pub const STREAM_STALL_MAX: Duration = Duration::from_secs(20);
/// How often an open stream asks again whether its reader may still read.
pub const STREAM_RECHECK: Duration = Duration::from_secs(3);
/// Addresses whose refused credentials are counted apart within a minute, and those of them, the loudest, that get
/// an audit line of their own; all others share one line. A node writes no more than that, so guessing from many
/// addresses neither fills the trail nor hides in it.
pub const REFUSED_ADDRESSES_COUNTED_MAX: usize = 1_024;
pub const REFUSED_ADDRESSES_AUDITED_MAX: usize = 32;
/// Bound on how long a revoked credential, share or membership keeps working, on any node.
pub const REVOCATION_REACHES: Duration = Duration::from_secs(5);
/// A browser that sent nothing for this long is signed out: a machine that was left alone for a night.
pub const BROWSER_SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// A browser is signed out after this time, however busy it is.
pub const BROWSER_SESSION_LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often the use of a browser session is written down: a request in between writes nothing.
pub const BROWSER_SESSION_SEEN_EVERY: Duration = Duration::from_secs(300);
/// Browser sessions of one person. A further sign-in ends the one that was not used for the longest time.
pub const BROWSER_SESSIONS_MAX: usize = 50;
/// What is kept of the name that a browser gives itself.
pub const BROWSER_NAME_CHARS_MAX: usize = 200;

/// Changes that one group commit takes; bounds what a crash can make a caller wait for.
pub const GROUP_MAX: usize = 512;
/// Changes waiting for the writer; beyond it callers are told to try again.
pub const WRITE_QUEUE_MAX: usize = 8_192;

/// What a tenant may keep where the configuration sets nothing: sessions, work that has not ended, bytes of logs.
/// Far beyond what an installation holds by intent, and low enough to stop a runaway program before the disk is
/// full.
pub const QUOTA_TENANT_SESSIONS: u64 = 10_000_000;
pub const QUOTA_TENANT_RUNS: u64 = 1_000_000;
pub const QUOTA_TENANT_BYTES: u64 = 1 << 40;
/// Streams that a tenant may have open on one node: half of all that a node serves, so that one tenant alone never
/// takes the streams of every other.
pub const QUOTA_TENANT_STREAMS: u64 = STREAMS_MAX as u64 / 2;
/// The same for each user, by the sessions that they hold.
pub const QUOTA_USER_SESSIONS: u64 = 5_000_000;
pub const QUOTA_USER_RUNS: u64 = 500_000;
pub const QUOTA_USER_BYTES: u64 = 1 << 39;
/// When a caller whose sessions, runs or incognito memory are used up may try again. Streams end sooner:
/// [`STREAM_RETRY_AFTER`].
pub const QUOTA_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How often the store is asked what a writing tenant uses, and how soon it may be asked again before a refusal.
pub const QUOTA_LOOK_AGAIN: Duration = Duration::from_secs(30);
pub const QUOTA_LOOK_AGAIN_MIN: Duration = Duration::from_secs(1);

/// Bytes of one incognito session, of all those of one user, and of all of a process: they live in memory.
pub const INCOGNITO_SESSION_BYTES: u64 = 8 * 1024 * 1024;
pub const INCOGNITO_USER_BYTES: u64 = 32 * 1024 * 1024;
pub const INCOGNITO_TOTAL_BYTES: u64 = 256 * 1024 * 1024;
/// Silence after which an incognito session is deleted: its sitting has ended long before.
pub const INCOGNITO_IDLE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The value of a document that people and agents edit together, as text: a node parses it and keeps it in memory.
pub const SHARED_DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Nesting of such a value: as deep as any JSON that is taken in.
pub const SHARED_DOCUMENT_DEPTH_MAX: usize = JSON_DEPTH_MAX;
/// Documents of one session: all of them are listed at once.
pub const DOCUMENTS_PER_SESSION_MAX: usize = 50;
/// Operations of one patch, and their text: with its envelope it must fit into metadata.
pub const PATCH_OPS_MAX: usize = 100;
pub const PATCH_BYTES_MAX: usize = 12 * 1024;
/// Patches that may lie between a patch and its base: as many are compared with it.
pub const PATCHES_BEHIND_MAX: usize = 1_000;
/// Places that the refusal of a patch lists.
pub const CONFLICTS_LISTED_MAX: usize = 100;
/// Patches of a document, and bytes of their operations, after which the next commit writes its value down: opening it
/// applies no more than these.
pub const SNAPSHOT_PATCHES: usize = 256;
pub const SNAPSHOT_OPS_BYTES: usize = 64 * 1024;
/// Patches of one document that are committed together, and that may wait for their turn on a node.
pub const PATCHES_GATHERED_MAX: usize = 256;
pub const PATCHES_WAITING_MAX: usize = 4_096;
/// How long a patch is judged anew while other nodes write to its document.
pub const PATCH_JUDGED_FOR: Duration = Duration::from_secs(5);
/// Memory for the documents that a node keeps parsed.
pub const DOCUMENT_CACHE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Earlier states of documents that a node computes at once: each may apply every patch of a long log.
pub const DOCUMENT_FOLDS_MAX: usize = 2;

/// Silence after which a sitting has expired.
pub const SITTING_IDLE_AFTER: Duration = Duration::from_secs(20 * 60);
/// What one turn may change of a conversation's state; with its envelope it must fit into metadata.
pub const TURN_DELTA_BYTES_MAX: usize = 12 * 1024;
/// The characters of a code by which an account is linked: 40 bits, for ten minutes, and only owners can try one.
pub const LINK_CODE_CHARS: usize = 8;
/// How long a code by which an account is linked works.
pub const LINK_CODE_LIFE: Duration = Duration::from_secs(600);
/// Messages that one stranger may send through a channel within a minute.
pub const STRANGER_MESSAGES_MAX: u32 = 20;
/// Messages that all strangers of a channel may send within a minute.
pub const STRANGERS_OF_CHANNEL_MESSAGES_MAX: u32 = 300;
/// How often a stranger is told that nobody answers them.
pub const STRANGER_TOLD_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Threads of one group of which is known whether the agent follows them; in older ones it has to be mentioned again.
pub const TALK_THREADS_MAX: usize = 64;
/// Speakers of one prompt whose names are read; the others are called by their ids.
pub const SPEAKERS_NAMED_MAX: usize = 64;
/// The name of a speaker in a prompt, in characters: a longer one is cut.
pub const SPEAKER_NAME_CHARS_MAX: usize = 64;
/// Messages that may wait for a turn; beyond it callers get `session_busy`.
pub const TURN_QUEUE_MAX: usize = 32;
/// Sentences that an arc lists as mentioned but not kept as facts: enough for a long sitting, few enough for a
/// row.
pub const MENTIONED_MAX: usize = 16;
/// Messages of a sitting that are noted because the safety check found a crisis level in them: a sitting's row
/// stays small, and its summary reads no more than this many messages anyway.
pub const CRISIS_TURNS_NOTED_MAX: usize = 400;
/// The newest messages that a turn reads: what came before is in the summary or forgotten.
pub const TURN_HISTORY_MAX: usize = 40;
/// How long a turn waits for a person to approve a tool call: the person who asked is still present, or has left.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(120);
/// The newest messages, calls and results that a turn with tools reads: a few steps for every message.
pub const TURN_STEPS_READ_MAX: usize = 160;
/// How long a caller waits for a running turn before it gets `session_busy`.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(30);

/// Active rules of one profile: all of them go into every prompt.
pub const RULES_MAX: usize = 20;
/// Archived rules that a profile still shows.
pub const ARCHIVED_RULES_MAX: usize = 100;
/// Quotes that a rule keeps as its evidence.
pub const RULE_QUOTES_MAX: usize = 3;
/// Candidates that a sitting holds; they are stored with it at every turn.
pub const CANDIDATES_MAX: usize = 200;
/// Candidates that one message may yield.
pub const EXTRACTED_MAX: usize = 8;
/// Characters of a message that are read for candidates; people say who they are early.
pub const EXTRACT_CHARS_MAX: usize = 8_000;
/// A quote, a rule and the object of a fact, in characters: each is a line of a prompt.
pub const QUOTE_CHARS_MAX: usize = 300;
pub const RULE_CHARS_MAX: usize = 300;
pub const OBJECT_CHARS_MAX: usize = 200;
/// Sessions that a memory names as its sources, and sequences of each.
pub const SOURCES_MAX: usize = 20;
pub const SOURCE_SEQUENCES_MAX: usize = 50;
/// Facts and arcs that a turn recalls: enough to be useful, few enough to leave the prompt to the talk.
pub const RECALLED_FACTS_MAX: usize = 5;
pub const RECALLED_ARCS_MAX: usize = 2;
/// Numbers of one vector: more than any embedding model makes.
pub const VECTOR_NUMBERS_MAX: usize = 4_096;
/// An owner's newest vectors, which a question is compared with: as many as one turn has time for.
pub const VECTORS_COMPARED_MAX: usize = 10_000;
/// Earlier sittings whose unkept sentences are compared with a sitting that ends: the newest.
pub const EARLIER_ARCS_MAX: usize = 10;
/// Characters of memory that a spoken conversation is given.
pub const VOICE_MEMORY_CHARS_MAX: usize = 2_000;
/// Memories of each kind that a store is asked for before the best few are picked.
pub const RECALL_CANDIDATES: usize = 20;
/// Facts that share a word with a new one, and are compared with it.
pub const KNOWN_LIKE_MAX: usize = 50;
/// How long a memory counts as used without another write.
pub const REFERENCED_GRAIN: Duration = Duration::from_secs(24 * 3600);
/// The newest messages of a sitting, from which its summary and memories are made.
pub const SITTING_MESSAGES_MAX: usize = 400;
/// One recalled memory in a prompt, in characters: a whole summary fits.
pub const RECALLED_LINE_CHARS_MAX: usize = 800;
/// What an arc says of a sitting.
pub const SUMMARY_CHARS_MAX: usize = 600;
pub const THEMES_MAX: usize = 3;
/// A mood or a theme, in characters.
pub const MOOD_CHARS_MAX: usize = 40;
/// Open loops of an arc, and resolved threads; and one of them in characters.
pub const THREADS_MAX: usize = 5;
pub const THREAD_CHARS_MAX: usize = 200;
/// Approaches that a sitting counts.
pub const APPROACHES_MAX: usize = 32;
/// Hits that a person chooses among before one is deleted.
pub const DELETE_OPTIONS_MAX: usize = 5;
/// Memories that are listed when a person asks what is known.
pub const KNOWN_LISTED_MAX: usize = 20;
/// A memory as one line of talk, in characters.
pub const LABEL_CHARS_MAX: usize = 120;
/// Phrases of one message that the crisis lexicon weighs, the gravest first.
pub const CRISIS_HITS_MAX: usize = 1_000;
/// The name of a tool in the crisis log.
pub const TOOL_NAME_BYTES_MAX: usize = 64;
/// How long the crisis log is kept.
pub const CRISIS_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// The latest day until which a crisis record may be held: a mistyped year must not keep it for ever.
pub const CRISIS_HELD_MAX: Duration = Duration::from_secs(3_660 * 24 * 3600);
/// How long ratings are kept: longer than crises, since they are compared over quarters.
pub const RATINGS_KEPT: Duration = Duration::from_secs(180 * 24 * 3600);
/// Memories of each kind that a search returns beside its hits.
pub const FOUND_MEMORIES_MAX: usize = 20;

/// Silence that closes a feedback session.
pub const FEEDBACK_SILENCE: Duration = Duration::from_secs(60);
/// Messages of one feedback session, and characters of each: a longer message is cut and marked as cut.
pub const FEEDBACK_MESSAGES_MAX: usize = 20;
pub const FEEDBACK_MESSAGE_CHARS_MAX: usize = 1_000;
/// Characters of each text of a feedback event.
pub const FEEDBACK_TEXT_CHARS_MAX: usize = 4_000;
/// Messages of a conversation that may be sent with a feedback event, and how many of the newest are kept.
pub const FEEDBACK_HISTORY_MAX: usize = 100;
pub const FEEDBACK_HISTORY_KEPT: usize = 10;
/// Messages before a thumb that a lesson is drawn from.
pub const FEEDBACK_PRIOR_MAX: usize = 6;
/// Rubric scores that may be sent with a feedback event.
pub const RUBRIC_MAX: usize = 20;
/// A judge's score, from bad to good.
pub const RUBRIC_SCORES: std::ops::RangeInclusive<u8> = 1..=5;
pub const TAGS_MAX: usize = 10;
pub const TAG_CHARS_MAX: usize = 50;
/// Feedback sessions that one pass of the sweeper takes.
pub const FEEDBACK_ROWS_MAX: usize = 500;
/// Tags and skills that the statistics name.
pub const TALLY_NAMES_MAX: usize = 20;
/// Characters of a lesson.
pub const LESSON_CHARS_MAX: usize = 500;
/// Lessons that a new one is compared with.
pub const LESSON_RIVALS_MAX: usize = 50;
/// Lessons that an agent is given at a time, and characters of each.
pub const LESSONS_SHOWN_MAX: usize = 5;
pub const LESSON_SHOWN_CHARS_MAX: usize = 300;
/// Occurrences from different events at which a lesson becomes a rule.
pub const RULE_OCCURRENCES: u64 = 3;
/// People who must have said it before a lesson becomes a rule: one member alone makes no rule for the tenant.
pub const RULE_VOICES: u64 = 2;
/// Rules that are listed, the weightiest first.
pub const RULES_LISTED_MAX: usize = 50;
/// How long a tenant without lessons is remembered as such before the store is asked again.
pub const LESSONS_LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
