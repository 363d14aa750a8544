//! Pure decisions at their bound and one past it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use crate::access::Actor;
use crate::definitions::{self, Agent, CriteriaSet, Definition, Task, View};
use crate::error::{Error, Result};
use crate::feedback::capture::{self, Capture, CaptureJudgement, FeedbackText, PrecedingMessage, Score};
use crate::feedback::capture::{Signal, Speaker};
use crate::ids::{CredentialId, TenantId};
use crate::json::Json;
use crate::json_schema::{JsonSchema, SchemaFault};
use crate::lesson::tests::{lesson, said_by};
use crate::lesson::{rule, shown};
use crate::limits;
use crate::live::budget::{StreamAccount, StreamBudget, StreamCaps, StreamLease};
use crate::memory::candidate::{Buffer, Candidate, CandidateContent, KeepCondition};
use crate::memory::promote::{self, Promotion};
use crate::memory::recall::RecalledMemories;
use crate::memory::{Fact, Owner, ProfileRule, extract};
use crate::quota::{Amount, Quota, QuotaLimits};
use crate::session::decide::tests::session_in;
use crate::session::row::filterable;
use crate::session::{SessionType, SourceKind, Status};
use crate::strict;
use crate::time::Timestamp;
use crate::work::ClaimRequest;
use crate::work::output::OutputContract;

/// A case of a table: the field that a refusal names, and what is decided about `n` of something.
type Row<'a> = (&'a str, usize, &'a dyn Fn(usize) -> Result<()>);

