//! The OpenAPI document: the descriptions of the routes, and what all of them share.

#[cfg(test)]
mod bounds;

use std::sync::LazyLock;

use sederunt_api::limits::REQUEST_ID_CHARS_MAX;
use sederunt_api::wire::error::{Envelope, Refusal};
use sederunt_core::limits::{IDEMPOTENCY_KEY_CHARS_MAX, NAME_CHARS_MAX};
use utoipa::openapi::path::{HttpMethod, Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    Components, ContactBuilder, Content, HeaderBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    Ref, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{PartialSchema, ToSchema};

use super::router::documented;

/// The document, pretty-printed: what is checked in and what is served.
pub fn openapi() -> String {
    document().to_owned()
}

/// The document. A debug build makes it from the routes, and a test compares that with the file in `api/`. An optimised
/// build carries the file: the descriptions of types and routes are then unused, and the linker leaves them out.
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let mut document = documented();
        complete(&mut document);
        // A document of plain maps and strings always prints.
        document.to_pretty_json().unwrap_or_default() + "\n"
    });
    if cfg!(debug_assertions) { &DOCUMENT } else { CHECKED_IN }
}

/// A static, so that the text is in the binary once.
static CHECKED_IN: &str = include_str!("../../../../api/openapi.json");

/// The general part of the document.
pub fn head() -> OpenApi {
    let description = "The session server for AI agents: durable sessions, their append-only logs, the work queue \
        over them, live streams.\n\nJSON in snake_case. Every refusal has the shape `Envelope`, with a stable code. \
        Every POST takes `Idempotency-Key`: a repeat with the same body has one effect and the first answer; with \
        another body it is 422 `idempotency_mismatch`. Unknown fields and parameters are refused.";
    let info = InfoBuilder::new()
        .title("Sederunt")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(description))
        .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").build()))
        .contact(Some(
            ContactBuilder::new().name(Some("Sederunt")).url(Some(env!("CARGO_PKG_REPOSITORY"))).build(),
        ))
        .build();
    let mut components = Components::new();
    let share = "The token of a share link, in a header or as the query parameter `share`.";
    components.add_security_scheme("key", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    components.add_security_scheme(
        "share",
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("X-Share-Token", share))),
    );
    components.schemas.insert(Envelope::name().into_owned(), Envelope::schema());
    components.schemas.insert(Refusal::name().into_owned(), Refusal::schema());
    OpenApiBuilder::new().info(info).components(Some(components)).build()
}

/// A refusal that whole groups of routes share.
struct SharedRefusal {
    status: u16,
    description: &'static str,
    header: Option<(&'static str, &'static str)>,
    met_by: fn(&OperationKind<'_>) -> bool,
}

/// What decides which refusals an operation can return.
struct OperationKind<'a> {
    path: &'a str,
    writes: bool,
    has_body: bool,
}

impl OperationKind<'_> {
    fn is_open(&self) -> bool {
        !self.path.starts_with("/api/") && !self.is_page() && self.path != "/metrics"
    }

    /// People open it in a browser, so refusals are pages too.
    fn is_page(&self) -> bool {
        self.path.starts_with("/views/")
    }

    fn refusal(&self) -> (&'static str, Content) {
        if self.is_page() {
            let page = ObjectBuilder::new().schema_type(Type::String).build();
            ("text/html; charset=utf-8", Content::new(Some(page)))
        } else {
            ("application/json", Content::new(Some(Ref::from_schema_name(Envelope::name()))))
        }
    }
}

const RETRY_AFTER: (&str, &str) = ("Retry-After", "Seconds to wait");

