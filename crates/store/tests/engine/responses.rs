//! Responses: saved by their respondent alone, submitted once, abandoned after silence, and nothing to anybody else.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::definitions::{Entity, View};
use sederunt_core::engine::{Engine, OpenedResponse, Submission};
use sederunt_core::error::Error;
use sederunt_core::event::EventQuery;
use sederunt_core::json::Json;
use sederunt_core::response::{ResponseFilter, ResponseState, StoredResponse};
use sederunt_core::session::decide::Transition;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::view::{Lead, ViewAudience};
use sederunt_core::{Actor, Role, SessionId, limits, strict};

use crate::harness::{World, key, wish};
use crate::on_both_stores;
use crate::tasks::json;

on_both_stores!(
    a_member_opens_saves_and_submits_one_response,
    a_stranger_is_known_by_link_and_cookie_together,
    a_draft_of_a_stranger_without_a_value_is_not_stored,
    a_lead_who_only_names_an_address_is_shown_nothing,
    questions_are_those_of_the_opening,
    a_view_that_has_closed_takes_nothing,
    two_submits_at_once_on_two_nodes_are_one,
    a_submit_and_the_sweep_end_a_response_once,
    seven_silent_days_abandon_a_response_and_a_save_re_arms_it,
    a_whole_answer_opens_and_submits_in_one_commit,
    the_longest_silent_anonymous_draft_makes_room,
    every_end_of_the_session_ends_the_response,
    an_entity_is_named_by_members_and_fits_the_view,
    responses_are_read_by_owners_makers_and_assignees,
    a_session_without_a_form_has_no_form_verbs,
    a_response_is_neither_queued_nor_forked,
    an_abandon_with_the_same_key_is_answered_as_the_first,
);

pub(crate) async fn survey(world: &World, id: &str, gate: ViewAudience, response: &str) {
    let text = format!(
        r#"{{"title":"How?","questions":[{{"key":"a","label":"A","required":true}},
            {{"key":"n","label":"N","type":"number"}}],"response":{response}}}"#
    );
    let mut view: View = strict::read(json(&text).as_str()).unwrap();
    view.publish_config.gate = gate;
    world.engine.define(&world.owner(), Some(id), view, None).await.unwrap();
}

/// The holder of a link to a view.
pub(crate) fn stranger(world: &World, view: &str) -> Actor {
    let link = world.actor(Role::Share, "link");
    Actor { view: Some(view.into()), user: None, ..(*link).clone() }
}

pub(crate) async fn open(
    engine: &Engine,
    actor: &Actor,
    cookie: Option<&str>,
) -> Result<OpenedResponse, Error> {
    engine.open_response(actor, "v", cookie, None, None).await
}

async fn save(world: &World, actor: &Actor, id: &SessionId, values: &str) -> Result<StoredResponse, Error> {
    world.engine.save_response(actor, id, None, &json(values), None).await
}

pub(crate) fn code<T>(outcome: Result<T, Error>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(Error::Invalid { field, .. }) => field.into_owned(),
        Err(error) => error.code().to_owned(),
    }
}

async fn kinds(world: &World, id: &SessionId) -> Vec<String> {
    let query = EventQuery { limit: 1000, ..EventQuery::default() };
    let events = world.engine.read(&world.owner(), id, query).await.unwrap().events;
    events.iter().map(|event| event.kind.as_str().to_owned()).collect()
}

fn values_of(response: &StoredResponse) -> Option<Json> {
    response.session.details.draft_values.clone()
}

