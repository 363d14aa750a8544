//! /api/views, /api/views/{id}/submit-interaction and the page of a view

use std::time::Duration;

use sederunt_core::access::Role;
use sederunt_core::limits;
use sederunt_core::view::respondent::cookie_name;
use sederunt_server::{Rate, Rates, TrustedProxies};
use serde_json::{Value, json};

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store, on_store};

on_every_store!(
    a_worker_publishes_waits_and_goes_on_with_the_answer,
    a_link_shows_what_is_asked_and_nothing_else,
    a_stranger_is_known_again_by_its_cookie,
    a_lead_says_who_it_is_first,
    naming_somebody_does_not_tell_whether_they_have_answered,
    leads_through_one_link_are_bounded,
    members_answer_what_is_for_members,
    a_personal_link_answers_one_view_as_one_member,
    what_does_not_fit_is_refused_with_its_path,
    a_repeat_under_a_key_has_one_effect,
    strangers_who_share_a_link_share_no_idempotency_key,
    a_view_is_carried_by_a_bundle_unless_a_session_has_it,
    a_published_view_keeps_its_questions_and_can_be_closed,
    answers_are_counted_on_their_own,
    fifty_people_behind_one_address_fill_in_a_form_at_once,
    new_respondents_from_one_address_are_bounded,
    the_page_is_for_people_and_loads_nothing_from_elsewhere,
    a_form_is_sent_without_a_script,
    only_origins_that_a_view_names_may_show_it_and_only_with_tls,
    pages_of_other_sites_answer_nothing_through_a_link,
    whoever_answers_is_told_who_asks_and_no_more_of_it,
);
on_store!(token_on_file, File: the_token_of_a_link_stands_nowhere_in_the_store);
on_store!(token_on_postgres, Postgres: the_token_of_a_link_stands_nowhere_in_the_store);

fn form(gate: &str) -> Value {
    json!({"title": "Which colour?", "publish_config": {"gate": gate}, "questions": [
        {"key": "colour", "label": "Colour", "type": "choice", "required": true,
            "options": [{"value": "green"}, {"value": "red", "label": "<b>Red</b>"}]},
        {"key": "why", "label": "Why?"}]})
}

/// A session that a worker has claimed: its id, and the epoch of the claim.
async fn claimed(owner: &Caller<'_>, worker: &Caller<'_>) -> (String, u64) {
    owner.session(json!({"session_type": "agent", "status": "pending", "title": "secret plan"})).await;
    let claims = worker.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let claim = &claims["claims"][0];
    (claim["session"]["id"].as_str().unwrap().to_owned(), claim["epoch"].as_u64().unwrap())
}

async fn publish(worker: &Caller<'_>, session: &str, epoch: u64, mut view: Value) -> Answer {
    view["session_id"] = session.into();
    view["epoch"] = epoch.into();
    worker.post("/api/views", view).await.expect(201)
}

/// A published view of this gate: the owner, the worker, the session, the epoch, the view's id and its token.
struct Scene<'a> {
    owner: Caller<'a>,
    worker: Caller<'a>,
    session: String,
    epoch: u64,
    id: String,
    url: String,
}

impl<'a> Scene<'a> {
    async fn open(server: &'a TestServer, gate: &str) -> Self {
        let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
        let (session, epoch) = claimed(&owner, &worker).await;
        let view = publish(&worker, &session, epoch, form(gate)).await;
        let url = view.body["url"].as_str().unwrap().to_owned();
        Self { owner, worker, session, epoch, id: view.id(), url }
    }

    fn token(&self) -> &str {
        self.url.split_once("?share=").unwrap().1
    }

    fn stranger(&self, server: &'a TestServer) -> Caller<'a> {
        server.anyone().with("x-share-token", self.token())
    }

    fn submit_path(&self) -> String {
        format!("/api/views/{}/submit-interaction", self.id)
    }

    async fn submit(&self, who: &Caller<'_>, colour: &str) -> Answer {
        who.post(&self.submit_path(), json!({"values": {"colour": colour}})).await
    }
}

/// The cookie that an answer sets, as it is sent back.
fn cookie(answer: &Answer) -> String {
    let line = answer.headers["set-cookie"].to_str().unwrap();
    for part in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age="] {
        assert!(line.contains(part), "{line}");
    }
    line.split(';').next().unwrap().to_owned()
}

