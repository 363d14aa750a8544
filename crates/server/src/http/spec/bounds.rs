//! Every bound in the API document is a limit that has a name: the attributes of the wire types hold literals, and these
//! tests hold them together.

use sederunt_api::limits as api;
use sederunt_core::limits as core;
use serde_json::Value;

use super::document;

/// A bound: its keyword, the fields and parameters that have it, and the limit. A field is `Schema.field`, a parameter
/// `path name` or `*?name`; `*` is any schema or route. The first entry that names a place counts.
type Bound = (&'static str, &'static [&'static str], i128);

fn bounds() -> Vec<Bound> {
    let ms = |time: std::time::Duration| time.as_millis() as i128;
    let seconds = |time: std::time::Duration| i128::from(time.as_secs());
    let priority = core::PRIORITY_RANGE;
    vec![
        ("maxLength", &["*?X-Request-Id"], api::REQUEST_ID_CHARS_MAX as i128),
        ("maxLength", &["*?Idempotency-Key"], core::IDEMPOTENCY_KEY_CHARS_MAX as i128),
        ("maxLength", &["*?metadata.key"], core::METADATA_FILTER_CHARS_MAX as i128),
        ("maxLength", &["/api/sessions?ids"], api::SESSION_IDS_CHARS_MAX as i128),
        ("maxLength", &["*?q"], core::QUERY_CHARS_MAX as i128),
        ("maxLength", &["*?tags"], api::TAG_FILTER_CHARS_MAX as i128),
        ("maxLength", &["/api/audit?cursor"], api::ROW_CURSOR_CHARS_MAX as i128),
        ("maxLength", &["/api/sessions/human?before"], core::TIME_BYTES_MAX as i128),
        ("maxLength", &["/api/shares?cursor"], api::SHARE_CURSOR_CHARS_MAX as i128),
        ("maxLength", &["/api/stream?cursor"], api::HINT_CURSOR_CHARS_MAX as i128),
        ("maxLength", &["CaptureRequest.skill"], core::TAG_CHARS_MAX as i128),
        (
            "maxLength",
            &[
                "CaptureRequest.context", "CaptureRequest.what_to_change", "CaptureRequest.what_went_wrong",
                "CaptureRequest.what_worked", "OpenFeedback.initial_context", "RateRequest.comment",
                "RubricScore.evidence", "RubricScore.judge",
            ],
            core::FEEDBACK_TEXT_CHARS_MAX as i128,
        ),
        ("maxLength", &["HistoryMessage.text"], core::EXTRACT_CHARS_MAX as i128),
        ("maxLength", &["Lead.email"], core::EMAIL_BYTES_MAX as i128),
        ("maxLength", &["PatchLesson.text"], core::LESSON_CHARS_MAX as i128),
        ("maxLength", &["Question.label"], core::QUESTION_CHARS_MAX as i128),
        ("maxLength", &["*.description", "Question.help"], core::DESCRIPTION_CHARS_MAX as i128),
        (
            "maxLength",
            &["Decide.reason", "Fail.error", "Transition.reason"],
            core::SENTENCE_CHARS_MAX as i128,
        ),
        ("maxLength", &["SignInRequest.token"], api::SIGN_IN_TOKEN_CHARS_MAX as i128),
        ("maxLength", &["VoiceTurn.external_id"], core::VOICE_TURN_ID_CHARS_MAX as i128),
        (
            "maxLength",
            &[
                "*?doc", "*?id", "*?key_id", "*?kind", "*?bucket", "*?X-Sederunt-Tenant",
                "*?X-Sederunt-User", "*?session_id", "*?status", "*?thread_id", "*?user_id", "*?view_id",
                "/api/users?cursor", "*.agent_slug", "*.assigned_to", "*.criteria_set_id", "*.criterion",
                "*.entity_id", "*.entity_type", "*.external_event_id", "*.external_id",
                "*.feedback_event_id", "*.id", "*.into", "*.key", "*.label", "*.model", "*.name",
                "*.parent_id", "*.platform", "*.prefix", "*.reason", "*.related_feedback_id", "*.relation",
                "*.rerun_of", "*.session_id", "*.slug", "*.subthread_id", "*.task_id", "*.thread_id",
                "*.title", "*.type", "*.type_slug", "*.user", "*.user_id", "*.value", "*.worker",
            ],
            core::NAME_CHARS_MAX as i128,
        ),
        ("maxItems", &["*.criteria_set_ids"], core::CRITERIA_SETS_MAX as i128),
        ("maxItems", &["*.tags"], core::TAGS_MAX as i128),
        ("maxItems", &["*.rubric_scores"], core::RUBRIC_MAX as i128),
        ("maxItems", &["*.sequences"], core::SOURCE_SEQUENCES_MAX as i128),
        ("maxItems", &["*.questions"], core::QUESTIONS_MAX as i128),
        ("maxItems", &["*.embed_origins"], core::EMBED_ORIGINS_MAX as i128),
        ("maxItems", &["*.tools"], core::TOOLS_MAX as i128),
        ("maxItems", &["*.history"], core::FEEDBACK_HISTORY_MAX as i128),
        ("maxItems", &["*.agent_slugs", "*.session_types"], core::CLAIM_BATCH_MAX as i128),
        ("maxItems", &["*.dimensions"], core::DIMENSIONS_MAX as i128),
        ("maxItems", &["*.options"], core::OPTIONS_MAX as i128),
        ("maxItems", &["*.steps"], core::STEPS_MAX as i128),
        ("maxItems", &["WriteGrant.ids", "WriteGrant.types"], core::WRITE_GRANT_NAMES_MAX as i128),
        ("maxItems", &["*.participants"], core::PARTICIPANTS_MAX as i128),
        ("maxItems", &["*.events", "*.messages"], core::BATCH_EVENTS_MAX as i128),
        ("maximum", &["/api/threads?limit"], api::THREADS_MAX as i128),
        ("maximum", &["/api/activity-block?limit"], core::ACTIVITY_LINES_MAX as i128),
        ("maximum", &["*?limit", "*?recent"], core::PAGE_ROWS_MAX as i128),
        ("maximum", &["ClaimRequest.limit"], core::CLAIM_BATCH_MAX as i128),
        ("maximum", &["*.priority"], i128::from(*priority.end())),
        ("minimum", &["*.priority"], i128::from(*priority.start())),
        ("maximum", &["*.crisis_days", "*.ratings_days"], i128::from(api::PURGE_DAYS_MAX)),
        ("maximum", &["*.timeout_ms"], ms(core::TOOL_TIMEOUT_MAX)),
        ("maximum", &["*.wait_ms"], ms(core::CLAIM_WAIT_MAX)),
        ("maximum", &["*.lease_ms"], ms(core::LEASE_MAX)),
        ("minimum", &["*.lease_ms"], ms(core::LEASE_MIN)),
        ("maximum", &["*.expires_in_s"], i128::from(*core::APPROVAL_EXPIRY_S.end())),
        ("maximum", &["NewKey.expires_in"], i128::from(api::KEY_LIFE_S_MAX)),
        ("maximum", &["*.expires_in"], seconds(core::SHARE_LIFE_MAX)),
        ("maximum", &["RubricScore.score"], i128::from(*core::RUBRIC_SCORES.end())),
        // A version of the bundle's form, and a probability: no limits, and nothing else to compare with.
        ("maximum", &["Bundle.version", "Confidence.Confidence"], 1),
    ]
}

/// Bounds that say no more than that something is not empty or not negative.
fn says_nothing(keyword: &str, value: i128) -> bool {
    keyword == "minimum" && (0..=1).contains(&value)
}

/// Every place in the document that has a bound: its keyword, the place and the literal.
fn literals(document: &Value) -> Vec<(String, String, i128)> {
    let mut found = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        walk(schema, name, name, &mut found);
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let place = format!("{path}?{}", parameter["name"].as_str().unwrap());
                take(&parameter["schema"], &place, &mut found);
            }
        }
    }
    found
}

