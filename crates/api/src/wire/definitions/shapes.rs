//! The schemas of definitions, for the API document.
//!
//! These structs are never filled: the routes read and write core's own definitions. For every other noun the wire has
//! types of its own; a definition is different, because callers get back what they sent. Its JSON is stored as it is
//! sent, versioned, exported in bundles and imported again, so a renamed field in core would break stored documents and
//! bundles before it broke a client, and a second set of types would only repeat the first. A test in `definitions`
//! compares these schemas with the JSON of core's types, field by field.

use std::collections::BTreeMap;

use sederunt_core::Timestamp;
use sederunt_core::definitions::task;
use serde::Serialize;
use utoipa::ToSchema;

use super::{NewAgent, NewCriteriaSet, NewEntity, NewTask, NewToolDefinition, NewView};
use crate::wire::{Raw, words};

/// Work that can be started any number of times.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"slug": "weather-report", "name": "Report the weather", "agent_slug": "external",
    "output": {"type": "text"}, "requires_approval": true}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Task {
    #[schema(min_length = 1, max_length = 200)]
    id: String,
    /// Unique among tasks. A task can be named by its slug instead of its id.
    #[schema(min_length = 1, max_length = 200)]
    slug: String,
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Only active tasks are started.
    status: TaskStatus,
    #[schema(max_length = 2000)]
    description: Option<String>,
    /// The agent that does the work: a defined one, `eliza` or `external`.
    #[schema(min_length = 1, max_length = 200)]
    agent_slug: Option<String>,
    /// The user who decides and answers, and who does the work if there is no agent.
    #[schema(min_length = 1, max_length = 200)]
    assigned_to: Option<String>,
    /// The entity that the work is about, and to which its output is written.
    #[schema(min_length = 1, max_length = 200)]
    entity_id: Option<String>,
    /// The input of every run; the input of a trigger is merged over it.
    #[schema(value_type = Raw, required = false)]
    input: Option<Raw>,
    /// The run of a task with steps is a parent session with one child per step.
    #[schema(max_items = 100)]
    steps: Vec<Step>,
    output: Option<Output>,
    /// The entities that the task may write. Only an owner sets it. If an owner leaves it out, it is what the outputs
    /// need.
    writes: Option<WriteGrant>,
    /// A person approves the output before it is written; if a person does the work, an owner approves it.
    requires_approval: bool,
    /// The first one judges the staged output. `criteria_set_id` may be sent instead of a list of one.
    #[schema(max_items = 10)]
    criteria_set_ids: Vec<String>,
    approval: Option<ApprovalTerms>,
    limits: RunLimits,
    on_child_failure: OnChildFailure,
    #[schema(minimum = -1000, maximum = 1000)]
    priority: i32,
    version: u64,
    created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Only in the answer to a definition or change: the parts that this server cannot run with its present
    /// configuration. Left out if there are none.
    warnings: Vec<String>,
}

words!(TaskStatus = task::TaskStatus { Active, Paused, Done, Archived });

/// One step of a task: an agent's, or a person's.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Step {
    #[schema(min_length = 1, max_length = 200)]
    key: String,
    name: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    agent_slug: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    assigned_to: Option<String>,
    #[schema(value_type = Raw, required = false)]
    input: Option<Raw>,
    /// Keys of the steps that must have completed.
    #[schema(required = false)]
    depends_on: Vec<String>,
    output: Option<Output>,
}

/// An output contract: the kind and shape of a run's result.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Output {
    #[schema(rename = "type")]
    kind: OutputType,
    /// JSON Schema of the result, at most 64 KiB.
    #[schema(value_type = Raw, required = false)]
    schema: Option<Raw>,
    /// Which values of the result become which fields; left out, all of them by their own names.
    fields: Option<FieldMap>,
    /// The type of entities that are made.
    #[schema(min_length = 1, max_length = 200)]
    entity_type: Option<String>,
    /// The field of the session's entity that lists what was made for it.
    #[schema(min_length = 1, max_length = 200)]
    relation: Option<String>,
}

/// The entities that a task may write. It is frozen into a run when the run is started.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct WriteGrant {
    /// Types of which it may make new entities.
    #[schema(required = false, max_items = 100)]
    types: Vec<String>,
    /// Entities that it may change.
    #[schema(required = false, max_items = 100)]
    ids: Vec<String>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "kebab-case")]
pub enum OutputType {
    None,
    Text,
    Object,
    Entity,
    Entities,
    RelationEntity,
}