async fn a_worker_publishes_waits_and_goes_on_with_the_answer(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    assert!(scene.url.starts_with(&format!("http://{}/views/{}?share=", server.address, scene.id)));
    let again = scene.owner.get(&format!("/api/views/{}", scene.id)).await.expect(200).body;
    assert_eq!((&again["url"], &again["session_id"]), (&json!(scene.url), &json!(scene.session)));
    let wait = json!({"epoch": scene.epoch, "kind": "human", "question": {"view_id": scene.id}});
    let parked = scene.worker.post(&format!("/api/sessions/{}/yield", scene.session), wait).await.expect(200);
    assert_eq!(parked.body["status"], "waiting_human");
    let taken = scene.submit(&scene.stranger(&server), "green").await.expect(200);
    assert_eq!(taken.body, json!({"accepted": true, "repeated": false}));
    scene.submit(&scene.stranger(&server), "red").await.expect(200);
    let claims = scene.worker.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let claim = &claims["claims"][0];
    assert_eq!(claim["resume"]["decision"], "answer");
    assert_eq!(claim["resume"]["view_id"], scene.id);
    assert_eq!(claim["resume"]["reply"]["values"], json!({"colour": "green"}));
    let late = &claim["pending_answers"];
    assert_eq!(late.as_array().unwrap().len(), 1, "{late}");
    assert_eq!(
        (&late[0]["values"], &late[0]["respondent"]["kind"]),
        (&json!({"colour": "red"}), &json!("cookie"))
    );
    let answers = scene.owner.get(&format!("/api/views/{}/answers?limit=1", scene.id)).await.expect(200).body;
    let next = answers["next_cursor"].as_str().unwrap();
    let rest =
        scene.owner.get(&format!("/api/views/{}/answers?cursor={next}", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"][0]["values"], json!({"colour": "green"}));
    assert_eq!(rest["items"], json!([late[0]]));
}

async fn a_link_shows_what_is_asked_and_nothing_else(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let stranger = scene.stranger(&server);
    let seen = stranger.get(&format!("/api/views/{}", scene.id)).await.expect(200).body;
    let mut keys: Vec<&str> = seen.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["answered", "asked_by", "description", "gate", "id", "open", "questions", "title"]);
    assert!(!seen.to_string().contains("secret plan") && !seen.to_string().contains(&scene.session));
    let session = &scene.session;
    for path in ["", "/events", "/state", "/stream"] {
        stranger.get(&format!("/api/sessions/{session}{path}")).await.refused(404, "not_found");
    }
    for path in ["/api/views", &format!("/api/views/{}/answers", scene.id), "/api/entities"] {
        stranger.get(path).await.refused(403, "denied");
    }
    stranger
        .patch(&format!("/api/views/{}", scene.id), json!({"title": "Mine"}))
        .await
        .refused(403, "denied");
    let other = publish(&scene.worker, session, scene.epoch, form("none")).await.id();
    for id in [other.as_str(), "nothing"] {
        let missing = stranger.get(&format!("/api/views/{id}")).await.refused(404, "not_found");
        let said = format!("there is no view `{id}`, or it is not yours to see");
        assert_eq!(missing.body["error"]["message"], said);
        let path = format!("/api/views/{id}/submit-interaction");
        stranger.post(&path, json!({"values": {"colour": "red"}})).await.refused(404, "not_found");
    }
    server.anyone().get(&format!("/api/views/{}", scene.id)).await.refused(401, "unauthenticated");
    let forged = server.anyone().with("x-share-token", &"A".repeat(43));
    scene.submit(&forged, "red").await.refused(401, "unauthenticated");
    // A link for reading the session answers nothing; one for submitting answers its views.
    for (access, status) in [("read", 404), ("submit", 200)] {
        let wish = json!({"access": access, "expires_in": 60});
        let share = scene.owner.post(&format!("/api/sessions/{session}/share"), wish).await.expect(201).body;
        let holder = server.anyone().with("x-share-token", share["token"].as_str().unwrap());
        scene.submit(&holder, "red").await.expect(status);
    }
}

async fn a_stranger_is_known_again_by_its_cookie(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let first = scene.stranger(&server).get(&format!("/api/views/{}", scene.id)).await.expect(200);
    let cookie = cookie(&first);
    assert!(cookie.starts_with(&cookie_name(&scene.id)), "{cookie}");
    let known = scene.stranger(&server).with("cookie", &format!("other=1; {cookie}"));
    let taken = scene.submit(&known, "green").await.expect(200);
    assert!(!taken.headers.contains_key("set-cookie"));
    assert_eq!(scene.submit(&known, "green").await.expect(200).body["repeated"], true);
    scene.submit(&known, "red").await.refused(409, "already_answered");
    let seen = known.get(&format!("/api/views/{}", scene.id)).await.expect(200).body;
    assert_eq!(seen["answered"], true);
    // One that was tampered with proves nothing: whoever sends it is nobody yet.
    let forged = format!("{}0", &cookie[..cookie.len() - 1]);
    let forged = if forged == cookie { format!("{}1", &cookie[..cookie.len() - 1]) } else { forged };
    let taken = scene.submit(&scene.stranger(&server).with("cookie", &forged), "red").await.expect(200);
    assert!(taken.headers.contains_key("set-cookie"));
}

async fn a_lead_says_who_it_is_first(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "lead").await;
    let stranger = scene.stranger(&server);
    let seen = stranger.get(&format!("/api/views/{}", scene.id)).await.expect(200);
    assert_eq!((&seen.body["questions"], &seen.body["title"]), (&Value::Null, &json!("Which colour?")));
    assert!(!seen.headers.contains_key("set-cookie"));
    let refused = scene.submit(&stranger, "green").await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "lead");
    let lead = format!("/api/views/{}/lead", scene.id);
    for (body, field) in [
        (json!({"name": "Ada"}), "email"),
        (json!({"name": "", "email": "a@x.org"}), "lead.name"),
        (json!({"name": "Ada", "email": "nobody"}), "lead.email"),
        (json!({"name": "Ada", "email": "a@x.org", "phone": 1}), "phone"),
    ] {
        let refused = stranger.post(&lead, body).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field);
    }
    let cleared = stranger.post(&lead, json!({"name": "Ada", "email": "Ada@x.org"})).await.expect(200);
    assert_eq!(cleared.body["questions"][0]["key"], "colour");
    let known = stranger.clone().with("cookie", &cookie(&cleared));
    scene.submit(&known, "green").await.expect(200);
    scene.submit(&known, "red").await.refused(409, "already_answered");
    let both = json!({"values": {"colour": "red"}, "lead": {"name": "Bob", "email": "bob@x.org"}});
    stranger.post(&scene.submit_path(), both).await.expect(200);
    let leads = scene.owner.get("/api/entities?type_slug=lead").await.expect(200).body;
    let titles: Vec<&str> =
        leads["items"].as_array().unwrap().iter().map(|lead| lead["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Bob", "Ada"]);
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"][0]["respondent"], json!({"kind": "lead", "id": leads["items"][1]["id"]}));
    // A lead's cookie of one view says nothing to another.
    let other = publish(&scene.worker, &scene.session, scene.epoch, form("lead")).await;
    let url = other.body["url"].as_str().unwrap().to_owned();
    let value = cookie(&cleared).split_once('=').unwrap().1.to_owned();
    let carried = format!("{}={value}", cookie_name(&other.id()));
    let elsewhere = server.anyone().with("x-share-token", url.split_once("?share=").unwrap().1);
    let seen =
        elsewhere.with("cookie", &carried).get(&format!("/api/views/{}", other.id())).await.expect(200);
    assert_eq!(seen.body["questions"], Value::Null);
}