fn walk(schema: &Value, of: &str, field: &str, found: &mut Vec<(String, String, i128)>) {
    take(schema, &format!("{of}.{field}"), found);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, of, name, found);
    }
    for several in ["oneOf", "allOf", "anyOf"] {
        for one in schema[several].as_array().into_iter().flatten() {
            walk(one, of, field, found);
        }
    }
    for one in ["items", "additionalProperties"] {
        if schema[one].is_object() {
            walk(&schema[one], of, field, found);
        }
    }
}

fn take(schema: &Value, place: &str, found: &mut Vec<(String, String, i128)>) {
    for keyword in ["maxLength", "maxItems", "maxProperties", "maximum", "minimum"] {
        if let Some(number) = schema[keyword].as_number() {
            let number = number.as_i128().unwrap_or_else(|| number.as_f64().unwrap() as i128);
            found.push((keyword.to_owned(), place.to_owned(), number));
        }
    }
}

fn names(pattern: &str, place: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => place.ends_with(end),
        None => pattern == place,
    }
}

#[test]
fn every_bound_in_the_document_is_a_named_limit() {
    let document: Value = serde_json::from_str(document()).unwrap();
    let bounds = bounds();
    let mut used: Vec<(usize, &str)> = Vec::new();
    let mut wrong = Vec::new();
    for (keyword, place, literal) in literals(&document) {
        if says_nothing(&keyword, literal) {
            continue;
        }
        let entry = bounds.iter().enumerate().find_map(|(at, (of, patterns, limit))| {
            let pattern = patterns.iter().find(|pattern| *of == keyword && names(pattern, &place))?;
            Some((at, *pattern, *limit))
        });
        match entry {
            None => wrong.push(format!("{keyword} {literal} of {place} is no named limit")),
            Some((at, pattern, limit)) => {
                used.push((at, pattern));
                if limit != literal {
                    wrong.push(format!("{keyword} of {place} is {literal}, and its limit is {limit}"));
                }
            }
        }
    }
    for (at, (keyword, patterns, _)) in bounds.iter().enumerate() {
        for pattern in *patterns {
            if !used.contains(&(at, *pattern)) {
                wrong.push(format!("the document has no {keyword} at {pattern}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_free_object_says_that_it_takes_any_field() {
    let document: Value = serde_json::from_str(document()).unwrap();
    let mut silent = Vec::new();
    look_for_silent_objects(&document["components"], "components", &mut silent);
    look_for_silent_objects(&document["paths"], "paths", &mut silent);
    assert!(silent.is_empty(), "these list no fields and do not say that any may come: {silent:?}");
}

fn look_for_silent_objects(node: &Value, place: &str, silent: &mut Vec<String>) {
    match node {
        Value::Object(fields) => {
            let kind = &node["type"];
            let is_object =
                kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&"object".into()));
            let has_fields = node["properties"].as_object().is_some_and(|fields| !fields.is_empty());
            if is_object && !has_fields && node["additionalProperties"].is_null() {
                silent.push(place.to_owned());
            }
            for (name, field) in
                fields.iter().filter(|(name, _)| !["example", "default"].contains(&name.as_str()))
            {
                look_for_silent_objects(field, &format!("{place}/{name}"), silent);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| look_for_silent_objects(item, place, silent)),
        _ => {}
    }
}