/// Names of values, or fields with the path of their value (`a.b` or `/a/b`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum FieldMap {
    Names(Vec<String>),
    Paths(BTreeMap<String, String>),
}

/// How long a decision may take, and what happens when no one decides in time. An approval never approves itself.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct ApprovalTerms {
    #[schema(minimum = 1, maximum = 31_536_000)]
    expires_in_s: u64,
    #[schema(required = false)]
    on_expiry: OnExpiry,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum OnExpiry {
    Expire,
    Deny,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum OnChildFailure {
    FailParent,
    Continue,
}

/// What one run may use up; null is no limit beyond the server's own.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct RunLimits {
    steps: Option<u64>,
    tokens: Option<u64>,
    cost_micros: Option<u64>,
    wall_ms: Option<u64>,
}

/// An agent that does tasks.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"slug": "scribe", "name": "Scribe", "instructions": "Write plainly."}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Agent {
    /// The slug.
    #[schema(min_length = 1, max_length = 200)]
    id: String,
    #[schema(min_length = 1, max_length = 200)]
    slug: String,
    #[schema(max_length = 200)]
    name: String,
    /// At most 64 KiB.
    instructions: Option<String>,
    /// `eliza`, `external`, or a model that the server's configuration knows; null is its default.
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    #[schema(max_items = 64)]
    tools: Vec<Tool>,
    limits: AgentLimits,
    /// Runs of this agent are given the recent activity of the person who triggered them.
    activity: bool,
    version: u64,
    created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Only in the answer to a definition or change: the parts that this server cannot run with its present
    /// configuration. Left out if there are none.
    warnings: Vec<String>,
}

/// What one run of an agent may use, and how many of them at once.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct AgentLimits {
    steps: Option<u64>,
    tokens: Option<u64>,
    cost_micros: Option<u64>,
    wall_ms: Option<u64>,
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    context_tokens: Option<u64>,
}

/// Something that an agent may call: `type` is `http`, `mcp`, `builtin` or `tool`, and the other fields follow
/// from it.
#[derive(Debug, ToSchema)]
#[schema(as = Tool)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Tool {
    #[schema(rename = "type")]
    kind: ToolType,
    /// Of an HTTP tool, or `request_input` or `request_feedback`.
    #[schema(required = false, nullable = false)]
    name: Option<String>,
    description: Option<String>,
    /// JSON Schema of the arguments of an HTTP tool.
    #[schema(value_type = Raw, required = false)]
    schema: Option<Raw>,
    #[schema(required = false, nullable = false)]
    url: Option<String>,
    /// GET, POST, PUT, PATCH or DELETE.
    #[schema(required = false, nullable = false)]
    method: Option<String>,
    /// `secret:NAME` is replaced by a secret of the server's configuration.
    #[schema(required = false, nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// Whether a person is asked first; of an MCP server, for which of its tools.
    #[schema(value_type = Raw, required = false)]
    requires_confirmation: Option<Raw>,
    timeout_ms: Option<u64>,
    /// An MCP server that the server's configuration declares.
    #[schema(required = false, nullable = false)]
    server: Option<String>,
    /// Which of its tools; none named is all.
    #[schema(required = false, nullable = false)]
    allow: Option<Vec<String>>,
    /// A tool that is defined by itself: each call is a tool session.
    #[schema(required = false, nullable = false)]
    slug: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ToolType {
    Http,
    Mcp,
    Builtin,
    Tool,
}