async fn naming_somebody_does_not_tell_whether_they_have_answered(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "lead").await;
    let (path, lead) = (format!("/api/views/{}", scene.id), format!("/api/views/{}/lead", scene.id));
    let stranger = scene.stranger(&server);
    let ann = json!({"name": "Ann", "email": "ann@x.org"});
    let cleared = stranger.post(&lead, ann.clone()).await.expect(200);
    let herself = stranger.clone().with("cookie", &cookie(&cleared));
    let taken = scene.submit(&herself, "green").await.expect(200);
    let answered = stranger.clone().with("cookie", &cookie(&taken));
    assert_eq!(answered.get(&path).await.expect(200).body["answered"], true, "her browser knows");
    for name in [ann, json!({"name": "Bob", "email": "bob@x.org"})] {
        let claimed = stranger.post(&lead, name.clone()).await.expect(200);
        assert_eq!(claimed.body["answered"], false, "{name}");
        let claims = stranger.clone().with("cookie", &cookie(&claimed));
        assert_eq!(claims.get(&path).await.expect(200).body["answered"], false, "{name}");
    }
}

async fn leads_through_one_link_are_bounded(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = sederunt_server::Auth::Keys;
        config.rates.leads_per_link = Some((1.try_into().unwrap(), 2.try_into().unwrap()));
    })
    .await;
    let scene = Scene::open(&server, "lead").await;
    let stranger = scene.stranger(&server);
    let lead = |n: usize| json!({"name": "Ann", "email": format!("ann{n}@x.org")});
    let path = format!("/api/views/{}/lead", scene.id);
    stranger.post(&path, lead(1)).await.expect(200);
    stranger.post(&path, lead(2)).await.expect(200);
    stranger.post(&path, lead(3)).await.refused(429, "rate_limited");
    let with_answer = json!({"values": {"colour": "red"}, "lead": lead(4)});
    stranger.post(&scene.submit_path(), with_answer).await.refused(429, "rate_limited");
}

async fn members_answer_what_is_for_members(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "member").await;
    assert!(!scene.url.contains("share"), "members need no token: {}", scene.url);
    let ada = server.key(Role::Member, "ada").await;
    let seen = ada.get(&format!("/api/views/{}", scene.id)).await.expect(200).body;
    assert_eq!((&seen["answered"], seen.get("session_id")), (&json!(false), None));
    scene.submit(&ada, "green").await.expect(200);
    scene.submit(&ada, "red").await.refused(409, "already_answered");
    let olga = server.key(Role::Owner, "olga").await;
    let page = async |who: &Caller<'_>| who.get(&format!("/views/{}", scene.id)).await.expect(200).text;
    assert!(page(&ada).await.contains("Thank you"));
    assert!(page(&olga).await.contains("<form"), "she has not answered yet");
    scene.submit(&olga, "red").await.expect(200);
    let answered = page(&olga).await;
    assert!(answered.contains("Thank you") && !answered.contains("<form"), "{answered}");
    scene.submit(&server.key(Role::Guest, "gus").await, "red").await.refused(404, "not_found");
    scene.submit(&scene.worker, "red").await.refused(404, "not_found");
    ada.get(&format!("/api/views/{}/answers", scene.id)).await.refused(404, "not_found");
    ada.post("/api/views", form("none")).await.refused(403, "denied");
    let wish = json!({"access": "submit", "expires_in": 60});
    let path = format!("/api/sessions/{}/share", scene.session);
    let share = scene.owner.post(&path, wish).await.expect(201).body;
    let holder = server.anyone().with("x-share-token", share["token"].as_str().unwrap());
    scene.submit(&holder, "red").await.refused(403, "denied");
}