const SHARED: [SharedRefusal; 12] = [
    SharedRefusal {
        status: 400,
        description: "The body is not JSON: `bad_json`",
        header: None,
        met_by: |met| met.has_body,
    },
    SharedRefusal {
        status: 401,
        description: "No valid credential: `unauthenticated`",
        header: Some(("WWW-Authenticate", "How to authenticate")),
        met_by: |met| !met.is_open(),
    },
    SharedRefusal {
        status: 403,
        description: "The caller's role does not allow it: `denied`",
        header: None,
        met_by: |_| true,
    },
    SharedRefusal {
        status: 404,
        description: "It does not exist, or the caller may not see it: `not_found`",
        header: None,
        // A path, a body and a header can each name something that does not exist.
        met_by: |met| !met.is_open() || met.path.contains('{'),
    },
    SharedRefusal {
        status: 408,
        description: "The body did not arrive in time: `timeout`",
        header: None,
        met_by: |met| met.has_body,
    },
    SharedRefusal {
        status: 409,
        description: "The state of things does not allow it: `invalid_transition`, `sequence_mismatch` \
            (`details.last_sequence`), `fenced`, `session_busy`, `session_running`, `session_closed`, \
            `group_session`, `type_mismatch`, `stale_base`, `already_exists`, `already_decided` \
            (`details.decision`, `details.decided_by`), `task_not_active` (`details.status`), `retry_limit` \
            (`details.limit`), `several_pending`, `sitting_open`, `nothing_ended`, `view_closed`, `view_full` or `already_answered`",
        header: None,
        met_by: |met| met.writes,
    },
    SharedRefusal {
        status: 413,
        description: "Larger than allowed: `too_large` (`details.limit`), or beyond a quota of bytes: `quota_exceeded` \
            (`details.quota`, `details.limit`)",
        header: None,
        met_by: |met| met.has_body,
    },
    SharedRefusal {
        status: 415,
        description: "The body is not `application/json`: `invalid`",
        header: None,
        met_by: |met| met.has_body,
    },
    SharedRefusal {
        status: 422,
        description: "A field, parameter or header does not fit: `invalid` (`field`), `idempotency_mismatch`, \
            `output_invalid` (`details.complaints`) or `hard_blocked` (`details.dimension`, `details.option`)",
        header: None,
        met_by: |_| true,
    },
    SharedRefusal {
        status: 429,
        description: "Too many requests: `rate_limited`, or beyond a quota of sessions, runs or streams: `quota_exceeded` \
            (`details.quota`, `details.limit`)",
        header: Some(RETRY_AFTER),
        met_by: |met| !met.is_open(),
    },
    SharedRefusal {
        status: 500,
        description: "A fault of the server; its log has the cause under the request id: `internal`",
        header: None,
        met_by: |_| true,
    },
    SharedRefusal {
        status: 503,
        description: "The store or a provider cannot answer; whether a write took effect may be unknown; try again, with an `Idempotency-Key`: `unavailable`",
        header: Some(RETRY_AFTER),
        met_by: |met| !met.is_open() || met.path == "/readyz",
    },
];

/// The schemas of answers, in which every field is always present, possibly as null.
const ANSWERS: [&str; 62] = [
    "Accepted", "Agent", "AgentList", "Answer", "AnswerList", "Appended", "Approval", "ApprovalList",
    "AskedView", "Asker", "Brief", "Claim", "Claimed", "Claims", "CreatedKey", "CriteriaSet",
    "CriteriaSetList", "Denial", "Entity", "EntityList", "EntitySession", "EntitySessionList", "Event",
    "EventPage", "Health", "Heartbeat", "Hit", "Hits", "Imported", "Key", "KeyList", "Presence",
    "PresentUser", "QueueCounts", "QueueItem", "QueueList", "Respondent", "Resume", "Session", "SessionList",
    "SessionState", "Share", "SharedSession", "SharedState", "Source", "Task", "TaskList", "TaskStanding",
    "Tenant", "TenantList", "ToolBrief", "ToolDefinition", "ToolDefinitionList", "ToolError",
    "ToolInvocation", "ToolSession", "ToolSessionList", "ToolSessionStep", "User", "UserList", "View",
    "ViewList",
];

/// The fields that an answer leaves out: only the holder of a claim is told to stop, only the answer to what defined
/// something warns of it, only what a person records is dropped, only some views take responses, and a share link is not
/// told who is present.
const LEFT_OUT: [(&str, &str); 6] = [
    ("Presence", "present"),
    ("Appended", "stop_requested"),
    ("Appended", "dropped"),
    ("Agent", "warnings"),
    ("Task", "warnings"),
    ("View", "response"),
];

fn require_all(name: &str, schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            let fields = object.properties.keys();
            object.required =
                fields.filter(|field| !LEFT_OUT.contains(&(name, field.as_str()))).cloned().collect();
        }
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(|item| require_all(name, item)),
        _ => {}
    }
}