/// A form that people and agents fill in and run.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"slug": "weather", "name": "Ask for the weather",
    "input_schema": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
    "run": {"type": "http", "url": "https://example.org/weather"}}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct ToolDefinition {
    /// The slug.
    #[schema(min_length = 1, max_length = 200)]
    id: String,
    /// 1 to 64 letters, digits, `_` or `-`.
    #[schema(min_length = 1, max_length = 200)]
    slug: String,
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    #[schema(max_length = 2000)]
    description: Option<String>,
    /// JSON Schema of the values, an object; at most 32 KiB. A property with `writeOnly` takes `{"secret": NAME}`.
    #[schema(value_type = Object)]
    input_schema: Raw,
    run: ToolRun,
    /// The result that it must produce: `none`, `text` or `object`.
    output: Option<Output>,
    /// A person agrees to the values before it acts.
    requires_confirmation: bool,
    /// How long an invocation may take, and how long an agent waits for it; null is a minute.
    #[schema(minimum = 1, maximum = 600_000)]
    timeout_ms: Option<u64>,
    version: u64,
    created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// What running a tool does: `type` is `http`, `mcp`, `task` or `steps`, and the other fields follow from it.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct ToolRun {
    #[schema(rename = "type")]
    kind: ToolActionType,
    #[schema(required = false, nullable = false)]
    url: Option<String>,
    /// GET, POST, PUT, PATCH or DELETE; POST unless said. The values are the JSON body, and never in the address.
    #[schema(required = false, nullable = false)]
    method: Option<String>,
    /// `secret:NAME` is replaced by a secret of the server's configuration.
    #[schema(required = false, nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// An MCP server that the server's configuration declares.
    #[schema(required = false, nullable = false)]
    server: Option<String>,
    /// The tool of that server.
    #[schema(required = false, nullable = false)]
    tool: Option<String>,
    /// A task: its id or slug. The values are its input.
    #[schema(required = false, nullable = false)]
    task: Option<String>,
    #[schema(required = false, nullable = false, max_items = 100)]
    steps: Option<Vec<ToolStep>>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ToolActionType {
    Http,
    Mcp,
    Task,
    Steps,
}

/// An invocation of another tool.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct ToolStep {
    #[schema(min_length = 1, max_length = 200)]
    key: String,
    /// The slug of the tool.
    tool: String,
    /// Its values. `{"$from": "/values/x"}` anywhere in it is replaced by a value of this tool, and
    /// `{"$from": "/steps/KEY/result/y"}` by a part of another step's result.
    #[schema(value_type = Object)]
    input: Raw,
    /// Keys of the steps that must have completed. Steps whose results it uses count without being named.
    #[schema(required = false)]
    depends_on: Vec<String>,
}

/// A thing that work is about and that its results are written back to.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"type_slug": "city", "title": "Oban", "fields": {"rain": null}}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Entity {
    #[schema(min_length = 1, max_length = 200)]
    id: String,
    #[schema(min_length = 1, max_length = 200)]
    type_slug: String,
    #[schema(max_length = 200)]
    title: Option<String>,
    #[schema(value_type = Object)]
    fields: Raw,
    version: u64,
    created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// The dimensions by which a staged output is judged.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"name": "Tone", "dimensions": [{"slug": "tone", "type": "select",
    "options": [{"value": "kind", "score": 1}, {"value": "cruel", "score": 0}],
    "option_styles": {"cruel": {"hard_block": true}}}]}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct CriteriaSet {
    #[schema(min_length = 1, max_length = 200)]
    id: String,
    #[schema(max_length = 200)]
    name: String,
    #[schema(max_items = 100)]
    dimensions: Vec<Dimension>,
    version: u64,
    created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// One field that is judged. Only selections are.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Dimension {
    #[schema(min_length = 1, max_length = 200)]
    slug: String,
    name: Option<String>,
    #[schema(rename = "type", required = false, default = "select")]
    kind: String,
    #[schema(required = false, max_items = 100)]
    options: Vec<Choice>,
    /// Styles of options, stored as they are. Only `hard_block` has an effect: the option must not be written.
    #[schema(value_type = BTreeMap<String, Object>, required = false)]
    option_styles: BTreeMap<String, Raw>,
}

#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Choice {
    #[schema(min_length = 1, max_length = 200)]
    value: String,
    label: Option<String>,
    score: Option<f64>,
    /// `true`, or a text that names the flag which choosing this raises.
    #[schema(value_type = Raw, required = false)]
    flag: Option<Raw>,
}

/// A form that people answer.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"title": "Which colour?", "questions": [{"key": "colour", "label": "Colour", "type": "choice",
    "required": true, "options": [{"value": "green"}, {"value": "red", "label": "Red, if it must be"}]}],
    "publish_config": {"gate": "member"}}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct View {
    #[schema(min_length = 1, max_length = 200)]
    id: String,
    #[schema(min_length = 1, max_length = 200)]
    title: String,
    #[schema(max_length = 2000)]
    description: Option<String>,
    #[schema(min_items = 1, max_items = 50)]
    questions: Vec<Question>,
    publish_config: PublishConfig,
    /// The session that has published it, and takes its answers. Given with `epoch` when it is made, and never changed.
    #[schema(min_length = 1, max_length = 200)]
    session_id: Option<String>,
    /// Takes responses, each a session of its own; no run publishes such a view. Left out where there is none.
    #[schema(required = false, nullable = false)]
    response: Option<ResponseConfig>,
    /// The link to the page on which it is answered; null in lists and while it is not published.
    url: Option<String>,
    version: u64,
    created_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// Who may answer a view, and how long.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct PublishConfig {
    #[schema(required = false)]
    gate: Gate,
    /// Answers that come later are refused; null: as long as the session goes on.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// `member`: members and owners; `none`: everybody who has the link; `lead`: everybody who has it and says who they are first.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Gate {
    Member,
    None,
    Lead,
}