async fn a_personal_link_answers_one_view_as_one_member(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "member").await;
    for (id, role) in [("ada", "member"), ("gus", "guest"), ("bob", "member")] {
        scene.owner.post("/api/users", json!({"id": id, "role": role})).await.expect(201);
    }
    let path = format!("/api/views/{}/share", scene.id);
    let ada = server.key(Role::Member, "ada").await;
    ada.post(&path, json!({"user_id": "ada"})).await.refused(403, "denied");
    for (wish, field) in [
        (json!({"user_id": "nobody"}), "user_id"),
        (json!({"user_id": "gus"}), "user_id"),
        (json!({"user_id": "ada", "expires_in": 0}), "expires_in"),
        (json!({"user_id": "ada", "expires_in": 31_536_001}), "expires_in"),
    ] {
        let refused = scene.owner.post(&path, wish).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field);
    }
    let unpublished = scene.owner.post("/api/views", form("member")).await.expect(201).id();
    let wish = json!({"user_id": "ada"});
    scene.owner.post(&format!("/api/views/{unpublished}/share"), wish.clone()).await.refused(422, "invalid");

    let link = scene.owner.post(&path, wish).await.expect(201).body;
    let url = link["url"].as_str().unwrap();
    assert!(url.contains(&format!("/views/{}?share=", scene.id)), "{url}");
    let browser = server.anyone().with("x-share-token", link["token"].as_str().unwrap());
    assert!(browser.get(&format!("/views/{}", scene.id)).await.expect(200).text.contains("<form"));
    // Nothing else opens: not the session, not its log, not another view.
    browser.get(&format!("/api/sessions/{}", scene.session)).await.refused(404, "not_found");
    browser.get(&format!("/api/sessions/{}/events", scene.session)).await.refused(404, "not_found");
    browser.get(&format!("/api/views/{unpublished}")).await.refused(404, "not_found");
    browser.get("/api/sessions").await.refused(403, "denied");
    scene.submit(&browser, "green").await.expect(200);
    scene.submit(&ada, "red").await.refused(409, "already_answered");
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"][0]["respondent"], json!({"kind": "user", "id": "ada"}));

    // It ends with its user, and when it is revoked.
    let made = async |user: &str| {
        let link = scene.owner.post(&path, json!({"user_id": user})).await.expect(201).body;
        (link["id"].as_str().unwrap().to_owned(), link["token"].as_str().unwrap().to_owned())
    };
    let (bobs, token) = made("bob").await;
    let bob = server.anyone().with("x-share-token", &token);
    scene.owner.delete(&format!("/api/shares/{bobs}")).await.expect(204);
    scene.submit(&bob, "red").await.refused(401, "unauthenticated");
    let (_, token) = made("bob").await;
    scene.owner.patch("/api/users/bob", json!({"suspended": true})).await.expect(200);
    let bob = server.anyone().with("x-share-token", &token);
    scene.submit(&bob, "red").await.refused(401, "unauthenticated");
}

async fn what_does_not_fit_is_refused_with_its_path(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let stranger = scene.stranger(&server);
    for (body, field) in [
        (json!({}), "values"),
        (json!({"values": []}), "values"),
        (json!({"values": {}}), "values.colour"),
        (json!({"values": {"colour": "blue"}}), "values.colour"),
        (json!({"values": {"colour": "red", "why": 5}}), "values.why"),
        (json!({"values": {"colour": "red", "how": "so"}}), "values.how"),
        (json!({"values": {"colour": "red"}, "more": 1}), "more"),
    ] {
        let refused = stranger.post(&scene.submit_path(), body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{body}");
    }
    let long = "x".repeat(limits::ANSWER_BYTES_MAX);
    let body = json!({"values": {"colour": "red", "why": long}});
    stranger.post(&scene.submit_path(), body).await.refused(413, "too_large");
    let form_body = stranger.clone().with("content-type", "application/x-www-form-urlencoded");
    form_body.post(&scene.submit_path(), json!({})).await.refused(415, "invalid");
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"], json!([]), "nothing was kept");
    let worker = &scene.worker;
    let mut fenced = form("none");
    fenced["session_id"] = scene.session.clone().into();
    fenced["epoch"] = (scene.epoch + 1).into();
    worker.post("/api/views", fenced).await.refused(409, "fenced");
    let nowhere = json!({"epoch": scene.epoch, "kind": "human", "question": {"view_id": "nothing"}});
    let path = format!("/api/sessions/{}/yield", scene.session);
    let refused = worker.post(&path, nowhere).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "question.view_id");
}

