//! The sizes and times of this crate, each with its name and reason. A test goes to each limit of what others may send, and
//! one past it; `crates/sederunt/tests/limits.rs` holds that, and lists what only tunes the server.

use std::time::Duration;

/// One frame of a model's stream. Frames are a few hundred bytes; more than this is not a frame.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// One whole reply of a model, tool arguments included: more could not be stored as events anyway.
pub const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Tool calls in one reply; a model that asks for more is running wild.
pub const REPLY_CALLS_MAX: usize = 128;
/// What is read of a refusal's body, to find its code.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Tokens of a reply where the agent sets no number. Anthropic requires one in every request.
pub const REPLY_TOKENS_DEFAULT: u32 = 4_096;
/// How long a host may take to accept a connection.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Silence on a model's stream after which it is given up. Models that think can be silent for long.
pub const MODEL_IDLE_MAX: Duration = Duration::from_secs(90);
/// One model call with all its attempts.
pub const MODEL_TOTAL_MAX: Duration = Duration::from_secs(600);
/// The longest `Retry-After` that is obeyed; a call to a provider that asks for more fails at once.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// Arguments of one tool call; they are stored as one event.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
/// Result of one tool call; the rest is cut, and the model is told. Half of an event, so that it can be
/// stored.
pub const RESULT_BYTES_MAX: usize = 128 * 1024;
/// A tool's question to a person before it acts; the rest is cut.
pub const SUMMARY_CHARS_MAX: usize = 500;
/// Problems with arguments that are listed before the rest is only counted.
pub const PROBLEMS_MAX: usize = 5;
/// One tool call.
pub const TOOL_CALL_MAX: Duration = Duration::from_secs(60);
/// How much longer than its own time a call of a tool session may take: its child is cancelled then.
pub const CALLED_TOOL_GRACE: Duration = Duration::from_secs(30);
/// A tool's name as all providers accept it.
pub const TOOL_NAME_CHARS_MAX: usize = 64;
/// Tools that one MCP server may bring; each costs tokens in every request.
pub const MCP_TOOLS_MAX: usize = 128;
/// How often a tool may ask for input in one call: one that asks more often has no end.
pub const INPUT_ROUNDS_MAX: u32 = 10;
/// Forms that a tool may want filled in at once.
pub const INPUT_FORMS_MAX: usize = 8;
/// The message and the schema of one form; a person reads them.
pub const INPUT_FORM_BYTES_MAX: usize = 32 * 1024;
/// What a server wants to have back with the input.
pub const INPUT_STATE_BYTES_MAX: usize = 32 * 1024;
/// How long a server that was declined at the end of a call's time may take to answer the call.
pub const INPUT_DECLINED_GRACE: Duration = Duration::from_secs(5);
/// How long an MCP server may take to start and introduce itself.
pub const MCP_START_MAX: Duration = Duration::from_secs(30);

/// Events of a log that a run reads back when it begins: far more than any model is given.
pub const LOG_EVENTS_READ: usize = 5_000;
/// Replies of a model in one session, even if its task allows more: one that needs more is going round in circles.
pub const STEPS_MAX: u64 = 200;
/// Replies in a row that call a tool with unreadable arguments: a model that repeats the mistake after being told
/// does not learn from being told again.
pub const BAD_ARGUMENTS_MAX: u32 = 3;
/// The part of one event that a text may take, with its escapes; the rest is for metadata.
pub const TEXT_EVENT_BYTES_MAX: usize = sederunt_core::limits::EVENT_BYTES_MAX - 8 * 1024;
/// The part of a batch that the texts and arguments of one reply may take; the rest is for the events around them.
pub const REPLY_LOGGED_BYTES_MAX: usize = sederunt_core::limits::BATCH_BYTES_MAX - 512 * 1024;
/// When the row of a run or turn is first read for a stop that came between its claim and its start. Shorter runs and
/// turns cost no read.
pub const STOP_LOOK_AFTER: Duration = Duration::from_millis(50);
/// Replies of a model in one turn of talk, even if its agent allows more: a person waits for the last of them.
pub const TURN_STEPS_MAX: u64 = 50;
/// Tokens that a model is given when its agent sets nothing.
pub const CONTEXT_TOKENS_DEFAULT: usize = 32_000;
/// Tries of a tool that could not be reached at all.
pub const TOOL_TRIES_MAX: u32 = 3;
/// The wait before the second try; the third waits twice as long.
pub const TOOL_TRY_WAIT: Duration = Duration::from_millis(200);
/// How often an idle worker looks for work without having been woken.
pub const WORK_LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How old the definitions of agents may be when a busy worker fetches more work for them.
pub const AGENTS_KEPT: Duration = Duration::from_millis(10);
/// How often a worker looks for new tenants.
pub const TENANTS_LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long a caller waits for the reply to a message whose turn runs elsewhere, or later.
pub const REPLY_WAIT_MAX: Duration = Duration::from_secs(600);
/// Silent sittings and waiting messages that one sweep of conversations handles.
pub const CONVERSATION_SWEEP_ROWS_MAX: usize = 1_000;
/// How often a caller that waits for a turn to end reads the row without having been woken.
pub const ROW_LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Characters that one look back over a session reads.
pub const LOOK_BACK_CHARS_MAX: usize = 32_000;

/// Texts that one embedding call takes: as many as all providers accept.
pub const EMBED_TEXTS_MAX: usize = 64;
/// Characters of a text that are embedded: a memory is a sentence, a message may be a book.
pub const EMBED_CHARS_MAX: usize = 4_000;
/// The vectors of one call: each number may be written with twenty characters.
pub const EMBED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long embedding memories in the background may be silent.
pub const EMBED_IDLE_MAX: Duration = Duration::from_secs(30);
/// How long a turn waits for the embedding of its message before it recalls by words alone.
pub const EMBED_MESSAGE_MAX: Duration = Duration::from_millis(800);
/// The default similarity (cosine) from which on two texts are related.
pub const SIMILARITY_MIN: f32 = 0.3;
/// Bytes of vectors that are kept ready in memory; the owners used least recently are dropped first.
pub const VECTOR_CACHE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// A realtime provider's answer to a request for a secret.
pub const CLIENT_SECRET_BYTES_MAX: usize = 64 * 1024;
/// How long the start of a spoken conversation waits for that secret.
pub const CLIENT_SECRET_MAX: Duration = Duration::from_secs(5);
/// How long closing a feedback session waits for a model to word its lesson.
pub const LESSON_WAIT_MAX: Duration = Duration::from_secs(20);