/// A task is also called an action: every route of one is a route of the other.
pub const TASKS: &str = "/api/tasks";
pub const ACTIONS: &str = "/api/actions";

/// Describes the routes of tasks under their other name.
fn describe_actions(document: &mut OpenApi) {
    let paths = &mut document.paths.paths;
    let tasks: Vec<_> = paths
        .iter()
        .filter_map(|(path, item)| Some((format!("{ACTIONS}{}", path.strip_prefix(TASKS)?), item.clone())))
        .collect();
    for (path, mut item) in tasks {
        for operation in [&mut item.get, &mut item.post, &mut item.patch].into_iter().flatten() {
            operation.operation_id = operation.operation_id.take().map(|id| id.replace("task", "action"));
            operation.description = Some(format!("The same as under `{TASKS}`."));
        }
        paths.insert(path, item);
    }
}

/// A JSON object of which the document lists no field takes any: says so, since some generators read silence as an
/// object without fields.
fn open_free_objects(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            object.properties.values_mut().for_each(open_free_objects);
            match object.additional_properties.as_deref_mut() {
                Some(AdditionalProperties::RefOr(each)) => open_free_objects(each),
                Some(AdditionalProperties::FreeForm(_)) => {}
                None if object.properties.is_empty() && is_object(&object.schema_type) => {
                    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
                }
                None => {}
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                open_free_objects(items);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().for_each(open_free_objects),
        Schema::AllOf(all) => all.items.iter_mut().for_each(open_free_objects),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(open_free_objects),
        _ => {}
    }
}

fn is_object(schema_type: &SchemaType) -> bool {
    match schema_type {
        SchemaType::Type(one) => *one == Type::Object,
        SchemaType::Array(several) => several.contains(&Type::Object),
        SchemaType::AnyValue => false,
    }
}

/// Adds what all routes share, so that no route has to repeat it.
fn complete(document: &mut OpenApi) {
    describe_actions(document);
    if let Some(components) = &mut document.components {
        for name in ANSWERS {
            if let Some(schema) = components.schemas.get_mut(name) {
                require_all(name, schema);
            }
        }
        components.schemas.values_mut().for_each(open_free_objects);
    }
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (HttpMethod::Get, &mut item.get),
            (HttpMethod::Post, &mut item.post),
            (HttpMethod::Put, &mut item.put),
            (HttpMethod::Patch, &mut item.patch),
            (HttpMethod::Delete, &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                describe(path, &method, operation);
            }
        }
    }
}

fn describe(path: &str, method: &HttpMethod, operation: &mut Operation) {
    let met = OperationKind {
        path,
        writes: *method != HttpMethod::Get,
        has_body: operation.request_body.is_some(),
    };
    for shared in SHARED.iter().filter(|shared| (shared.met_by)(&met)) {
        let response = operation.responses.responses.entry(shared.status.to_string());
        let (form, content) = met.refusal();
        let mut built = ResponseBuilder::new().description(shared.description).content(form, content);
        if let Some((name, about)) = shared.header {
            let text = ObjectBuilder::new().schema_type(Type::String);
            built =
                built.header(name, HeaderBuilder::new().schema(Some(text)).description(Some(about)).build());
        }
        response.or_insert(RefOr::T(built.build()));
    }
    let answers = operation.responses.responses.values_mut().filter_map(|response| match response {
        RefOr::T(response) => Some(response.content.values_mut()),
        RefOr::Ref(_) => None,
    });
    let schemas = answers.flatten().filter_map(|content| match content {
        RefOr::T(content) => content.schema.as_mut(),
        RefOr::Ref(_) => None,
    });
    schemas.for_each(open_free_objects);
    let parameters = operation.parameters.get_or_insert_default();
    let named = parameters.iter_mut().filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Path => Some(parameter),
        _ => None,
    });
    for parameter in named {
        let name = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(NAME_CHARS_MAX));
        parameter.schema = Some(name.into());
    }
    parameters.push(header(
        "X-Request-Id",
        "A name for this request, returned and logged",
        REQUEST_ID_CHARS_MAX,
    ));
    if *method == HttpMethod::Post {
        parameters.push(header(
            "Idempotency-Key",
            "A repeat with the same key and body has one effect",
            IDEMPOTENCY_KEY_CHARS_MAX,
        ));
    }
    if !met.is_open() {
        parameters.push(header(
            "X-Sederunt-User",
            "The user that a key with `act_as` acts for",
            NAME_CHARS_MAX,
        ));
        parameters.push(header("X-Sederunt-Tenant", "The tenant that the operator acts in", NAME_CHARS_MAX));
        let mut ways = vec![SecurityRequirement::new::<_, [&str; 0], &str>("key", [])];
        let method = if met.writes { http::Method::POST } else { http::Method::GET };
        if super::rights::opens_to_shares(&method, path) {
            ways.push(SecurityRequirement::new::<_, [&str; 0], &str>("share", []));
        }
        // On a server without authentication nothing is needed.
        ways.push(SecurityRequirement::default());
        operation.security = Some(ways);
    }
}