async fn a_member_opens_saves_and_submits_one_response(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let ada = world.actor(Role::Member, "ada");
    let opened = open(&world.engine, &ada, None).await.unwrap();
    assert!(opened.is_new && opened.cookie.is_none());
    let id = opened.response.session.id.clone();
    assert_eq!(opened.response.session.head.status, Status::Draft);
    assert_eq!(opened.response.session.head.holder, ada.user);
    let again = open(&world.engine, &ada, None).await.unwrap();
    assert_eq!((again.is_new, &again.response.session.id), (false, &id));

    let first = save(world, &ada, &id, r#"{"n":1}"#).await.unwrap();
    assert_eq!(first.session.head.status, Status::Running);
    let same = save(world, &ada, &id, r#"{"n":1}"#).await.unwrap();
    assert_eq!(same, first, "a save of what is there writes nothing");
    let version = Some(first.session.head.version);
    let second =
        world.engine.save_response(&ada, &id, None, &json(r#"{"a":"x","n":null}"#), version).await.unwrap();
    assert_eq!(values_of(&second), Some(json(r#"{"a":"x"}"#)));
    let stale = world.engine.save_response(&ada, &id, None, &json(r#"{"a":"y"}"#), version).await;
    assert_eq!(code(stale), "stale_base");
    assert_eq!(code(save(world, &ada, &id, r#"{"other":1}"#).await), "values.other");

    let incomplete = world.engine.submit_response(&ada, &id, None, Some(&json(r#"{"a":null}"#)), None).await;
    assert_eq!(code(incomplete), "values.a");
    let done = world.engine.submit_response(&ada, &id, None, Some(&json(r#"{"n":2}"#)), None).await.unwrap();
    assert!(!done.repeated);
    let session = &done.response.session;
    assert_eq!((session.head.status, &session.details.draft_values), (Status::Completed, &None));
    let result = session.details.result.as_ref().unwrap();
    assert_eq!(result.as_str(), r#"{"values":{"a":"x","n":2},"score":null,"flags":[]}"#);
    assert_eq!(done.response.row.state, ResponseState::Submitted);
    assert!(world.engine.submit_response(&ada, &id, None, None, None).await.unwrap().repeated);
    let other = world.engine.submit_response(&ada, &id, None, Some(&json(r#"{"n":3}"#)), None).await;
    assert_eq!(code(other), "already_answered");
    assert_eq!(code(save(world, &ada, &id, r#"{"n":4}"#).await), "session_closed");
    assert_eq!(code(open(&world.engine, &ada, None).await), "already_answered");
    assert_eq!(code(world.engine.abandon_response(&ada, &id, None, None).await), "session_closed");
    assert_eq!(
        kinds(world, &id).await,
        [
            "session.created", "session.status_change", "user.form_draft", "user.form_draft",
            "user.form_submit", "session.status_change",
        ]
    );
    let bob = world.actor(Role::Member, "bob");
    assert_eq!(code(world.engine.response(&bob, &id, None).await), "not_found");
    assert!(open(&world.engine, &bob, None).await.unwrap().is_new, "each respondent has their own");
}

async fn a_stranger_is_known_by_link_and_cookie_together(world: &World) {
    survey(world, "v", ViewAudience::None, "{}").await;
    survey(world, "w", ViewAudience::None, "{}").await;
    let link = stranger(world, "v");
    let opened = open(&world.engine, &link, None).await.unwrap();
    let (id, cookie) = (opened.response.session.id.clone(), opened.cookie.unwrap());
    let saved =
        world.engine.save_response(&link, &id, Some(&cookie), &json(r#"{"a":"x"}"#), None).await.unwrap();
    assert_eq!(saved.session.id, id, "it is stored under the id that was told");
    assert!(saved.row.is_anonymous && saved.session.details.is_anonymous);
    assert_eq!((saved.session.head.holder, saved.session.head.status), (None, Status::Running));
    assert!(world.engine.response(&link, &id, Some(&cookie)).await.is_ok());

    let second = open(&world.engine, &link, None).await.unwrap();
    let other_cookie = second.cookie.unwrap();
    assert_ne!(second.response.session.id, id);
    let other_link = stranger(world, "w");
    for (actor, cookie) in [
        (&link, None),
        (&link, Some(other_cookie.as_str())),
        (&link, Some("cookie.YQ.9999999999.00")),
        (&other_link, Some(cookie.as_str())),
        (&other_link, None),
    ] {
        assert_eq!(code(world.engine.response(actor, &id, cookie).await), "not_found", "{cookie:?}");
        let values = json(r#"{"a":"stolen"}"#);
        assert_eq!(code(world.engine.save_response(actor, &id, cookie, &values, None).await), "not_found");
        assert_eq!(code(world.engine.submit_response(actor, &id, cookie, None, None).await), "not_found");
        assert_eq!(code(world.engine.abandon_response(actor, &id, cookie, None).await), "not_found");
    }
    let again = open(&world.engine, &link, Some(&cookie)).await.unwrap();
    assert_eq!((again.is_new, again.response.session.id.clone()), (false, id.clone()));
    assert!(!world.engine.submit_response(&link, &id, Some(&cookie), None, None).await.unwrap().repeated);
    assert_eq!(code(open(&world.engine, &link, Some(&cookie)).await), "already_answered");
}

async fn a_draft_of_a_stranger_without_a_value_is_not_stored(world: &World) {
    survey(world, "v", ViewAudience::None, r#"{"once":false}"#).await;
    let link = stranger(world, "v");
    let opened = open(&world.engine, &link, None).await.unwrap();
    let (id, cookie) = (opened.response.session.id, opened.cookie.unwrap());
    let cookie = Some(cookie.as_str());
    assert!(world.engine.session(&world.owner(), &id).await.is_err());
    let shown = world.engine.response(&link, &id, cookie).await.unwrap();
    assert_eq!((shown.session.head.status, shown.session.head.version), (Status::Draft, 0));
    for nothing in ["{}", r#"{"a":null}"#] {
        world.engine.save_response(&link, &id, cookie, &json(nothing), Some(0)).await.unwrap();
    }
    assert!(world.engine.session(&world.owner(), &id).await.is_err());
    let listed = world.engine.responses(&world.owner(), "v", ResponseFilter::All, None, 10).await.unwrap();
    assert!(listed.items.is_empty());
    // The submit makes it, with both moves.
    let done =
        world.engine.submit_response(&link, &id, cookie, Some(&json(r#"{"a":"x"}"#)), None).await.unwrap();
    assert_eq!(done.response.row.state, ResponseState::Submitted);
    assert_eq!(
        kinds(world, &id).await,
        ["session.created", "session.status_change", "user.form_submit", "session.status_change"]
    );
    // The next one has an id of its own.
    let next = open(&world.engine, &link, cookie).await.unwrap().response.session.id;
    assert_ne!(next, id);
    let saved = world.engine.save_response(&link, &next, cookie, &json(r#"{"a":"y"}"#), Some(0)).await;
    assert_eq!(saved.unwrap().row.ordinal, 2);
}

async fn a_lead_who_only_names_an_address_is_shown_nothing(world: &World) {
    survey(world, "v", ViewAudience::Lead, "{}").await;
    let link = stranger(world, "v");
    assert_eq!(code(open(&world.engine, &link, None).await), "lead");
    let lead = Lead::new("Ada", "ada@example.org").unwrap();
    let named = world.engine.clear_lead(&link, "v", &lead).await.unwrap();
    let opened = open(&world.engine, &link, Some(&named)).await.unwrap();
    let (id, cookie) = (opened.response.session.id, opened.cookie.unwrap());
    world.engine.save_response(&link, &id, Some(&cookie), &json(r#"{"a":"secret"}"#), None).await.unwrap();
    // Somebody else gives the same address.
    let other = world.engine.clear_lead(&link, "v", &lead).await.unwrap();
    assert_eq!(code(open(&world.engine, &link, Some(&other)).await), "already_answered");
    assert_eq!(code(world.engine.response(&link, &id, Some(&other)).await), "not_found");
    let answer = Submission { values: json(r#"{"a":"x"}"#), lead: Some(lead) };
    assert_eq!(code(world.engine.submit(&link, "v", None, &answer, None).await), "already_answered");
    assert!(world.engine.response(&link, &id, Some(&cookie)).await.is_ok());
}

async fn questions_are_those_of_the_opening(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let (ada, bob) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob"));
    let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
    let patch = json(r#"{"questions":[{"key":"b","label":"B"}]}"#);
    world.engine.redefine::<View>(&world.owner(), "v", &patch, None).await.unwrap();
    assert_eq!(code(save(world, &ada, &id, r#"{"a":"x"}"#).await), "ok");
    assert_eq!(code(save(world, &ada, &id, r#"{"b":"x"}"#).await), "values.b");
    let id = open(&world.engine, &bob, None).await.unwrap().response.session.id;
    assert_eq!(code(save(world, &bob, &id, r#"{"b":"x"}"#).await), "ok");
}

async fn a_view_that_has_closed_takes_nothing(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let (ada, bob) = (world.actor(Role::Member, "ada"), world.actor(Role::Member, "bob"));
    let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
    save(world, &ada, &id, r#"{"a":"x"}"#).await.unwrap();
    let patch = json(r#"{"publish_config":{"gate":"member","expires_at":"2020-01-01T00:00:00Z"}}"#);
    world.engine.redefine::<View>(&world.owner(), "v", &patch, None).await.unwrap();
    assert_eq!(code(open(&world.engine, &bob, None).await), "view_closed");
    assert_eq!(code(open(&world.engine, &ada, None).await), "view_closed");
    assert_eq!(code(save(world, &ada, &id, r#"{"a":"y"}"#).await), "view_closed");
    assert_eq!(code(world.engine.submit_response(&ada, &id, None, None, None).await), "view_closed");
    let answer = Submission { values: json(r#"{"a":"x"}"#), lead: None };
    assert_eq!(code(world.engine.submit(&bob, "v", None, &answer, None).await), "view_closed");
}

async fn two_submits_at_once_on_two_nodes_are_one(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let other = world.other_node().await;
    for (round, differ) in [(0, false), (1, true), (2, false), (3, true)] {
        let ada = world.actor(Role::Member, &format!("ada{round}"));
        let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
        let submits = (0..8).map(|n: usize| {
            let engine = if n.is_multiple_of(2) { world.engine.clone() } else { other.clone() };
            let (ada, id) = (ada.clone(), id.clone());
            tokio::spawn(async move {
                let n = if differ { n } else { 0 };
                let values = json(&format!(r#"{{"a":"x","n":{n}}}"#));
                engine.submit_response(&ada, &id, None, Some(&values), None).await
            })
        });
        let done: Vec<_> = join_all(submits).await.into_iter().map(Result::unwrap).collect();
        let written = done.iter().filter(|done| done.as_ref().is_ok_and(|done| !done.repeated)).count();
        assert_eq!(written, 1, "{done:?}");
        for done in done {
            match done {
                Ok(done) => assert!(!done.repeated || !differ),
                Err(refused) => assert_eq!((refused.code(), differ), ("already_answered", true)),
            }
        }
        let submitted = kinds(world, &id).await.iter().filter(|kind| *kind == "user.form_submit").count();
        assert_eq!(submitted, 1);
    }
    // Whole answers that open and submit meet at the same place.
    let eve = world.actor(Role::Member, "eve");
    let answers = (0..8).map(|n: usize| {
        let engine = if n.is_multiple_of(2) { world.engine.clone() } else { other.clone() };
        let eve = eve.clone();
        tokio::spawn(async move {
            let wish = Submission { values: json(r#"{"a":"x"}"#), lead: None };
            engine.submit(&eve, "v", None, &wish, None).await.unwrap().repeated
        })
    });
    let repeated: Vec<bool> = join_all(answers).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(repeated.iter().filter(|repeated| !**repeated).count(), 1);
}

async fn a_submit_and_the_sweep_end_a_response_once(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let other = world.other_node().await;
    for round in 0..6 {
        let ada = world.actor(Role::Member, &format!("ada{round}"));
        let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
        save(world, &ada, &id, r#"{"a":"x"}"#).await.unwrap();
        world.clock.advance(limits::RESPONSE_DEADLINE + Duration::from_secs(1));
        let sweep = tokio::spawn({
            let other = other.clone();
            async move { other.sweep().await.unwrap() }
        });
        let submitted = world.engine.submit_response(&ada, &id, None, None, None).await;
        sweep.await.unwrap();
        let ended = world.engine.response(&ada, &id, None).await.unwrap();
        match submitted {
            Ok(_) => assert_eq!(ended.session.head.status, Status::Completed),
            Err(refused) => {
                assert_eq!(refused.code(), "session_closed");
                assert_eq!(ended.session.head.status, Status::Abandoned);
            }
        }
        let state = match ended.session.head.status {
            Status::Completed => ResponseState::Submitted,
            _ => ResponseState::Abandoned,
        };
        assert_eq!(ended.row.state, state);
        let ends = kinds(world, &id).await.iter().filter(|kind| *kind == "user.form_submit").count();
        assert_eq!(ends, usize::from(state == ResponseState::Submitted));
    }
}

async fn seven_silent_days_abandon_a_response_and_a_save_re_arms_it(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let ada = world.actor(Role::Member, "ada");
    let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
    let status = async || world.session(id.as_str()).await.head.status;
    let nearly = limits::RESPONSE_DEADLINE - Duration::from_secs(60);
    for (n, before) in [(1, Status::Running), (2, Status::Running)] {
        world.clock.advance(nearly);
        world.engine.sweep().await.unwrap();
        save(world, &ada, &id, &format!(r#"{{"n":{n}}}"#)).await.unwrap();
        assert_eq!(status().await, before);
    }
    world.clock.advance(nearly);
    world.engine.sweep().await.unwrap();
    assert_eq!(status().await, Status::Running);
    world.clock.advance(Duration::from_secs(120));
    world.engine.sweep().await.unwrap();
    assert_eq!(status().await, Status::Abandoned);
    assert_eq!(world.engine.response(&ada, &id, None).await.unwrap().row.state, ResponseState::Abandoned);
    assert!(open(&world.engine, &ada, None).await.unwrap().is_new, "another may be opened");
}

async fn a_whole_answer_opens_and_submits_in_one_commit(world: &World) {
    survey(world, "v", ViewAudience::None, "{}").await;
    let (ada, link) = (world.actor(Role::Member, "ada"), stranger(world, "v"));
    let answer = |text: &str| Submission { values: json(text), lead: None };
    let whole = answer(r#"{"a":"x"}"#);
    assert!(!world.engine.submit(&ada, "v", None, &whole, None).await.unwrap().repeated);
    assert!(world.engine.submit(&ada, "v", None, &whole, None).await.unwrap().repeated);
    let other = world.engine.submit(&ada, "v", None, &answer(r#"{"a":"y"}"#), None).await;
    assert_eq!(code(other), "already_answered");
    let done = world.engine.submit(&link, "v", None, &whole, None).await.unwrap();
    let cookie = done.cookie.unwrap();
    assert!(world.engine.submit(&link, "v", Some(&cookie), &whole, None).await.unwrap().repeated);
    assert_eq!(code(world.engine.submit(&link, "v", None, &answer("{}"), None).await), "values.a");
    // A draft is submitted with the answer over it.
    let bob = world.actor(Role::Member, "bob");
    let id = open(&world.engine, &bob, None).await.unwrap().response.session.id;
    save(world, &bob, &id, r#"{"n":7}"#).await.unwrap();
    world.engine.submit(&bob, "v", None, &whole, None).await.unwrap();
    let submitted = world.engine.response(&bob, &id, None).await.unwrap().session.details.result.unwrap();
    assert!(submitted.as_str().contains(r#""values":{"n":7,"a":"x"}"#), "{submitted:?}");
    let listed = world.engine.responses(&world.owner(), "v", ResponseFilter::Submitted, None, 10).await;
    assert_eq!(listed.unwrap().items.len(), 3);
}

async fn the_longest_silent_anonymous_draft_makes_room(world: &World) {
    survey(world, "v", ViewAudience::None, "{}").await;
    let link = stranger(world, "v");
    let first = draft(world, &link).await;
    let second = draft(world, &link).await;
    for _ in 2..limits::ANONYMOUS_DRAFTS_MAX {
        draft(world, &link).await;
    }
    // A save makes the second one the longest silent.
    let values = json(r#"{"a":"again"}"#);
    world.engine.save_response(&link, &first.0, Some(&first.1), &values, None).await.unwrap();
    let open = async || world.store.silent_drafts(&world.tenant, "v", 0, 2_000).await.unwrap().len();
    assert_eq!(open().await, limits::ANONYMOUS_DRAFTS_MAX);
    draft(world, &link).await;
    assert_eq!(open().await, limits::ANONYMOUS_DRAFTS_MAX);
    let status = async |id: &SessionId| world.session(id.as_str()).await.head.status;
    assert_eq!(status(&second.0).await, Status::Abandoned);
    assert_eq!(status(&first.0).await, Status::Running);
}

/// A stranger's stored draft and the cookie that proves it.
async fn draft(world: &World, link: &Actor) -> (SessionId, String) {
    let opened = open(&world.engine, link, None).await.unwrap();
    let (id, cookie) = (opened.response.session.id, opened.cookie.unwrap());
    let values = json(r#"{"a":"x"}"#);
    world.engine.save_response(link, &id, Some(&cookie), &values, None).await.unwrap();
    (id, cookie)
}

async fn every_end_of_the_session_ends_the_response(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let ada = world.actor(Role::Member, "ada");
    let opened = async || open(&world.engine, &ada, None).await.unwrap().response.session.id;
    let id = opened().await;
    let gone = world.engine.abandon_response(&ada, &id, None, None).await.unwrap();
    assert_eq!((gone.session.head.status, gone.row.state), (Status::Abandoned, ResponseState::Abandoned));
    for to in [Status::Abandoned, Status::Expired] {
        let id = opened().await;
        let wish = Transition { to, expected: None, reason: None };
        world.engine.transition(&world.owner(), &id, wish, None).await.unwrap();
        let ended = world.engine.response(&ada, &id, None).await.unwrap();
        assert_eq!(ended.row.state, ResponseState::Abandoned, "{to}");
    }
    let id = opened().await;
    world.engine.abandon_response(&world.owner(), &id, None, None).await.unwrap();
    let id = opened().await;
    world.engine.abandon_response(&ada, &id, None, None).await.unwrap();
    world.engine.delete(&ada, &id).await.unwrap();
    assert_eq!(code(world.engine.response(&ada, &id, None).await), "not_found");
    assert!(open(&world.engine, &ada, None).await.unwrap().is_new);
}

async fn an_entity_is_named_by_members_and_fits_the_view(world: &World) {
    let config = r#"{"entity_type":"company","fields":{"a":"name"},"promote":"approval"}"#;
    survey(world, "v", ViewAudience::None, config).await;
    let (owner, ada, link) = (world.owner(), world.actor(Role::Member, "ada"), stranger(world, "v"));
    for (id, type_slug) in [("acme", "company"), ("bob", "person")] {
        let entity = Entity { type_slug: type_slug.into(), title: None, fields: Json::empty_object() };
        world.engine.define(&owner, Some(id), entity, None).await.unwrap();
    }
    let with = async |actor: &Actor, entity| world.engine.open_response(actor, "v", None, entity, None).await;
    assert_eq!(code(with(&link, Some("acme")).await), "entity_id");
    assert_eq!(code(with(&ada, Some("bob")).await), "entity_id");
    assert_eq!(code(with(&ada, Some("none")).await), "not_found");
    let opened = with(&ada, Some("acme")).await.unwrap().response;
    assert_eq!(opened.session.details.entity_id.as_deref(), Some("acme"));
    assert!(with(&link, None).await.is_ok());
    survey(world, "w", ViewAudience::Member, r#"{"fields":{"a":"name"},"promote":"approval"}"#).await;
    assert_eq!(code(world.engine.open_response(&ada, "w", None, None, None).await), "entity_id");
}

async fn responses_are_read_by_owners_makers_and_assignees(world: &World) {
    survey(world, "v", ViewAudience::Member, r#"{"assigned_to":"mia"}"#).await;
    let ada = world.actor(Role::Member, "ada");
    let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
    let roles = [
        (world.owner(), "ok", "ok"),
        (world.actor(Role::Member, "mia"), "ok", "ok"),
        (world.actor(Role::Member, "bob"), "not_found", "not_found"),
        (world.actor(Role::Guest, "ada"), "not_found", "denied"),
        (world.worker("w"), "not_found", "denied"),
        (world.actor(Role::Channel, "cli:"), "not_found", "denied"),
        (Arc::new(stranger(world, "v")), "denied", "denied"),
    ];
    for (actor, one, all) in roles {
        assert_eq!(code(world.engine.response(&actor, &id, None).await), one, "{actor:?}");
        let listed = world.engine.responses(&actor, "v", ResponseFilter::All, None, 10).await;
        assert_eq!(code(listed), all, "{actor:?}");
    }
    // To read is not to answer for somebody else.
    let mia = world.actor(Role::Member, "mia");
    for actor in [world.owner(), mia] {
        assert_eq!(code(save(world, &actor, &id, r#"{"a":"x"}"#).await), "denied");
        assert_eq!(code(world.engine.submit_response(&actor, &id, None, None, None).await), "denied");
    }
    let elsewhere = world.other_tenant().await;
    assert_eq!(code(world.engine.response(&elsewhere, &id, None).await), "not_found");
    assert_eq!(code(open(&world.engine, &elsewhere, None).await), "not_found");
}

async fn a_session_without_a_form_has_no_form_verbs(world: &World) {
    let owner = world.owner();
    let plain = world.open(&owner, wish("plain", SessionType::Response)).await.id;
    let talk = world.talk("talk").await.id;
    for (id, expected) in [(&plain, "type_mismatch"), (&talk, "not_found")] {
        assert_eq!(code(world.engine.response(&owner, id, None).await), expected);
        assert_eq!(code(save(world, &owner, id, "{}").await), expected);
        assert_eq!(code(world.engine.submit_response(&owner, id, None, None, None).await), expected);
        assert_eq!(code(world.engine.abandon_response(&owner, id, None, None).await), expected);
    }
    let bob = world.actor(Role::Member, "bob");
    assert_eq!(code(world.engine.response(&bob, &plain, None).await), "not_found");
    let text = r#"{"title":"T","questions":[{"key":"a","label":"A"}]}"#;
    let view: View = strict::read(json(text).as_str()).unwrap();
    world.engine.define(&owner, Some("v"), view, None).await.unwrap();
    assert_eq!(code(open(&world.engine, &owner, None).await), "type_mismatch");
}

async fn a_response_is_neither_queued_nor_forked(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let owner = world.owner();
    let id = open(&world.engine, &owner, None).await.unwrap().response.session.id;
    let plain = world.open(&owner, wish("plain", SessionType::Response)).await.id;
    for id in [&id, &plain] {
        let before = world.engine.session(&owner, id).await.unwrap();
        let to_the_queue = Transition { to: Status::Pending, expected: None, reason: None };
        assert_eq!(code(world.engine.transition(&owner, id, to_the_queue, None).await), "type_mismatch");
        assert_eq!(code(world.engine.fork(&owner, id, 1, None).await), "type_mismatch");
        assert_eq!(world.engine.session(&owner, id).await.unwrap(), before, "nothing was written");
    }
}

async fn an_abandon_with_the_same_key_is_answered_as_the_first(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let ada = world.actor(Role::Member, "ada");
    let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
    let abandon = async |name| world.engine.abandon_response(&ada, &id, None, key(name, 1)).await;
    let first = abandon("a").await.unwrap();
    assert_eq!(abandon("a").await.unwrap(), first);
    assert_eq!(code(abandon("b").await), "session_closed", "another key is another request");
}