async fn a_repeat_under_a_key_has_one_effect(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let keyed = scene.worker.clone().with("idempotency-key", "publish-1");
    let first = publish(&keyed, &scene.session, scene.epoch, form("none")).await.body;
    let again = publish(&keyed, &scene.session, scene.epoch, form("none")).await.body;
    assert_eq!(first, again);
    let mut other = form("lead");
    other["session_id"] = scene.session.clone().into();
    other["epoch"] = scene.epoch.into();
    keyed.post("/api/views", other).await.refused(422, "idempotency_mismatch");
    let opened = scene.stranger(&server).get(&format!("/api/views/{}", scene.id)).await.expect(200);
    let stranger =
        scene.stranger(&server).with("cookie", &cookie(&opened)).with("idempotency-key", "submit-1");
    for _ in 0..2 {
        let told = scene.submit(&stranger, "green").await.expect(200).body;
        assert_eq!(told["repeated"], false, "the first answer again");
    }
    scene.submit(&stranger, "red").await.refused(422, "idempotency_mismatch");
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"].as_array().map(Vec::len), Some(1));
}

async fn strangers_who_share_a_link_share_no_idempotency_key(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let stranger = || scene.stranger(&server).with("idempotency-key", "1");
    // The same key and the same answer, from the same address: without a cookie these are two strangers.
    let first = scene.submit(&stranger(), "green").await.expect(200);
    let second = scene.submit(&stranger(), "green").await.expect(200);
    for taken in [&first, &second] {
        assert_eq!(taken.body["repeated"], false);
    }
    assert_ne!(cookie(&first), cookie(&second));
    let forged = format!("{}=cookie.YQ.9999999999.00", cookie_name(&scene.id));
    for _ in 0..2 {
        let taken = scene.submit(&stranger().with("cookie", &forged), "green").await.expect(200);
        assert_eq!(taken.body["repeated"], false, "a forged cookie counts as none");
    }
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"].as_array().unwrap().len(), 4);
    // Whoever has a cookie is known by it, whatever key the request has.
    let known = stranger().with("cookie", &cookie(&first));
    assert_eq!(scene.submit(&known, "green").await.expect(200).body["repeated"], true);
    scene.submit(&known, "red").await.refused(409, "already_answered");
    let too = stranger().with("cookie", &cookie(&second));
    assert_eq!(scene.submit(&too, "green").await.expect(200).body["repeated"], true);
}

async fn the_token_of_a_link_stands_nowhere_in_the_store(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let view = scene.owner.get(&format!("/api/views/{}", scene.id)).await.expect(200).body;
    let (link, token) = (view["url"].as_str().unwrap(), scene.token());
    assert!(link.ends_with(&format!("?share={token}")));
    // A worker that does not know better stages the whole link.
    let question =
        json!({"text": "Which colour?", "view_id": scene.id, "url": link, "note": format!("use {token}")});
    let path = format!("/api/sessions/{}/yield", scene.session);
    let wish = json!({"epoch": scene.epoch, "kind": "human", "question": question});
    scene.worker.post(&path, wish).await.expect(200);
    let inbox = scene.owner.get("/api/approvals").await.expect(200).body;
    assert_eq!(inbox["items"][0]["staged"]["url"], link, "whoever may decide sees the whole link");
    let id = inbox["items"][0]["id"].as_str().unwrap();
    let one = scene.owner.get(&format!("/api/approvals/{id}")).await.expect(200).body;
    assert_eq!(one["staged"]["url"], link);
    assert!(!server.keeps_text(token).await, "the token stands in the store");
    assert!(server.keeps_text(&scene.id).await, "the search finds what is kept");
    scene.submit(&scene.stranger(&server), "green").await.expect(200);
}

async fn a_view_is_carried_by_a_bundle_unless_a_session_has_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let mut draft = form("lead");
    draft["id"] = "draft".into();
    draft["publish_config"]["expires_at"] = "2030-01-02T03:04:05.000000Z".into();
    let made = scene.owner.post("/api/views", draft).await.expect(201).body;
    assert_eq!((&made["url"], &made["session_id"]), (&Value::Null, &Value::Null));
    let bundle = scene.owner.get("/api/bundle").await.expect(200).body;
    assert_eq!(bundle["views"].as_array().unwrap().len(), 1, "{bundle}");
    for field in ["title", "description", "questions", "publish_config"] {
        assert_eq!(bundle["views"][0][field], made[field], "{field}");
    }
    let carried = json!({"views": bundle["views"]});
    let changed = scene.owner.patch("/api/views/draft", json!({"title": "Changed"})).await.expect(200).body;
    assert_eq!((&changed["title"], &changed["version"]), (&json!("Changed"), &json!(2)));
    scene.owner.post("/api/bundle", carried).await.expect(200);
    let back = scene.owner.get("/api/views/draft").await.expect(200).body;
    assert_eq!(back["title"], "Which colour?");
    let mut taken = form("none");
    taken["id"] = scene.id.clone().into();
    scene.owner.post("/api/bundle", json!({"views": [taken]})).await.refused(422, "invalid");
    let list = scene.owner.get("/api/views").await.expect(200).body;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    scene
        .owner
        .post(&format!("/api/views/{}/submit-interaction", "draft"), json!({"values": {"colour": "red"}}))
        .await
        .refused(409, "view_closed");
}