fn header(name: &str, about: &str, chars_max: usize) -> RefOr<Parameter> {
    let visible = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(chars_max))
        .pattern(Some("^[!-~]+$"));
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(visible));
    RefOr::T(parameter.build())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn operations() -> Vec<(String, String, Value)> {
        let document: Value = serde_json::from_str(document()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        paths
            .iter()
            .flat_map(|(path, item)| {
                let verbs = item.as_object().unwrap().iter();
                verbs.map(|(verb, operation)| (path.clone(), verb.clone(), operation.clone()))
            })
            .collect()
    }

    #[test]
    fn every_operation_has_a_name_a_sentence_and_its_refusals() {
        let operations = operations();
        assert!(operations.len() >= 71, "{}", operations.len());
        let mut names = std::collections::HashSet::new();
        for (path, verb, operation) in &operations {
            assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{verb} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{verb} {path}");
            let responses = operation["responses"].as_object().unwrap();
            for status in ["403", "422", "500"] {
                assert!(responses.contains_key(status), "{verb} {path} {status}");
            }
            assert_eq!(responses.contains_key("409"), verb != "get", "{verb} {path}");
            if path.starts_with("/api/") {
                assert!(responses.contains_key("404"), "{verb} {path}");
            }
            assert_eq!(
                responses.contains_key("413"),
                operation.get("requestBody").is_some(),
                "{verb} {path}"
            );
            for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
                let (form, key, expected) = match path.starts_with("/views/") {
                    true => ("text/html; charset=utf-8", "type", "string"),
                    false => ("application/json", "$ref", "#/components/schemas/Envelope"),
                };
                let schema = &response["content"][form]["schema"][key];
                assert_eq!(schema, expected, "{verb} {path} {status}");
            }
        }
    }

    #[test]
    fn every_route_of_a_task_is_a_route_of_an_action() {
        let operations = operations();
        let under = |prefix: &str| -> Vec<(String, String)> {
            let own = operations.iter().filter(|(path, ..)| !path.ends_with("/tool-approval"));
            own.filter_map(|(path, verb, _)| Some((path.strip_prefix(prefix)?.to_owned(), verb.clone())))
                .collect()
        };
        assert_eq!(under(TASKS), under(ACTIONS));
        assert_eq!(under(TASKS).len(), 6);
    }

    #[test]
    fn every_post_takes_an_idempotency_key() {
        for (path, verb, operation) in operations().iter().filter(|(_, verb, _)| verb == "post") {
            let parameters = operation["parameters"].as_array().unwrap();
            let key = parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key");
            assert!(key && operation.get("requestBody").is_some(), "{verb} {path}");
        }
    }

    #[test]
    fn every_field_of_an_answer_is_always_there() {
        let document: Value = serde_json::from_str(document()).unwrap();
        for name in ANSWERS {
            let schema = &document["components"]["schemas"][name];
            assert!(schema.is_object(), "{name}");
            let fields = schema["properties"].as_object().map_or(0, |fields| fields.len());
            let required = schema["required"].as_array().map_or(0, Vec::len);
            let left_out = LEFT_OUT.iter().filter(|(of, _)| *of == name).count();
            assert_eq!(required, fields - left_out, "{name}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let text = document();
        let value: Value = serde_json::from_str(text).unwrap();
        for reference in text.split("\"#/components/").skip(1) {
            let path = reference.split('"').next().unwrap();
            assert!(value.pointer(&format!("/components/{path}")).is_some(), "{path}");
        }
    }
}