/// Every row is accepted at its bound, and refused one past it with the name of its field.
fn assert_bounds(table: &[Row<'_>]) {
    for (field, bound, decide) in table {
        assert!(decide(*bound).is_ok(), "{field} at {bound}: {:?}", decide(*bound).err());
        match decide(bound + 1) {
            Err(Error::Invalid { field: named, .. }) => assert_eq!(named, *field),
            other => panic!("{field}: one past {bound} must be refused, and not {other:?}"),
        }
    }
}

fn checked<T: Definition>(body: &Value) -> Result<()> {
    definitions::read::<T>(&Json::of(body)?)?.1.check()
}

fn many(count: usize, each: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(each).collect()
}

fn text(chars: usize) -> String {
    "ä".repeat(chars)
}

#[test]
fn a_definition_one_past_a_bound_is_refused_by_the_name_of_its_field() {
    let task = |more: Value| {
        let mut body = json!({"slug": "t", "name": "T"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        checked::<Task>(&body)
    };
    let question = |more: Value| {
        let mut question = json!({"key": "k", "label": "L"});
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        checked::<View>(&json!({"title": "T", "questions": [question]}))
    };
    let tools = |tools: Vec<Value>| checked::<Agent>(&json!({"slug": "a", "name": "A", "tools": tools}));
    let tool = |description: String| json!({"type": "http", "name": "t", "url": "https://e.org/", "description": description});
    let dimension = |slug: usize, options: usize| {
        let options = many(options, |n| json!({"value": format!("v{n}"), "label": "V"}));
        json!({"slug": format!("d{slug}"), "name": "D", "type": "choice", "options": options})
    };
    let set =
        |dimensions: Vec<Value>| checked::<CriteriaSet>(&json!({"name": "S", "dimensions": dimensions}));
    let options = |n: usize| many(n, |n| json!({"value": format!("v{n}")}));
    assert_bounds(&[
        ("description", limits::DESCRIPTION_CHARS_MAX, &|n| task(json!({"description": text(n)}))),
        ("criteria_set_ids", limits::CRITERIA_SETS_MAX, &|n| {
            task(json!({"criteria_set_ids": many(n, |n| json!(format!("c{n}")))}))
        }),
        ("tools", limits::TOOLS_MAX, &|n| {
            tools(many(n, |n| json!({"type": "http", "name": format!("t{n}"), "url": "https://e.org/"})))
        }),
        ("tools.description", limits::DESCRIPTION_CHARS_MAX, &|n| tools(vec![tool(text(n))])),
        ("instructions", limits::INSTRUCTIONS_BYTES_MAX, &|n| {
            checked::<Agent>(&json!({"slug": "a", "name": "A", "instructions": "x".repeat(n)}))
        }),
        ("dimensions", limits::DIMENSIONS_MAX, &|n| set(many(n, |n| dimension(n, 1)))),
        ("dimensions.options", limits::OPTIONS_MAX, &|n| set(vec![dimension(0, n)])),
        ("questions[0].options", limits::OPTIONS_MAX, &|n| {
            question(json!({"type": "choice", "options": options(n)}))
        }),
        ("questions[0].label", limits::QUESTION_CHARS_MAX, &|n| question(json!({"label": text(n)}))),
        ("questions[0].help", limits::DESCRIPTION_CHARS_MAX, &|n| question(json!({"help": text(n)}))),
        ("questions", limits::QUESTIONS_MAX, &|n| {
            let questions = many(n, |n| json!({"key": format!("k{n}"), "label": "L"}));
            checked::<View>(&json!({"title": "T", "questions": questions}))
        }),
    ]);
    let expiry =
        |seconds: u64| task(json!({"requires_approval": true, "approval": {"expires_in_s": seconds}}));
    let (first, last) = (*limits::APPROVAL_EXPIRY_S.start(), *limits::APPROVAL_EXPIRY_S.end());
    for (seconds, accepted) in [(first - 1, false), (first, true), (last, true), (last + 1, false)] {
        assert_eq!(expiry(seconds).is_ok(), accepted, "{seconds}: {:?}", expiry(seconds).err());
    }
}

#[test]
fn a_claim_one_past_a_bound_is_refused_by_the_name_of_its_field() {
    let request = || ClaimRequest {
        worker: "w".into(),
        session_types: Vec::new(),
        agent_slugs: Vec::new(),
        limit: 1,
        lease: limits::LEASE_DEFAULT,
        wait: Duration::ZERO,
    };
    assert_bounds(&[
        ("limit", limits::CLAIM_BATCH_MAX, &|limit| ClaimRequest { limit, ..request() }.check()),
        ("agent_slugs", limits::CLAIM_BATCH_MAX, &|n| {
            let agent_slugs = (0..n).map(|n| format!("a{n}")).collect();
            ClaimRequest { agent_slugs, ..request() }.check()
        }),
    ]);
    let tick = Duration::from_nanos(1);
    let leased = |lease| ClaimRequest { lease, ..request() }.check();
    let waits = |wait| ClaimRequest { wait, ..request() }.check();
    for (done, refused) in [
        (leased(limits::LEASE_MIN), None),
        (leased(limits::LEASE_MIN - tick), Some("lease_ms")),
        (leased(limits::LEASE_MAX), None),
        (leased(limits::LEASE_MAX + tick), Some("lease_ms")),
        (waits(limits::CLAIM_WAIT_MAX), None),
        (waits(limits::CLAIM_WAIT_MAX + tick), Some("wait_ms")),
        (ClaimRequest { limit: 0, ..request() }.check(), Some("limit")),
    ] {
        let named = done.err().map(|error| match error {
            Error::Invalid { field, .. } => field,
            other => panic!("{other}"),
        });
        assert_eq!(named.as_deref(), refused);
    }
}

#[test]
fn metadata_past_a_bound_of_the_filter_is_kept_and_not_filtered_on() {
    let keys = |count: usize| {
        let fields: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("k{n:03}"), json!(n))).collect();
        filterable(&Json::of(&fields).unwrap()).len()
    };
    assert_eq!(keys(limits::METADATA_FILTER_KEYS_MAX), limits::METADATA_FILTER_KEYS_MAX);
    assert_eq!(keys(limits::METADATA_FILTER_KEYS_MAX + 1), limits::METADATA_FILTER_KEYS_MAX);
    let value = |chars: usize| filterable(&Json::of(&json!({"k": text(chars)})).unwrap()).len();
    assert_eq!(value(limits::METADATA_FILTER_CHARS_MAX), 1);
    assert_eq!(value(limits::METADATA_FILTER_CHARS_MAX + 1), 0);
    let key = |chars: usize| filterable(&Json::of(&json!({text(chars): 1})).unwrap()).len();
    assert_eq!(key(limits::NAME_CHARS_MAX), 1);
    assert_eq!(key(limits::NAME_CHARS_MAX + 1), 0);
}

#[test]
fn an_output_of_one_entity_too_many_does_not_fit_and_its_complaints_are_bounded() {
    let contract = |text: &str| -> OutputContract { strict::read(text).unwrap() };
    let entities = contract(r#"{"type":"entities","entity_type":"note"}"#);
    let complaints =
        |count: usize| entities.complaints(Some(&Json::of(&many(count, |n| json!({"n": n}))).unwrap()), None);
    assert_eq!(complaints(limits::WRITTEN_ENTITIES_MAX), Vec::<String>::new());
    let said = complaints(limits::WRITTEN_ENTITIES_MAX + 1);
    assert!(said[0].contains(&limits::WRITTEN_ENTITIES_MAX.to_string()), "{said:?}");

    let numbers = contract(r#"{"type":"object","schema":{"additionalProperties":{"type":"integer"}}}"#);
    let wrong = |count: usize| {
        let fields: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("f{n}"), json!("x"))).collect();
        numbers.complaints(Some(&Json::of(&fields).unwrap()), None).len()
    };
    assert_eq!(wrong(limits::COMPLAINTS_MAX), limits::COMPLAINTS_MAX);
    assert_eq!(wrong(limits::COMPLAINTS_MAX + 1), limits::COMPLAINTS_MAX);
}

#[test]
fn a_schema_is_bounded_in_the_memory_of_a_pattern_and_in_the_steps_of_a_check() {
    let pattern = |states: usize| {
        JsonSchema::compile(&Json::of(&json!({"pattern": format!("^x{{{states}}}$")})).unwrap())
    };
    // A repetition is compiled to one state each; a state takes more than 8 bytes and less than 128.
    assert!(pattern(limits::SCHEMA_PATTERN_MEMORY_MAX / 128).is_ok());
    assert!(matches!(pattern(limits::SCHEMA_PATTERN_MEMORY_MAX / 8), Err(SchemaFault::Unusable(_))));

    let twice = json!({"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
    let twice = JsonSchema::compile(&Json::of(&twice).unwrap()).unwrap();
    // A list of lists: two levels, so four steps for every value in it.
    let wide = |values: usize| json!([vec![Value::Null; values - 2]]);
    let steps_of_each = 4;
    assert_eq!(limits::SCHEMA_STEPS_MAX % steps_of_each, 0);
    let most = limits::SCHEMA_STEPS_MAX / steps_of_each;
    assert_eq!(twice.violations(&wide(most), 1).0, Vec::<String>::new());
    assert!(twice.violations(&wide(most + 1), 1).0[0].contains("nested too deeply"));
}

#[test]
fn what_waits_has_the_deadline_of_its_kind() {
    let with = |status, session_type, is_bridge| {
        let mut session = session_in(status);
        (session.head.session_type, session.head.is_bridge) = (session_type, is_bridge);
        session.head.deadline_in(status)
    };
    for (status, session_type, is_bridge, deadline) in [
        (Status::Pending, SessionType::Agent, false, Some(limits::WAITING_DEADLINE)),
        (Status::WaitingHuman, SessionType::Agent, false, Some(limits::WAITING_DEADLINE)),
        (Status::AwaitingTool, SessionType::Agent, false, Some(limits::WAITING_DEADLINE)),
        (Status::Running, SessionType::Mixed, true, Some(limits::BRIDGE_DEADLINE)),
        (Status::Running, SessionType::Response, false, Some(limits::RESPONSE_DEADLINE)),
        (Status::Draft, SessionType::Response, false, Some(limits::RESPONSE_DEADLINE)),
        (Status::Running, SessionType::Agent, false, None),
        (Status::Idle, SessionType::Mixed, false, None),
    ] {
        assert_eq!(with(status, session_type, is_bridge), deadline, "{status}");
    }
}

fn address(n: usize) -> IpAddr {
    IpAddr::from(u32::try_from(n).unwrap().to_be_bytes())
}

fn credential(n: usize) -> CredentialId {
    CredentialId::stored(format!("c{n}"))
}

#[test]
fn one_stream_past_each_default_cap_is_refused() {
    let tenant = || TenantId::stored("t");
    let caps = StreamCaps::default();
    type Accounts<'a> = &'a dyn Fn(usize) -> Vec<StreamAccount>;
    let table: [(&str, usize, Accounts<'_>); 6] = [
        ("in all", limits::STREAMS_MAX, &|n| vec![StreamAccount::InAll, StreamAccount::Address(address(n))]),
        ("per address", caps.per_address.streams, &|_| vec![StreamAccount::Address(address(1))]),
        ("per credential", limits::STREAMS_PER_CREDENTIAL_MAX, &|_| {
            vec![StreamAccount::Credential(tenant(), credential(1))]
        }),
        ("per link", limits::STREAMS_PER_LINK_MAX, &|n| {
            vec![
                StreamAccount::Link(tenant(), credential(1)),
                StreamAccount::LinkAndAddress(tenant(), credential(1), address(n)),
            ]
        }),
        ("per link and address", limits::STREAMS_PER_LINK_AND_ADDRESS_MAX, &|_| {
            vec![
                StreamAccount::Link(tenant(), credential(1)),
                StreamAccount::LinkAndAddress(tenant(), credential(1), address(1)),
            ]
        }),
        ("per tenant", usize::try_from(limits::QUOTA_TENANT_STREAMS).unwrap(), &|n| {
            vec![StreamAccount::Tenant(tenant()), StreamAccount::Address(address(n))]
        }),
    ];
    for (what, most, accounts) in table {
        let budget = Arc::new(StreamBudget::default());
        let open = |n| budget.open(accounts(n), &QuotaLimits::default());
        let leases: Vec<StreamLease> = (0..most).map(|n| open(n).expect(what)).collect();
        match open(most) {
            Err(Error::RateLimited(wait)) => assert_eq!(wait, limits::STREAM_RETRY_AFTER, "{what}"),
            Err(Error::QuotaExceeded { quota: Quota::TenantStreams, limit }) => {
                assert_eq!((what, limit), ("per tenant", limits::QUOTA_TENANT_STREAMS));
            }
            other => panic!("{what}: {other:?}"),
        }
        drop(leases);
    }
}

#[test]
fn a_page_one_byte_past_each_default_cap_waits_for_room() {
    let tenant = || TenantId::stored("t");
    for (account, most) in [
        (StreamAccount::InAll, limits::STREAM_BYTES_MAX),
        (StreamAccount::Address(address(1)), limits::STREAM_BYTES_PER_CALLER_MAX),
        (StreamAccount::Credential(tenant(), credential(1)), limits::STREAM_BYTES_PER_CALLER_MAX),
        (StreamAccount::Link(tenant(), credential(1)), limits::STREAM_BYTES_PER_LINK_MAX),
        (
            StreamAccount::LinkAndAddress(tenant(), credential(1), address(1)),
            limits::STREAM_BYTES_PER_LINK_AND_ADDRESS_MAX,
        ),
    ] {
        let budget = Arc::new(StreamBudget::default());
        let open = || budget.open(vec![account.clone()], &QuotaLimits::default()).unwrap();
        let (first, second) = (open(), open());
        let held = first.hold(most - 1).now_or_never().unwrap();
        assert!(second.hold(2).now_or_never().is_none(), "{account:?}");
        assert!(second.hold(1).now_or_never().is_some(), "{account:?}");
        drop(held);
        assert!(second.hold(most).now_or_never().is_some(), "{account:?}");
    }
}

#[test]
fn one_past_each_default_quota_is_refused_by_its_name() {
    type Of = fn(u64) -> Amount;
    let sessions: Of = |sessions| Amount { sessions, ..Amount::default() };
    let runs: Of = |runs| Amount { runs, ..Amount::default() };
    let bytes: Of = |bytes| Amount { bytes, ..Amount::default() };
    let (none, quotas) = (Amount::default(), QuotaLimits::default());
    for (quota, limit, of) in [
        (Quota::TenantSessions, limits::QUOTA_TENANT_SESSIONS, sessions),
        (Quota::TenantRuns, limits::QUOTA_TENANT_RUNS, runs),
        (Quota::TenantBytes, limits::QUOTA_TENANT_BYTES, bytes),
    ] {
        assert_eq!(quotas.exceeded(of(limit - 1), none, of(1)), None);
        assert_eq!(quotas.exceeded(of(limit), none, of(1)), Some((quota, limit)));
    }
    for (quota, limit, of) in [
        (Quota::UserSessions, limits::QUOTA_USER_SESSIONS, sessions),
        (Quota::UserRuns, limits::QUOTA_USER_RUNS, runs),
        (Quota::UserBytes, limits::QUOTA_USER_BYTES, bytes),
    ] {
        assert_eq!(quotas.exceeded(none, of(limit - 1), of(1)), None);
        assert_eq!(quotas.exceeded(none, of(limit), of(1)), Some((quota, limit)));
    }
    for quota in [Quota::TenantSessions, Quota::TenantRuns, Quota::UserRuns, Quota::IncognitoTotalBytes] {
        assert_eq!(quota.retry_after(), Some(limits::QUOTA_RETRY_AFTER), "{quota:?}");
    }
}

/// A word of this many characters, and whether it comes out whole or cut to as many, with an ellipsis.
fn assert_cut(what: &str, most: usize, made: impl Fn(&str) -> String) {
    let whole = "x".repeat(most);
    assert!(made(&whole).contains(&whole), "{what}: {most} characters are kept");
    let cut = format!("{}…", "x".repeat(most - 1));
    let long = made(&"x".repeat(most + 1));
    assert!(long.contains(&cut) && !long.contains(&whole), "{what}: one more is cut: {long}");
}

#[test]
fn a_text_of_memory_that_is_one_character_too_long_is_cut_and_marked() {
    let owner = Owner::stored("user:a");
    let noted = |said: &str| -> Fact { promote::remember(said, &owner, "s", 1).facts.remove(0) };
    assert_cut("object", limits::OBJECT_CHARS_MAX, |said| noted(said).object);
    assert_cut("quote", limits::QUOTE_CHARS_MAX, |said| noted(said).quote);
    assert_cut("label", limits::LABEL_CHARS_MAX, |said| noted(said).label());
    let by_model = |finding: Value, message: &str| {
        let found = extract::read(&json!([finding]).to_string(), message, 1);
        found.into_iter().next().expect("the model's finding is kept")
    };
    assert_cut("a model's rule", limits::RULE_CHARS_MAX, |said| {
        match by_model(json!({"kind": "rule", "text": said}), "Answer briefly").what {
            CandidateContent::Rule { text } => text,
            other @ CandidateContent::Fact { .. } => panic!("{other:?}"),
        }
    });
    assert_cut("a model's quote", limits::QUOTE_CHARS_MAX, |said| {
        by_model(json!({"kind": "rule", "text": "answer briefly", "quote": said}), said).quote
    });
    assert_cut("a recalled line", limits::RECALLED_LINE_CHARS_MAX, |said| {
        let rule = ProfileRule {
            id: "1".into(),
            text: said.into(),
            confidence: 1.0,
            quotes: Vec::new(),
            sources: Vec::new(),
        };
        RecalledMemories { rules: vec![rule], ..RecalledMemories::default() }.lines().join("\n")
    });
    assert_cut("a lesson that is shown", limits::LESSON_SHOWN_CHARS_MAX, |said| shown::line(&lesson(said)));
}

#[test]
fn a_sitting_lists_the_newest_sentences_that_it_did_not_keep() {
    let stated = |n: usize| Candidate {
        what: CandidateContent::Fact {
            subject: "user".into(),
            predicate: "likes".into(),
            object: format!("tea {n}"),
            category: Default::default(),
        },
        quote: format!("I like tea {n}."),
        confidence: 1.0,
        sequence: n as u64,
        hold: KeepCondition::AtEnd,
    };
    let unkept = |count: usize| {
        let buffer = Buffer { candidates: (0..count).map(stated).collect(), ..Buffer::default() };
        promote::unkept(&buffer, &Promotion::default())
    };
    assert_eq!(unkept(limits::MENTIONED_MAX).len(), limits::MENTIONED_MAX);
    let newest = unkept(limits::MENTIONED_MAX + 1);
    assert_eq!(newest.len(), limits::MENTIONED_MAX);
    assert!(!newest.contains(&"I like tea 0.".to_owned()), "the oldest is left out");
}

#[test]
fn feedback_one_past_a_bound_is_refused_and_of_its_history_the_newest_is_kept() {
    let judge = |wish: Capture| capture::judge(&Actor::local(SourceKind::Api), wish, None);
    let wish = || Capture {
        signal: Some(Signal::Down),
        words: FeedbackText { context: Some("it edited the lock file".into()), ..FeedbackText::default() },
        ..Capture::default()
    };
    let history = |count: usize| -> Vec<PrecedingMessage> {
        (0..count).map(|n| PrecedingMessage { role: Speaker::User, text: format!("message {n}") }).collect()
    };
    let score = |n: usize| Score { criterion: format!("c{n}"), score: 3.0, evidence: None, judge: None };
    assert_bounds(&[
        ("history", limits::FEEDBACK_HISTORY_MAX, &|n| {
            judge(Capture { history: history(n), ..wish() }).map(drop)
        }),
        ("rubric_scores", limits::RUBRIC_MAX, &|n| {
            judge(Capture { rubric: (0..n).map(score).collect(), ..wish() }).map(drop)
        }),
    ]);
    let (worst, best) = (f64::from(*limits::RUBRIC_SCORES.start()), f64::from(*limits::RUBRIC_SCORES.end()));
    for (mark, fits) in [(worst - 0.1, false), (worst, true), (best, true), (best + 0.1, false)] {
        let judged = judge(Capture { rubric: vec![Score { score: mark, ..score(0) }], ..wish() });
        assert_eq!(judged.is_ok(), fits, "{mark}");
    }
    for count in [limits::FEEDBACK_HISTORY_KEPT, limits::FEEDBACK_HISTORY_KEPT + 1] {
        let CaptureJudgement::Accepted(body) =
            judge(Capture { history: history(count), ..wish() }).unwrap().1
        else {
            panic!("not accepted")
        };
        assert_eq!(body.history, history(count).split_off(count - limits::FEEDBACK_HISTORY_KEPT));
    }
}

#[test]
fn one_voice_too_few_makes_no_rule() {
    let names: Vec<String> = (0..limits::RULE_VOICES).map(|n| format!("user{n}")).collect();
    let said = |voices: usize| {
        let mut authors: Vec<Option<&str>> = names[..voices].iter().map(|name| Some(name.as_str())).collect();
        authors.resize(usize::try_from(limits::RULE_OCCURRENCES).unwrap(), Some(names[0].as_str()));
        rule::of(&said_by("x", &authors), limits::RULE_OCCURRENCES, Timestamp::from_micros(0)).is_some()
    };
    assert!(said(names.len()));
    assert!(!said(names.len() - 1));
}

#[test]
fn a_spoken_conversation_is_given_whole_lines_of_memory_up_to_the_bound() {
    let rule = |chars: usize| ProfileRule {
        id: "1".to_owned(),
        text: "x".repeat(chars),
        confidence: 1.0,
        quotes: Vec::new(),
        sources: Vec::new(),
    };
    let text = |last: usize| {
        let rules = vec![rule(600), rule(600), rule(last)];
        RecalledMemories { rules, ..RecalledMemories::default() }.text(limits::VOICE_MEMORY_CHARS_MAX)
    };
    let spare = limits::VOICE_MEMORY_CHARS_MAX - text(1).chars().count() + 1;
    assert_eq!(text(spare).chars().count(), limits::VOICE_MEMORY_CHARS_MAX);
    assert!(!text(spare + 1).contains(&"x".repeat(spare)), "a line that does not fit is left out");
}