/// One question of a view.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Question {
    /// The name of its value in an answer.
    #[schema(min_length = 1, max_length = 200)]
    key: String,
    #[schema(min_length = 1, max_length = 500)]
    label: String,
    #[schema(rename = "type", required = false)]
    kind: QuestionType,
    #[schema(required = false)]
    required: bool,
    #[schema(max_length = 2000)]
    help: Option<String>,
    /// What may be chosen.
    #[schema(required = false, max_items = 100)]
    options: Vec<QuestionOption>,
    /// The least length of a text, value of a number, number of choices, or step of a scale.
    min: Option<f64>,
    max: Option<f64>,
    /// What single steps of a scale mean: step → label. Left out where there are none.
    #[schema(required = false)]
    labels: BTreeMap<String, String>,
}

/// How a view takes responses.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct ResponseConfig {
    /// The type of the entity that a promoted response becomes, where the response names no entity.
    #[schema(min_length = 1, max_length = 200)]
    entity_type: Option<String>,
    /// Which answer is written to which field of the entity: question key → entity field.
    #[schema(required = false)]
    fields: BTreeMap<String, String>,
    /// The criteria set that scores and flags submitted responses.
    #[schema(min_length = 1, max_length = 200)]
    criteria_set_id: Option<String>,
    #[schema(required = false)]
    promote: PromotionMode,
    /// The user who decides on promotions, and who may read the responses.
    #[schema(min_length = 1, max_length = 200)]
    assigned_to: Option<String>,
    /// Each respondent submits one response.
    #[schema(required = false, default = true)]
    once: bool,
    /// The exact origins, such as `https://example.org`, whose pages may show the form in a frame.
    #[schema(required = false, max_items = 20)]
    embed_origins: Vec<String>,
}

/// `approval`: a person decides whether a submitted response is written to its entity; `off`: it is not.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum PromotionMode {
    Approval,
    Off,
}

/// A `date` is a day, such as `2026-11-16`; a `multi_choice` is a list of values; a `scale` is a whole number between `min`
/// and `max`, which it needs, with at most 11 steps.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum QuestionType {
    Text,
    Choice,
    MultiChoice,
    Number,
    Boolean,
    Date,
    Scale,
}

#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct QuestionOption {
    #[schema(min_length = 1, max_length = 200)]
    value: String,
    #[schema(max_length = 200)]
    label: Option<String>,
}

/// Every definition of a tenant, with every field.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"version": 1, "entities": [{"id": "0198c5d2-0000-7000-8000-000000000001",
    "type_slug": "city", "title": "Oban"}]}))]
#[expect(dead_code, reason = "describes a core type in the API document")]
pub struct Bundle {
    /// The shape of this document; left out, the newest.
    #[schema(required = false, minimum = 1, maximum = 1)]
    version: u32,
    #[schema(required = false)]
    agents: Vec<NewAgent>,
    #[schema(required = false)]
    criteria_sets: Vec<NewCriteriaSet>,
    #[schema(required = false)]
    entities: Vec<NewEntity>,
    #[schema(required = false)]
    tasks: Vec<NewTask>,
    #[schema(required = false)]
    tools: Vec<NewToolDefinition>,
    /// Only views that no session has published.
    #[schema(required = false)]
    views: Vec<NewView>,
}

macro_rules! lists {
    ($($name:ident of $item:ident),+) => {$(
        #[derive(Debug, ToSchema)]
        #[expect(dead_code, reason = "describes a core type in the API document")]
        pub struct $name {
            items: Vec<$item>,
            /// Pass it as `cursor` for the next page; null at the end.
            next_cursor: Option<String>,
        }
    )+};
}
lists!(TaskList of Task, AgentList of Agent, EntityList of Entity, CriteriaSetList of CriteriaSet, ViewList of View,
    ToolDefinitionList of ToolDefinition);
