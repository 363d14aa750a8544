use super::*;
use crate::definitions::StoredDefinition;
use crate::ids::RandomIds;
use crate::session::SourceKind;
use crate::view::tests::view;

const NOW: Timestamp = Timestamp::from_micros(5_000_000);

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn defined(once: bool) -> StoredDefinition<View> {
    let mut value = view(
        r#"[{"key":"a","label":"A","required":true},{"key":"n","label":"N","type":"number"},
            {"key":"s","label":"S","type":"scale","min":1,"max":5}]"#,
    );
    value.response = Some(json(&format!(r#"{{"once":{once}}}"#)).read().unwrap());
    StoredDefinition { id: "v".into(), value, version: 4, created_by: None, created_at: NOW, updated_at: NOW }
}

/// A stored response in this status with this draft.
fn response(status: Status, draft: Option<&str>) -> StoredResponse {
    let who = Respondent::cookie("c".to_owned());
    let respondent = NewRespondent { who: &who, name: "view:c", ordinal: 1 };
    let actor = Actor::local(SourceKind::Web);
    let made = new(&actor, SessionId::stored("r"), &defined(true), respondent, None, &RandomIds).unwrap();
    let mut shown = made.shown(TenantId::stored("t"), NOW);
    shown.session.head.version = 7;
    shown.session.head.status = status;
    shown.session.details.draft_values = draft.map(json);
    if status == Status::Completed {
        shown.session.details.result = Some(json(r#"{"values":{"a":"x","n":1},"score":null,"flags":[]}"#));
    }
    shown
}

fn code<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(Error::Invalid { field, .. }) => field.into_owned(),
        Err(error) => error.code().to_owned(),
    }
}

#[test]
fn a_respondent_opens_what_stands_or_a_new_one() {
    let row = |state, once| {
        let row = ResponseRow { state, once, ..response(Status::Draft, None).row };
        RespondentHistory { last_ordinal: 2, standing: Some(row) }
    };
    use ResponseState::{Open, Submitted};
    let none = RespondentHistory { last_ordinal: 2, standing: None };
    for (history, once, closed, expected) in [
        (none.clone(), true, false, "new 3"),
        (none, true, true, "view_closed"),
        (row(Open, true), true, false, "standing"),
        (row(Open, true), true, true, "view_closed"),
        (row(Submitted, true), true, false, "already_answered"),
        (row(Submitted, true), true, true, "already_answered"),
        (row(Submitted, false), false, false, "new 3"),
        // The view asks for one now, or asked for one then.
        (row(Submitted, false), true, false, "already_answered"),
        (row(Submitted, true), false, false, "already_answered"),
    ] {
        let mut view = defined(once).value;
        view.publish_config.expires_at = closed.then_some(NOW);
        let outcome = match open(&view, &history, NOW) {
            Ok(OpenOutcome::Standing(_)) => "standing".to_owned(),
            Ok(OpenOutcome::New { ordinal }) => format!("new {ordinal}"),
            Err(error) => error.code().to_owned(),
        };
        assert_eq!(outcome, expected, "{history:?} {once} {closed}");
    }
    let plain = View { response: None, ..defined(true).value };
    assert_eq!(code(open(&plain, &RespondentHistory::default(), NOW)), "type_mismatch");
}

#[test]
fn a_new_response_freezes_the_form_and_keeps_nothing_of_a_stranger() {
    let stranger = response(Status::Draft, None);
    assert_eq!(stranger.row.form.questions, defined(true).value.questions);
    assert_eq!(stranger.row.form.view_version, 4);
    assert!(stranger.row.is_anonymous && stranger.session.details.is_anonymous);
    assert_eq!(stranger.session.head.holder, None);
    let actor = Actor { user: Some(crate::UserId::stored("ada")), ..Actor::local(SourceKind::Api) };
    let who = Respondent::of(&actor);
    let respondent = NewRespondent { who: &who, name: "view:ada", ordinal: 1 };
    let made =
        new(&actor, SessionId::stored("r"), &defined(true), respondent, Some("e"), &RandomIds).unwrap();
    assert_eq!((made.session.head.holder, made.row.is_anonymous), (actor.user, false));
    assert_eq!(made.session.details.entity_id.as_deref(), Some("e"));
    assert_eq!(made.row.form.entity_id.as_deref(), Some("e"));
}

#[test]
fn an_entity_fits_the_type_and_is_there_where_no_other_could_be_made() {
    let config = |text: &str| json(text).read::<ResponseConfig>().unwrap();
    let company = StoredDefinition {
        id: "e".into(),
        value: Entity { type_slug: "company".into(), title: None, fields: Json::empty_object() },
        version: 1,
        created_by: None,
        created_at: NOW,
        updated_at: NOW,
    };
    let typed = config(r#"{"entity_type":"company","promote":"approval"}"#);
    let other = config(r#"{"entity_type":"person"}"#);
    let named = config(r#"{"promote":"approval"}"#);
    for (config, entity, expected) in [
        (&typed, Some(&company), "ok"),
        (&typed, None, "ok"),
        (&other, Some(&company), "entity_id"),
        (&other, None, "ok"),
        (&named, Some(&company), "ok"),
        (&named, None, "entity_id"),
        (&config("{}"), None, "ok"),
    ] {
        assert_eq!(code(check_entity(config, entity)), expected, "{config:?}");
    }
}

#[test]
fn a_save_merges_key_by_key_and_logs_only_what_changed() {
    for (status, draft, values, whole, changed) in [
        (Status::Draft, None, r#"{"a":"x"}"#, r#"{"a":"x"}"#, r#"{"a":"x"}"#),
        (Status::Running, Some(r#"{"a":"x"}"#), r#"{"n":1}"#, r#"{"a":"x","n":1}"#, r#"{"n":1}"#),
        (
            Status::Running,
            Some(r#"{"a":"x","n":1}"#),
            r#"{"a":"x","n":2}"#,
            r#"{"a":"x","n":2}"#,
            r#"{"n":2}"#,
        ),
        (Status::Running, Some(r#"{"a":"x","n":1}"#), r#"{"n":null}"#, r#"{"a":"x"}"#, r#"{"n":null}"#),
        // What is required may be empty in a draft.
        (Status::Draft, None, r#"{"a":""}"#, r#"{"a":""}"#, r#"{"a":""}"#),
    ] {
        let SaveOutcome::Saved(step) = save(&response(status, draft), &json(values), Some(7)).unwrap() else {
            panic!("{values} changes nothing")
        };
        assert_eq!(step.update.draft_values, Some(Some(json(whole))), "{values}");
        let saved = step.events.last().unwrap();
        assert_eq!(saved.kind.as_str(), DRAFT);
        let logged = saved.metadata.as_ref().unwrap();
        assert_eq!(logged.as_str(), format!(r#"{{"values":{changed}}}"#));
        let starts = status == Status::Draft;
        assert_eq!(step.update.status, starts.then_some(Status::Running), "{values}");
        assert_eq!(step.events.len(), 1 + usize::from(starts), "{values}");
        assert!(matches!(&step.records[..], [Record::SetResponse { state: ResponseState::Open, .. }]));
    }
}

#[test]
fn a_save_that_changes_nothing_writes_nothing() {
    for (draft, values) in [
        (None, "{}"),
        (None, r#"{"a":null}"#),
        (Some(r#"{"a":"x","n":1}"#), r#"{"n":1}"#),
        (Some(r#"{"n":1}"#), r#"{"n":1.0}"#),
    ] {
        let outcome = save(&response(Status::Running, draft), &json(values), None).unwrap();
        // A number that is written otherwise is another value for those who compare texts, so it may be saved.
        let is_unchanged = matches!(outcome, SaveOutcome::Unchanged);
        assert!(is_unchanged || values.contains("1.0"), "{values}");
    }
}

#[test]
fn a_save_is_refused_with_its_reason() {
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(limits::ANSWER_TEXT_CHARS + 1));
    for (status, values, version, expected) in [
        (Status::Running, r#"{"x":1}"#, None, "values.x"),
        (Status::Running, r#"{"__proto__":1}"#, None, "values.__proto__"),
        (Status::Running, r#"{"n":"1"}"#, None, "values.n"),
        (Status::Running, r#"{"s":6}"#, None, "values.s"),
        (Status::Running, &long, None, "values.a"),
        (Status::Running, "[]", None, "values"),
        (Status::Running, r#"{"a":"y"}"#, Some(6), "stale_base"),
        (Status::Running, r#"{"a":"y"}"#, Some(7), "ok"),
        (Status::Completed, r#"{"a":"y"}"#, None, "session_closed"),
        (Status::Abandoned, r#"{"a":"y"}"#, None, "session_closed"),
        (Status::Pending, r#"{"a":"y"}"#, None, "session_closed"),
    ] {
        let outcome = save(&response(status, Some(r#"{"a":"x"}"#)), &json(values), version);
        assert_eq!(code(outcome), expected, "{status} {values}");
    }
    let stale = save(&response(Status::Running, None), &json("{}"), Some(1)).unwrap_err();
    assert!(matches!(stale, Error::Conflict(Conflict::StaleVersion { version: 7 })), "{stale:?}");
    let mut wide = response(Status::Running, None);
    for question in &mut wide.row.form.questions {
        question.kind = crate::view::QuestionType::Text;
        question.max = Some(1e6);
        question.min = None;
    }
    let half = "x".repeat(limits::ANSWER_BYTES_MAX / 2);
    wide.session.details.draft_values = Some(json(&format!(r#"{{"n":"{half}"}}"#)));
    let other_half = json(&format!(r#"{{"a":"{half}"}}"#));
    assert_eq!(code(save(&wide, &other_half, None)), "too_large", "together they are too large");
}

#[test]
fn a_submit_checks_the_values_over_the_draft_whole() {
    for (draft, values, expected) in [
        (None, None, "values.a"),
        (None, Some(r#"{"n":1}"#), "values.a"),
        (Some(r#"{"a":"x"}"#), None, r#"{"a":"x"}"#),
        (Some(r#"{"a":"x"}"#), Some(r#"{"a":"y","n":1}"#), r#"{"a":"y","n":1}"#),
        (Some(r#"{"a":"x"}"#), Some(r#"{"a":null}"#), "values.a"),
        (Some(r#"{"a":"x","n":2}"#), Some(r#"{"n":null}"#), r#"{"a":"x"}"#),
        (Some(r#"{"a":"x"}"#), Some(r#"{"q":null}"#), "values.q"),
    ] {
        let values = values.map(json);
        let outcome = match submit(&response(Status::Running, draft), values.as_ref()) {
            Ok(SubmitCheck::Complete(whole)) => whole.as_str().to_owned(),
            other => code(other),
        };
        assert_eq!(outcome, expected, "{draft:?} {values:?}");
    }
}

#[test]
fn a_submit_is_repeated_or_refused_once_it_is_done() {
    for (status, values, expected) in [
        (Status::Completed, None, "repeated"),
        (Status::Completed, Some(r#"{"a":"x"}"#), "repeated"),
        (Status::Completed, Some(r#"{"n":1,"a":"x"}"#), "repeated"),
        (Status::Completed, Some(r#"{"a":"y"}"#), "already_answered"),
        (Status::Completed, Some(r#"{"n":null}"#), "already_answered"),
        (Status::Abandoned, Some(r#"{"a":"x"}"#), "session_closed"),
        (Status::Expired, None, "session_closed"),
    ] {
        let values = values.map(json);
        let outcome = match submit(&response(status, None), values.as_ref()) {
            Ok(SubmitCheck::Repeated) => "repeated".to_owned(),
            other => code(other),
        };
        assert_eq!(outcome, expected, "{status} {values:?}");
    }
}

#[test]
fn the_end_of_a_response_is_one_submit_event_between_its_moves() {
    let verdict = GateVerdict { score: Some(2.5), flags: vec!["late".into()], blocked: None };
    for (status, kinds) in [
        (Status::Draft, &["session.status_change", "user.form_submit", "session.status_change"][..]),
        (Status::Running, &["user.form_submit", "session.status_change"]),
    ] {
        let step = finish(&response(status, Some(r#"{"a":"x"}"#)), &json(r#"{"a":"x"}"#), &verdict).unwrap();
        let found: Vec<&str> = step.events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(found, kinds);
        assert_eq!(step.update.status, Some(Status::Completed));
        assert_eq!(step.update.draft_values, Some(None));
        assert_eq!((step.update.started, step.update.completed), (status == Status::Draft, true));
        let result = step.update.result.unwrap();
        assert_eq!(result.as_str(), r#"{"values":{"a":"x"},"score":2.5,"flags":["late"]}"#);
    }
}

#[test]
fn only_an_open_response_is_abandoned() {
    for (status, expected) in [
        (Status::Draft, "ok"),
        (Status::Running, "ok"),
        (Status::Completed, "session_closed"),
        (Status::Abandoned, "session_closed"),
    ] {
        assert_eq!(code(abandon(&response(status, None).session, "abandoned")), expected, "{status}");
    }
}

#[test]
fn the_id_of_a_stranger_s_response_follows_from_all_that_it_belongs_to() {
    let tenant = TenantId::stored("t");
    let id = |key: u8, view: &str, name: &str, ordinal| derived_id(&[key; 32], &tenant, view, name, ordinal);
    let one = id(1, "v", "n", 1);
    assert_eq!(one, id(1, "v", "n", 1));
    for other in [id(2, "v", "n", 1), id(1, "w", "n", 1), id(1, "v", "m", 1), id(1, "v", "n", 2)] {
        assert_ne!(one, other);
    }
    assert_ne!(one, derived_id(&[1; 32], &TenantId::stored("u"), "v", "n", 1));
}