async fn a_published_view_keeps_its_questions_and_can_be_closed(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let path = format!("/api/views/{}", scene.id);
    for (patch, field) in [
        (json!({"questions": [{"key": "a", "label": "A"}]}), "questions"),
        (json!({"session_id": null}), "session_id"),
        (json!({"session_id": "other"}), "session_id"),
    ] {
        let refused = scene.owner.patch(&path, patch).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field);
    }
    let past = json!({"publish_config": {"gate": "none", "expires_at": "2020-01-01T00:00:00Z"}});
    scene.owner.patch(&path, past).await.expect(200);
    let stranger = scene.stranger(&server);
    assert_eq!(stranger.get(&path).await.expect(200).body["open"], false);
    scene.submit(&stranger, "red").await.refused(409, "view_closed");
    scene.owner.patch(&path, json!({"publish_config": {"gate": "none"}})).await.expect(200);
    scene.submit(&stranger, "red").await.expect(200);
    server.clock.advance(limits::VIEW_LINK_LIFE + Duration::from_secs(1));
    let late = server.anyone().with("x-share-token", scene.token()).with("x-request-id", "late");
    // A proof is believed for a few seconds, by the clock of this machine and not by the store's.
    let refused = tokio::time::timeout(Duration::from_secs(20), async {
        while scene.submit(&late, "green").await.status != 401 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(refused.is_ok(), "an expired link opens nothing");
}

async fn answers_are_counted_on_their_own(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = sederunt_server::Auth::Keys;
        config.rates.forms_per_respondent = Rate::new(1, 2);
    })
    .await;
    let scene = Scene::open(&server, "none").await;
    let seen = scene.stranger(&server).get(&format!("/api/views/{}", scene.id)).await.expect(200);
    let stranger = scene.stranger(&server).with("cookie", &cookie(&seen));
    scene.submit(&stranger, "green").await.expect(200);
    scene.submit(&stranger, "green").await.expect(200);
    let refused = scene.submit(&stranger, "green").await.refused(429, "rate_limited");
    assert!(refused.headers.contains_key("retry-after"));
    stranger.get(&format!("/api/views/{}", scene.id)).await.expect(200);
    scene.submit(&scene.owner, "green").await.expect(200);
    scene.submit(&scene.stranger(&server), "green").await.expect(200);
}

async fn fifty_people_behind_one_address_fill_in_a_form_at_once(store_kind: StoreKind) {
    const PEOPLE: usize = 50;
    /// What each of them asks between opening the form and sending it.
    const CALLS: usize = 10;
    for gate in ["none", "lead"] {
        let server = TestServer::open(store_kind, |config| {
            config.auth = sederunt_server::Auth::Keys;
            config.rates = Rates::default();
        })
        .await;
        let scene = Scene::open(&server, gate).await;
        let path = format!("/api/views/{}", scene.id);
        let person = async |n: usize| {
            let stranger = scene.stranger(&server);
            let opened = match gate {
                "lead" => {
                    let lead = json!({"name": "Ann", "email": format!("ann{n}@x.org")});
                    stranger.post(&format!("{path}/lead"), lead).await.expect(200)
                }
                _ => stranger.get(&path).await.expect(200),
            };
            let known = stranger.with("cookie", &cookie(&opened));
            for _ in 0..CALLS {
                known.get(&path).await.expect(200);
            }
            scene.submit(&known, "green").await.expect(200);
        };
        futures_util::future::join_all((0..PEOPLE).map(person)).await;
        let answers = scene.owner.get(&format!("{path}/answers?limit=100")).await.expect(200).body;
        assert_eq!(answers["items"].as_array().unwrap().len(), PEOPLE);
    }
}

async fn new_respondents_from_one_address_are_bounded(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = sederunt_server::Auth::Keys;
        config.trusted_proxies = TrustedProxies(vec!["127.0.0.0/8".parse().unwrap()]);
        config.rates.new_respondents_per_peer = 2.try_into().ok();
    })
    .await;
    let scene = Scene::open(&server, "none").await;
    let (path, page) = (format!("/api/views/{}", scene.id), format!("/views/{}", scene.id));
    let from = |address: &str| scene.stranger(&server).with("x-forwarded-for", address);
    let first = from("192.0.2.1").get(&page).await.expect(200);
    from("192.0.2.1").get(&path).await.expect(200);
    for refused in [
        from("192.0.2.1").get(&path).await,
        from("192.0.2.1").get(&page).await,
        scene.submit(&from("192.0.2.1"), "green").await,
    ] {
        assert_eq!(refused.status, 429, "{}", refused.text);
        assert!(refused.headers.contains_key("retry-after") && !refused.headers.contains_key("set-cookie"));
    }
    let known = from("192.0.2.1").with("cookie", &cookie(&first));
    known.get(&page).await.expect(200);
    scene.submit(&known, "green").await.expect(200);
    from("192.0.2.2").get(&page).await.expect(200);
    // At the gate that asks for a name, those become respondents who give theirs.
    let scene = Scene::open(&server, "lead").await;
    let page = format!("/views/{}", scene.id);
    let from = |address: &str| scene.stranger(&server).with("x-forwarded-for", address);
    for n in 0..4 {
        from("192.0.2.3").get(&page).await.expect(200);
        let lead = json!({"name": "Ann", "email": format!("ann{n}@x.org")});
        let status = if n < 2 { 200 } else { 429 };
        from("192.0.2.3").post(&format!("/api/views/{}/lead", scene.id), lead).await.expect(status);
    }
}

