//! Respondents behind a link: what the link reaches in the store, and requests that are repeated under a key.

use std::time::Duration;

use sederunt_core::definitions::{Entity, View};
use sederunt_core::engine::{
    DefinitionFilters, Engine, OpenedResponse, Submission, SubmitResult, SubmittedResponse,
};
use sederunt_core::error::Error;
use sederunt_core::people::{SecretHash, Share};
use sederunt_core::response::{ResponseFilter, ResponseState};
use sederunt_core::session::Status;
use sederunt_core::store::IdemKey;
use sederunt_core::view::{Lead, ViewAudience};
use sederunt_core::{Actor, Role, SessionId};

use crate::harness::{World, key};
use crate::on_both_stores;
use crate::responses::{code, open, stranger, survey};
use crate::tasks::json;

on_both_stores!(
    a_link_that_was_revoked_writes_nothing,
    an_opening_under_a_key_is_repeated_with_its_response,
    a_stranger_opens_the_same_response_under_a_key_and_stores_no_draft,
    a_submit_under_a_key_is_answered_as_the_first,
    a_whole_answer_under_a_key_is_answered_as_the_first,
);

/// The holder of a link to a view that is in the store, and the link.
async fn linked(world: &World, view: &str) -> (Actor, Share) {
    let (owner, life) = (world.owner(), Duration::from_secs(60));
    let made = world.engine.share_view(&owner, view, None, life, None).await.unwrap();
    let hash = SecretHash::of(&made.token.unwrap());
    (Actor { link: Some(hash), ..stranger(world, view) }, made.share)
}

async fn opened(
    world: &World,
    actor: &Actor,
    cookie: Option<&str>,
    key: Option<IdemKey>,
) -> Result<OpenedResponse, Error> {
    world.engine.open_response(actor, "v", cookie, None, key).await
}

async fn submitted(
    world: &World,
    actor: &Actor,
    id: &SessionId,
    values: &str,
    key: Option<IdemKey>,
) -> Result<SubmittedResponse, Error> {
    world.engine.submit_response(actor, id, None, Some(&json(values)), key).await
}

fn answer(values: &str, lead: Option<&Lead>) -> Submission {
    Submission { values: json(values), lead: lead.cloned() }
}