async fn the_page_is_for_people_and_loads_nothing_from_elsewhere(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let path = scene.url.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let page = server.anyone().get(path).await.expect(200);
    assert!(page.text.contains("Which colour?") && page.text.contains("&lt;b&gt;Red"), "{}", page.text);
    assert!(!page.text.contains("secret plan"));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.headers["referrer-policy"], "same-origin", "no other server sees the token");
    let known = server.anyone().with("cookie", &cookie(&page));
    scene.submit(&known.clone().with("x-share-token", scene.token()), "green").await.expect(200);
    assert!(known.get(path).await.expect(200).text.contains("Thank you"));
    for (asset, kind) in [("view-form.js", "text/javascript"), ("view-form.css", "text/css")] {
        let answer = server.anyone().get(&format!("/assets/{asset}")).await.expect(200);
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with(kind));
    }
    let refused =
        server.anyone().get(&format!("/views/{}?share={}", scene.id, "A".repeat(43))).await.expect(401);
    assert!(refused.text.contains("unknown, expired or revoked"), "{}", refused.text);
    assert!(refused.headers["content-type"].to_str().unwrap().starts_with("text/html"));
}

async fn a_form_is_sent_without_a_script(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let plain = |cookie: &str| {
        let browser = server.anyone().with("content-type", "application/x-www-form-urlencoded");
        browser.with("cookie", cookie).with("origin", &format!("http://{}", server.address))
    };
    let scene = Scene::open(&server, "none").await;
    let path = scene.url.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let known = cookie(&server.anyone().get(path).await.expect(200));
    let refused = plain(&known).post_text(path, "colour=blue&why=so+%3Cb%3E").await.expect(422).text;
    for part in ["“Colour” must be one of the options", "so &lt;b&gt;</textarea>", "<form method=\"post\""]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    plain(&known).post_text(path, "colour=red&how=so").await.expect(422);
    plain(&known).post_text(path, "colour=%ff").await.expect(422);
    server.anyone().with("cookie", &known).post_text(path, "{}").await.expect(415);
    let taken = plain(&known).post_text(path, "colour=red&why=so%0D%0Ait+is").await.expect(303);
    assert_eq!(taken.headers["location"], format!("{}?share={}", scene.id, scene.token()));
    let thanks = server.anyone().with("cookie", &known).get(path).await.expect(200).text;
    assert!(thanks.contains("Thank you"), "{thanks}");
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"].as_array().unwrap().len(), 1);
    assert_eq!(answers["items"][0]["values"], json!({"colour": "red", "why": "so\nit is"}));
    // Another answer of the same respondent: the page says why not.
    let other = plain(&known).post_text(path, "colour=green").await.expect(409);
    assert!(other.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{}", other.text);
    // Who is asked for a name first is shown the questions after it.
    let scene = Scene::open(&server, "lead").await;
    let path = scene.url.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let refused = plain("a=b").post_text(path, "name=Ann&email=nobody").await.expect(422).text;
    assert!(refused.contains("value=\"Ann\"") && refused.contains("value=\"nobody\""), "{refused}");
    let cleared = plain("a=b").post_text(path, "name=Ann&email=ann%40x.org").await.expect(303);
    let known = cookie(&cleared);
    let page = server.anyone().with("cookie", &known).get(path).await.expect(200).text;
    assert!(page.contains("name=\"colour\""), "{page}");
    let taken = plain(&known).post_text(path, "colour=green").await.expect(303);
    let thanks = server.anyone().with("cookie", &cookie(&taken)).get(path).await.expect(200).text;
    assert!(thanks.contains("Thank you"), "{thanks}");
}

async fn only_origins_that_a_view_names_may_show_it_and_only_with_tls(store_kind: StoreKind) {
    let origins = json!(["https://a.example", "https://b.example:8443"]);
    let form = json!({"id": "framed", "title": "T", "questions": [{"key": "a", "label": "A"}],
        "response": {"embed_origins": origins}});
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "olga").await;
    let plain = json!({"title": "T", "questions": form["questions"], "response": {}});
    let path = format!("/api/views/{}", owner.post("/api/views", plain.clone()).await.expect(201).id());
    for (refused, field) in [
        (owner.post("/api/views", form.clone()).await, "response.embed_origins"),
        (owner.patch(&path, json!({"response": form["response"]})).await, "response.embed_origins"),
        (owner.post("/api/bundle", json!({"views": [form]})).await, "views.response.embed_origins"),
    ] {
        let refused = refused.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field);
    }
    owner.patch(&path, json!({"response": {"embed_origins": []}})).await.expect(200);
    let server = TestServer::open(store_kind, |config| {
        config.auth = sederunt_server::Auth::Keys;
        config.public_url = Some("https://forms.example".to_owned());
    })
    .await;
    let owner = server.key(Role::Owner, "olga").await;
    let hidden = owner.post("/api/views", plain).await.expect(201).id();
    let framed = owner.post("/api/views", form).await.expect(201).id();
    for (id, ancestors) in [
        (hidden, "frame-ancestors 'none'"),
        (framed, "frame-ancestors https://a.example https://b.example:8443"),
    ] {
        let page = owner.get(&format!("/views/{id}")).await.expect(200);
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.ends_with(ancestors), "{policy}");
        assert!(!page.headers.contains_key("x-frame-options"));
    }
}

async fn pages_of_other_sites_answer_nothing_through_a_link(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let page = format!("/views/{}", scene.id);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        let foreign = scene.stranger(&server).with("origin", origin);
        let refused = scene.submit(&foreign, "green").await.refused(403, "denied");
        assert!(!refused.headers.keys().any(|name| name.as_str().starts_with("access-control-")));
        foreign.get(&format!("/api/views/{}", scene.id)).await.refused(403, "denied");
        let plain = foreign.clone().with("content-type", "application/x-www-form-urlencoded");
        plain.post_text(&page, "colour=green").await.expect(403);
    }
    let answers = scene.owner.get(&format!("/api/views/{}/answers", scene.id)).await.expect(200).body;
    assert_eq!(answers["items"], json!([]));
    let own = scene.stranger(&server).with("origin", &format!("http://{}", server.address));
    let taken = scene.submit(&own, "green").await.expect(200);
    assert!(!taken.headers.keys().any(|name| name.as_str().starts_with("access-control-")));
}

async fn whoever_answers_is_told_who_asks_and_no_more_of_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let operator = server.operator();
    operator.post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    // Where, who does it, and what the page says of that.
    for (tenant, doer, says) in [
        ("acme", json!({"agent_slug": "scribe"}), Some("Asked by Scribe &lt;i&gt;Ltd&lt;/i&gt; for acme.")),
        ("default", json!({"agent_slug": "scribe"}), Some("Asked by Scribe &lt;i&gt;Ltd&lt;/i&gt;.")),
        ("default", json!({"agent_slug": "external"}), Some("Asked by Yearly survey.")),
    ] {
        let key = json!({"role": "owner", "user": "olga"});
        let made = operator.post(&format!("/api/tenants/{tenant}/keys"), key).await.expect(201).body;
        let owner = server.bearer(made["key"].as_str().unwrap());
        let agent = json!({"slug": "scribe", "name": "Scribe <i>Ltd</i>", "instructions": "confidential ways",
            "model": "external"});
        owner.post("/api/agents", agent).await;
        let mut task =
            json!({"slug": doer["agent_slug"], "name": "Yearly survey", "description": "confidential why"});
        task["agent_slug"] = doer["agent_slug"].clone();
        owner.post("/api/tasks", task).await.expect(201);
        for gate in ["none", "lead", "member"] {
            let trigger = format!("/api/tasks/{}/trigger", doer["agent_slug"].as_str().unwrap());
            let session = owner.post(&trigger, json!({"input": {"secret": "confidential input"}})).await;
            let session = session.expect(201).id();
            let claims = owner.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
            let epoch = claims["claims"][0]["epoch"].as_u64().unwrap();
            assert_eq!(claims["claims"][0]["session"]["id"], session);
            let view = publish(&owner, &session, epoch, form(gate)).await;
            let url = view.body["url"].as_str().unwrap();
            let who = match gate {
                "member" => owner.clone(),
                _ => server.anyone().with("x-share-token", url.split_once("?share=").unwrap().1),
            };
            let page = who.get(&format!("/views/{}", view.id())).await.expect(200).text;
            match says {
                Some(says) => assert!(page.contains(says), "{gate}: {page}"),
                None => assert!(!page.contains("Asked by"), "{gate}: {page}"),
            }
            assert!(!page.contains("confidential") && !page.contains("<i>"), "{page}");
            if gate != "member" {
                let asked = who.get(&format!("/api/views/{}", view.id())).await.expect(200).body;
                let tenant = if tenant == "acme" { json!("acme") } else { json!(null) };
                assert_eq!(asked["asked_by"]["tenant"], tenant);
                assert!(!asked.to_string().contains("confidential"), "{asked}");
            }
        }
    }
    let scene = Scene::open(&server, "none").await;
    let page = scene.stranger(&server).get(&format!("/views/{}", scene.id)).await.expect(200).text;
    assert!(!page.contains("Asked by"), "nobody is named where nobody has a name: {page}");
}