/// What every call by which a respondent writes is told.
async fn written(
    engine: &Engine,
    link: &Actor,
    id: &SessionId,
    cookie: &str,
    lead: Option<&Lead>,
) -> [String; 6] {
    let (values, cookie) = (json(r#"{"a":"late"}"#), Some(cookie));
    [
        code(engine.open_response(link, "v", cookie, None, None).await),
        code(engine.response(link, id, cookie).await),
        code(engine.save_response(link, id, cookie, &values, None).await),
        code(engine.abandon_response(link, id, cookie, None).await),
        code(engine.submit_response(link, id, cookie, Some(&values), None).await),
        code(engine.submit(link, "v", cookie, &answer(r#"{"a":"late"}"#, lead), None).await),
    ]
}

async fn a_link_that_was_revoked_writes_nothing(world: &World) {
    survey(world, "v", ViewAudience::None, "{}").await;
    survey(world, "w", ViewAudience::None, "{}").await;
    let (link, share) = linked(world, "v").await;
    let (other, _) = linked(world, "w").await;
    let told = open(&world.engine, &link, None).await.unwrap();
    let (unstored, nothing) = (told.response.session.id, told.cookie.unwrap());
    let kept = open(&world.engine, &link, None).await.unwrap();
    let (stored, cookie) = (kept.response.session.id, kept.cookie.unwrap());
    let values = json(r#"{"a":"x"}"#);
    world.engine.save_response(&link, &stored, Some(&cookie), &values, None).await.unwrap();
    // Whoever holds the link may have been let in before it ended: the store is asked again.
    let borrowed = Actor { link: other.link, ..link.clone() };
    for (id, cookie) in [(&unstored, &nothing), (&stored, &cookie)] {
        assert_eq!(
            written(&world.engine, &borrowed, id, cookie, None).await,
            ["not_found"; 6],
            "another view's"
        );
    }
    world.engine.revoke_share(&world.owner(), &share.id).await.unwrap();
    for (id, cookie) in [(&unstored, &nothing), (&stored, &cookie)] {
        assert_eq!(written(&world.engine, &link, id, cookie, None).await, ["not_found"; 6]);
    }
    assert_eq!(code(open(&world.engine, &link, None).await), "not_found", "nobody new either");
    let all = world.engine.responses(&world.owner(), "v", ResponseFilter::All, None, 10).await.unwrap().items;
    let [only] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&only.session.id, only.session.head.status), (&stored, Status::Running));
    assert_eq!(only.session.details.draft_values, Some(values));

    // A lead's response is stored when it is opened, and its lead with the first whole answer.
    let gate = json(r#"{"publish_config":{"gate":"lead"}}"#);
    world.engine.redefine::<View>(&world.owner(), "v", &gate, None).await.unwrap();
    let ada = Lead::new("Ada", "ada@example.org").unwrap();
    let (open_link, share) = linked(world, "v").await;
    let named = world.engine.clear_lead(&open_link, "v", &ada).await.unwrap();
    world.engine.revoke_share(&world.owner(), &share.id).await.unwrap();
    assert_eq!(code(open(&world.engine, &open_link, Some(&named)).await), "not_found");
    let bea = Lead::new("Bea", "bea@example.org").unwrap();
    let late = world.engine.submit(&open_link, "v", None, &answer(r#"{"a":"x"}"#, Some(&bea)), None).await;
    assert_eq!(code(late), "not_found");
    assert_eq!(code(world.engine.clear_lead(&open_link, "v", &bea).await), "not_found");
    let leads =
        world.engine.definitions::<Entity>(&world.owner(), DefinitionFilters::default(), None, 10).await;
    let leads = leads.unwrap().items;
    assert_eq!(leads.len(), 1, "{leads:?}");
}

async fn an_opening_under_a_key_is_repeated_with_its_response(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let ada = world.actor(Role::Member, "ada");
    let first = opened(world, &ada, None, key("k", 1)).await.unwrap();
    assert!(first.is_new);
    let again = opened(world, &ada, None, key("k", 1)).await.unwrap();
    assert_eq!((again.is_new, &again.response), (true, &first.response));
    assert_eq!(code(opened(world, &ada, None, key("k", 2)).await), "idempotency_mismatch");
    let other = opened(world, &ada, None, key("l", 1)).await.unwrap();
    assert!(!other.is_new && other.response == first.response, "another key is another request");
    // What came of the response since is no reason to answer otherwise.
    let id = &first.response.session.id;
    submitted(world, &ada, id, r#"{"a":"x"}"#, None).await.unwrap();
    let again = opened(world, &ada, None, key("k", 1)).await.unwrap();
    assert_eq!((again.is_new, again.response.row.state), (true, ResponseState::Submitted));
    assert_eq!(code(opened(world, &ada, None, key("m", 1)).await), "already_answered");
    // A lead who only names an address repeats nothing that another may have opened under it.
    let gate = json(r#"{"publish_config":{"gate":"lead"}}"#);
    world.engine.redefine::<View>(&world.owner(), "v", &gate, None).await.unwrap();
    let (link, _) = linked(world, "v").await;
    let lead = Lead::new("Bea", "bea@example.org").unwrap();
    let named = world.engine.clear_lead(&link, "v", &lead).await.unwrap();
    let first = opened(world, &link, Some(&named), key("n", 1)).await.unwrap();
    assert_eq!(code(opened(world, &link, Some(&named), key("n", 1)).await), "already_answered");
    let proven = opened(world, &link, first.cookie.as_deref(), key("n", 1)).await.unwrap();
    assert_eq!(proven.response, first.response);
}

async fn a_stranger_opens_the_same_response_under_a_key_and_stores_no_draft(world: &World) {
    survey(world, "v", ViewAudience::None, r#"{"once":false}"#).await;
    let (link, _) = linked(world, "v").await;
    let cookie = open(&world.engine, &link, None).await.unwrap().cookie.unwrap();
    let cookie = Some(cookie.as_str());
    let first = opened(world, &link, cookie, key("k", 1)).await.unwrap();
    let id = &first.response.session.id;
    assert!(first.is_new);
    assert!(world.engine.session(&world.owner(), id).await.is_err(), "a draft without a value is not stored");
    let again = opened(world, &link, cookie, key("k", 1)).await.unwrap();
    assert_eq!((again.is_new, &again.response.session.id), (true, id));
    world.engine.save_response(&link, id, cookie, &json(r#"{"a":"x"}"#), None).await.unwrap();
    let again = opened(world, &link, cookie, key("k", 1)).await.unwrap();
    assert_eq!((again.is_new, again.response.session.head.status), (true, Status::Running));
    world.engine.submit_response(&link, id, cookie, None, None).await.unwrap();
    let again = opened(world, &link, cookie, key("k", 1)).await.unwrap();
    assert_eq!((&again.response.session.id, again.response.row.state), (id, ResponseState::Submitted));
    let next = opened(world, &link, cookie, key("l", 1)).await.unwrap();
    assert_ne!(next.response.session.id, *id, "another key opens another one");
}

async fn a_submit_under_a_key_is_answered_as_the_first(world: &World) {
    survey(world, "v", ViewAudience::Member, "{}").await;
    let ada = world.actor(Role::Member, "ada");
    let id = open(&world.engine, &ada, None).await.unwrap().response.session.id;
    let first = submitted(world, &ada, &id, r#"{"a":"x"}"#, key("k", 1)).await.unwrap();
    assert!(!first.repeated);
    let again = submitted(world, &ada, &id, r#"{"a":"x"}"#, key("k", 1)).await.unwrap();
    assert_eq!((again.repeated, again.response), (false, first.response));
    assert!(submitted(world, &ada, &id, r#"{"a":"x"}"#, key("l", 1)).await.unwrap().repeated);
    assert!(submitted(world, &ada, &id, r#"{"a":"x"}"#, None).await.unwrap().repeated);
    for (values, key, expected) in [
        (r#"{"a":"y"}"#, key("k", 2), "idempotency_mismatch"),
        (r#"{"a":"y"}"#, key("m", 2), "already_answered"),
        (r#"{"a":"x"}"#, key("k", 2), "idempotency_mismatch"),
    ] {
        assert_eq!(code(submitted(world, &ada, &id, values, key).await), expected, "{values}");
    }
}

async fn a_whole_answer_under_a_key_is_answered_as_the_first(world: &World) {
    for config in ["{}", r#"{"once":false}"#] {
        let view = if config == "{}" { "v" } else { "w" };
        survey(world, view, ViewAudience::None, config).await;
        let (link, _) = linked(world, view).await;
        let cookie = world.engine.open_response(&link, view, None, None, None).await.unwrap().cookie;
        let ada = world.actor(Role::Member, "ada");
        for (n, actor, cookie) in [(1, &*ada, None), (2, &link, cookie.as_deref())] {
            let name = format!("{view}{n}");
            let send = async |values: &str, key| -> Result<SubmitResult, Error> {
                world.engine.submit(actor, view, cookie, &answer(values, None), key).await
            };
            let first = send(r#"{"a":"x"}"#, key(&name, 1)).await.unwrap();
            assert!(!first.repeated);
            let again = send(r#"{"a":"x"}"#, key(&name, 1)).await.unwrap();
            assert_eq!(
                (again.repeated, again.sequence, &again.respondent),
                (false, first.sequence, &first.respondent)
            );
            let other = send(r#"{"a":"y"}"#, key(&name, 2)).await;
            assert_eq!(code(other), "idempotency_mismatch");
        }
        let all = world.engine.responses(&world.owner(), view, ResponseFilter::Submitted, None, 10).await;
        assert_eq!(all.unwrap().items.len(), 2, "one of each respondent");
    }
}
