//! Strangers who answer through a link: what proves who they are, what they may see of each other, and what is kept
//! of them.

use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::access::Role;
use sederunt_core::limits;
use sederunt_core::view::respondent::cookie_name;
use sederunt_server::{Auth, Rates, TrustedProxies};
use serde_json::{Value, json};

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store, on_store};

on_every_store!(
    a_draft_opens_to_the_link_with_the_cookie_of_its_respondent_and_to_nothing_else,
    a_link_that_has_ended_or_is_anothers_opens_no_response,
    what_does_not_fit_a_draft_is_refused_and_leaves_it_as_it_was,
    strangers_with_the_same_key_have_two_responses,
    members_and_guests_are_who_they_are_with_or_without_a_link,
    fifty_people_behind_one_address_save_and_submit_at_once,
    a_page_resumes_what_a_respondent_has_saved,
    naming_somebody_shows_nothing_of_their_draft,
    a_respondent_is_known_in_the_frames_that_a_view_names,
);
on_store!(anonymous_on_file, File: nothing_of_a_strangers_address_or_browser_is_kept);
on_store!(anonymous_on_postgres, Postgres: nothing_of_a_strangers_address_or_browser_is_kept);

/// A view that takes responses, with a link to it.
struct Scene<'a> {
    server: &'a TestServer,
    owner: Caller<'a>,
    id: String,
    link: Value,
}

impl<'a> Scene<'a> {
    async fn open(server: &'a TestServer, gate: &str) -> Self {
        Self::open_for(server, server.key(Role::Owner, "olga").await, gate, json!({})).await
    }

    async fn open_for(server: &'a TestServer, owner: Caller<'a>, gate: &str, response: Value) -> Self {
        let view = json!({"title": "How was it?", "publish_config": {"gate": gate}, "response": response, "questions": [
            {"key": "name", "label": "Name", "required": true, "max": 50},
            {"key": "stars", "label": "Stars", "type": "scale", "min": 1, "max": 5, "labels": {"1": "bad", "5": "good"}},
            {"key": "again", "label": "Again?", "type": "boolean"},
            {"key": "about", "label": "About", "type": "multi_choice", "options": [{"value": "a"}, {"value": "b"}]}]});
        let id = owner.post("/api/views", view).await.expect(201).id();
        let link = owner.post(&format!("/api/views/{id}/share"), json!({"expires_in": 3600})).await;
        Self { server, link: link.expect(201).body, owner, id }
    }

    /// The bearer of the link.
    fn stranger(&self) -> Caller<'a> {
        self.server.anyone().with("x-share-token", self.link["token"].as_str().unwrap())
    }

    fn responses(&self) -> String {
        format!("/api/views/{}/responses", self.id)
    }

    /// A stranger who has opened a response: the caller with its cookie, the path of the response, and the cookie.
    async fn respondent(&self) -> (Caller<'a>, String, String) {
        let opened = self.stranger().post(&self.responses(), json!({})).await.expect(201);
        let cookie = cookie(&opened);
        (self.stranger().with("cookie", &cookie), format!("/api/responses/{}", opened.id()), cookie)
    }
}

/// The cookie that an answer sets, as it is sent back.
fn cookie(answer: &Answer) -> String {
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// A refusal without what differs in every request.
fn told(refused: &Answer) -> Value {
    let mut body = refused.body.clone();
    body["error"]["request_id"].take();
    body
}

/// Every call on a response.
async fn all_calls(caller: &Caller<'_>, response: &str) -> Vec<Answer> {
    vec![
        caller.get(response).await,
        caller.patch(response, json!({"values": {"name": "Mallory"}})).await,
        caller.post(&format!("{response}/submit"), json!({"values": {"name": "Mallory"}})).await,
        caller.post(&format!("{response}/abandon"), json!({})).await,
    ]
}

async fn a_draft_opens_to_the_link_with_the_cookie_of_its_respondent_and_to_nothing_else(
    store_kind: StoreKind,
) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let other_view = Scene::open_for(&server, scene.owner.clone(), "none", json!({})).await;
    let (ann, draft, her_cookie) = scene.respondent().await;
    ann.patch(&draft, json!({"values": {"name": "Ann"}})).await.expect(200);
    let (bob, ..) = scene.respondent().await;
    let (carl, _, his_cookie) = other_view.respondent().await;
    let (_, sealed) = his_cookie.split_once('=').unwrap();
    let of_another_view = format!("{}={sealed}", cookie_name(&scene.id));
    let forged = format!("{her_cookie}0");
    let missing = all_calls(&ann, "/api/responses/nothing").await;
    for (who, caller) in [
        ("the link alone", scene.stranger()),
        ("another respondent", bob),
        ("the link and the cookie of another view", carl),
        ("this link with the cookie of another view", scene.stranger().with("cookie", &of_another_view)),
        ("a forged cookie", scene.stranger().with("cookie", &forged)),
        ("a member", server.key(Role::Member, "mia").await),
        ("a guest", server.key(Role::Guest, "gus").await),
    ] {
        for (refused, missing) in all_calls(&caller, &draft).await.iter().zip(&missing) {
            assert_eq!(refused.status, 404, "{who}: {}", refused.text);
            let missing = told(missing).to_string().replace("nothing", draft.rsplit('/').next().unwrap());
            assert_eq!(told(refused).to_string(), missing, "{who}");
        }
    }
    // The cookie without the link proves nothing.
    for refused in all_calls(&server.anyone().with("cookie", &her_cookie), &draft).await {
        refused.refused(401, "unauthenticated");
    }
    let mine = ann.get(&draft).await.expect(200).body;
    assert_eq!((&mine["values"], &mine["status"]), (&json!({"name": "Ann"}), &json!("draft")));
}

async fn a_link_that_has_ended_or_is_anothers_opens_no_response(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    server.operator().post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    let key =
        server.operator().post("/api/tenants/acme/keys", json!({"role": "owner", "user": "otto"})).await;
    let their_owner = server.bearer(key.expect(201).body["key"].as_str().unwrap());
    let theirs = Scene::open_for(&server, their_owner, "none", json!({})).await;
    let (ann, draft, same_cookie) = scene.respondent().await;
    ann.patch(&draft, json!({"values": {"name": "Ann"}})).await.expect(200);
    let elsewhere = theirs.stranger().with("cookie", &same_cookie);
    for refused in all_calls(&elsewhere, &draft).await {
        refused.refused(404, "not_found");
    }
    elsewhere.post(&scene.responses(), json!({})).await.refused(404, "not_found");
    elsewhere.get(&format!("/views/{}", scene.id)).await.expect(404);
    scene.owner.delete(&format!("/api/shares/{}", scene.link["id"].as_str().unwrap())).await.expect(204);
    let revoked = async || ann.get(&draft).await.status == 401;
    tokio::time::timeout(limits::REVOCATION_REACHES, async {
        while !revoked().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    let mut bodies: Vec<Value> = all_calls(&ann, &draft).await.iter().map(told).collect();
    bodies.push(told(&ann.post(&scene.responses(), json!({})).await));
    // A link that has expired, and one that never was.
    let link = scene.owner.post(&format!("/api/views/{}/share", scene.id), json!({"expires_in": 60})).await;
    let late = server.anyone().with("x-share-token", link.expect(201).body["token"].as_str().unwrap());
    server.clock.advance(Duration::from_secs(61));
    let forged = server.anyone().with("x-share-token", &"A".repeat(43));
    for ended in [late, forged] {
        let ended = ended.with("cookie", &same_cookie);
        bodies.extend(all_calls(&ended, &draft).await.iter().map(|refused| {
            assert_eq!(refused.status, 401, "{}", refused.text);
            told(refused)
        }));
    }
    for body in &bodies {
        assert_eq!(body["error"]["code"], "unauthenticated", "{body}");
        assert_eq!(body, &bodies[0], "all of them are told alike");
    }
}

async fn what_does_not_fit_a_draft_is_refused_and_leaves_it_as_it_was(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let (ann, draft, _) = scene.respondent().await;
    let saved = ann.patch(&draft, json!({"values": {"name": "Ann"}})).await.expect(200).body;
    let many: Value =
        (0..10_000).map(|n| (format!("k{n}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let long = json!({"name": "x".repeat(limits::ANSWER_BYTES_MAX)});
    for (values, status, field) in [
        (json!({"other": 1}), 422, "values.other"),
        (json!({"__proto__": {"a": 1}}), 422, "values.__proto__"),
        (json!({"constructor": "x"}), 422, "values.constructor"),
        (json!({"name": 5}), 422, "values.name"),
        (json!({"name": "x".repeat(51)}), 422, "values.name"),
        (json!({"name": {"a": "b"}}), 422, "values.name"),
        (json!({"stars": 6}), 422, "values.stars"),
        (json!({"stars": 1.5}), 422, "values.stars"),
        (json!({"stars": "5"}), 422, "values.stars"),
        (json!({"again": "yes"}), 422, "values.again"),
        (json!({"about": ["c"]}), 422, "values.about"),
        (json!({"about": "a"}), 422, "values.about"),
        (json!([]), 422, "values"),
        (json!("x"), 422, "values"),
        (long, 413, ""),
        (many, 413, ""),
    ] {
        for (path, body) in [
            (draft.clone(), json!({"values": values})),
            (format!("{draft}/submit"), json!({"values": values})),
            (format!("/api/views/{}/submit-interaction", scene.id), json!({"values": values})),
        ] {
            let refused =
                if path == draft { ann.patch(&path, body).await } else { ann.post(&path, body).await };
            assert_eq!(refused.status, status, "{path} {}", refused.text);
            if status == 422 {
                assert_eq!(refused.body["error"]["field"], field, "{path}");
            }
            assert!(refused.text.len() < 1_000, "{path} {}", refused.text);
        }
    }
    assert_eq!(ann.get(&draft).await.expect(200).body, saved, "nothing was written");
}

async fn strangers_with_the_same_key_have_two_responses(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let keyed = || scene.stranger().with("idempotency-key", "k");
    let first = keyed().post(&scene.responses(), json!({})).await.expect(201);
    let second = keyed().post(&scene.responses(), json!({})).await.expect(201);
    assert_ne!(first.id(), second.id());
    assert_ne!(cookie(&first), cookie(&second));
    for (opened, name) in [(&first, "Ann"), (&second, "Bob")] {
        let known = keyed().with("cookie", &cookie(opened));
        let path = format!("/api/responses/{}/submit", opened.id());
        let sent = known.post(&path, json!({"values": {"name": name}})).await.expect(200).body;
        assert_eq!((&sent["values"], &sent["status"]), (&json!({"name": name}), &json!("submitted")));
        known.post(&path, json!({"values": {"name": name}})).await.expect(200);
    }
    // With the cookie a key repeats the first answer, whatever came since; another body under it is refused.
    let known = scene.stranger().with("cookie", &cookie(&first)).with("idempotency-key", "again");
    known.post(&scene.responses(), json!({})).await.refused(409, "already_answered");
    let (ann, draft, _) = scene.respondent().await;
    let ann = ann.with("idempotency-key", "k");
    let opened = ann.post(&scene.responses(), json!({})).await.expect(201);
    assert_eq!(format!("/api/responses/{}", opened.id()), draft);
    let submit = format!("{draft}/submit");
    let sent = ann.post(&submit, json!({"values": {"name": "Ann"}})).await.expect(200).body;
    assert_eq!(sent["repeated"], false);
    assert_eq!(ann.post(&submit, json!({"values": {"name": "Ann"}})).await.expect(200).body, sent);
    ann.post(&submit, json!({"values": {"name": "Eve"}})).await.refused(422, "idempotency_mismatch");
    assert_eq!(ann.post(&scene.responses(), json!({})).await.expect(201).id(), opened.id());
    // Whole answers too; without the cookie they are those of two strangers.
    let whole = format!("/api/views/{}/submit-interaction", scene.id);
    let bea = json!({"values": {"name": "Bea"}});
    let (first, second) = (keyed().post(&whole, bea.clone()).await, keyed().post(&whole, bea.clone()).await);
    assert_ne!(cookie(&first.expect(200)), cookie(&second.expect(200)));
    let (known, ..) = scene.respondent().await;
    let known = known.with("idempotency-key", "k");
    let sent = known.post(&whole, bea.clone()).await.expect(200).body;
    assert_eq!(known.post(&whole, bea.clone()).await.expect(200).body, sent);
    assert_eq!(sent["repeated"], false);
    known.post(&whole, json!({"values": {"name": "Eve"}})).await.refused(422, "idempotency_mismatch");
}

async fn members_and_guests_are_who_they_are_with_or_without_a_link(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let token = scene.link["token"].as_str().unwrap();
    let mia = server.key(Role::Member, "mia").await;
    let opened = mia.post(&scene.responses(), json!({})).await.expect(201);
    assert!(!opened.headers.contains_key("set-cookie"));
    let with_link = mia.clone().with("x-share-token", token).post(&scene.responses(), json!({})).await;
    assert_eq!(with_link.expect(200).id(), opened.id(), "a key counts more than a link");
    assert_eq!(opened.body["respondent"], json!({"kind": "user", "id": "mia"}));
    assert_eq!(opened.body["is_anonymous"], false);
    let gus = server.key(Role::Guest, "gus").await;
    for refused in [
        gus.post(&scene.responses(), json!({})).await,
        gus.with("x-share-token", token).post(&scene.responses(), json!({})).await,
    ] {
        assert!([403, 404].contains(&refused.status.as_u16()), "{}", refused.text);
    }
    // Whoever has the link alone is a stranger, a guest's browser too.
    let stranger = scene.stranger().post(&scene.responses(), json!({})).await.expect(201).body;
    assert_eq!(
        (&stranger["is_anonymous"], &stranger["respondent"]["kind"]),
        (&json!(true), &json!("cookie"))
    );
    scene.stranger().post(&scene.responses(), json!({"entity_id": "e"})).await.refused(422, "invalid");
    scene.stranger().get(&scene.responses()).await.refused(403, "denied");
}

async fn fifty_people_behind_one_address_save_and_submit_at_once(store_kind: StoreKind) {
    const PEOPLE: usize = 50;
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.rates = Rates::default();
    })
    .await;
    let scene = Scene::open(&server, "none").await;
    let person = async |n: usize| {
        let page = scene.stranger().get(&format!("/views/{}", scene.id)).await.expect(200);
        let known = scene.stranger().with("cookie", &cookie(&page));
        let opened = known.post(&scene.responses(), json!({})).await.expect(201);
        let draft = format!("/api/responses/{}", opened.id());
        for part in ["A", "Ann", "Ann N", "Ann No"] {
            known.patch(&draft, json!({"values": {"name": part}})).await.expect(200);
        }
        let values = json!({"name": format!("Ann No {n}")});
        known.post(&format!("{draft}/submit"), json!({"values": values})).await.expect(200);
    };
    join_all((0..PEOPLE).map(person)).await;
    let list =
        scene.owner.get(&format!("{}?status=submitted&limit=100", scene.responses())).await.expect(200);
    assert_eq!(list.body["items"].as_array().unwrap().len(), PEOPLE);
}

async fn a_page_resumes_what_a_respondent_has_saved(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "none").await;
    let page = format!("/views/{}", scene.id);
    let (ann, draft, _) = scene.respondent().await;
    let empty = ann.get(&page).await.expect(200).text;
    assert!(empty.contains("data-kind=\"response\"") && empty.contains("aria-live=\"polite\""), "{empty}");
    assert!(empty.contains("<fieldset class=\"scale\"") && empty.contains("5 – good"), "{empty}");
    let values = json!({"name": "Ann <b>", "stars": 4, "about": ["b"]});
    ann.patch(&draft, json!({"values": values})).await.expect(200);
    let resumed = ann.get(&page).await.expect(200).text;
    for held in ["Ann &lt;b&gt;</textarea>", "value=\"4\" checked", "value=\"b\" checked"] {
        assert!(resumed.contains(held), "{held}: {resumed}");
    }
    for other in [scene.stranger(), scene.respondent().await.0] {
        assert!(!other.get(&page).await.expect(200).text.contains("Ann"), "another stranger's page is empty");
    }
    // Without the script the browser sends the form; what is empty now clears what was saved.
    let plain = ann.clone().with("content-type", "application/x-www-form-urlencoded");
    plain.post_text(&page, "name=&stars=3").await.expect(422);
    plain.post_text(&page, "name=Bea&stars=3").await.expect(303);
    let sent = ann.get(&draft).await.expect(200).body;
    assert_eq!(sent["status"], "submitted");
    assert_eq!((&sent["values"]["name"], &sent["values"]["stars"]), (&json!("Bea"), &json!(3)));
    assert_ne!(sent["values"]["about"], json!(["b"]));
    assert!(ann.get(&page).await.expect(200).text.contains("Thank you"));
    // A closed view says so.
    let closed = json!({"publish_config": {"gate": "none", "expires_at": "2020-01-01T00:00:00Z"}});
    scene.owner.patch(&format!("/api/views/{}", scene.id), closed).await.expect(200);
    assert!(scene.stranger().get(&page).await.expect(200).text.contains("takes no answers any more"));
    scene.stranger().post(&scene.responses(), json!({})).await.refused(409, "view_closed");
}

async fn naming_somebody_shows_nothing_of_their_draft(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let scene = Scene::open(&server, "lead").await;
    let (page, lead) = (format!("/views/{}", scene.id), format!("/api/views/{}/lead", scene.id));
    scene.stranger().post(&scene.responses(), json!({})).await.refused(422, "invalid");
    let ann = json!({"name": "Ann", "email": "ann@x.org"});
    let named = async || {
        let cleared = scene.stranger().post(&lead, ann.clone()).await.expect(200);
        scene.stranger().with("cookie", &cookie(&cleared))
    };
    let opened = named().await.post(&scene.responses(), json!({})).await.expect(201);
    let herself = scene.stranger().with("cookie", &cookie(&opened));
    let draft = format!("/api/responses/{}", opened.id());
    herself.patch(&draft, json!({"values": {"name": "my secret"}})).await.expect(200);
    assert!(herself.get(&page).await.expect(200).text.contains("my secret"), "her browser knows it");
    let mallory = named().await;
    let shown = mallory.get(&page).await.expect(200).text;
    assert!(shown.contains("<form") && !shown.contains("my secret"), "{shown}");
    let refused = mallory.post(&scene.responses(), json!({})).await.refused(409, "already_answered");
    assert!(!refused.headers.contains_key("set-cookie") && !refused.text.contains("my secret"));
    for refused in all_calls(&mallory, &draft).await {
        refused.refused(404, "not_found");
    }
    let submit = format!("/api/views/{}/submit-interaction", scene.id);
    mallory.post(&submit, json!({"values": {"name": "Mallory"}})).await.refused(409, "already_answered");
    assert_eq!(herself.get(&draft).await.expect(200).body["values"], json!({"name": "my secret"}));
}

async fn nothing_of_a_strangers_address_or_browser_is_kept(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.trusted_proxies = TrustedProxies(vec!["127.0.0.0/8".parse().unwrap()]);
    })
    .await;
    let scene = Scene::open(&server, "none").await;
    let traces = ["203.0.113.77", "Unusual/77.7", "sw-KE", "referrer.example"];
    let browser = || {
        let known = scene.stranger().with("x-forwarded-for", traces[0]).with("user-agent", traces[1]);
        known.with("accept-language", traces[2]).with("referer", &format!("https://{}/", traces[3]))
    };
    let page = browser().get(&format!("/views/{}", scene.id)).await.expect(200);
    let known = browser().with("cookie", &cookie(&page)).with("idempotency-key", "k");
    let opened = known.post(&scene.responses(), json!({})).await.expect(201);
    let draft = format!("/api/responses/{}", opened.id());
    known.patch(&draft, json!({"values": {"name": "first words"}})).await.expect(200);
    known.post(&format!("{draft}/submit"), json!({"values": {"name": "last words"}})).await.expect(200);
    let (other, draft) = (browser(), scene.respondent().await.1);
    other.get(&draft).await.refused(404, "not_found");
    assert!(server.keeps_text("last words").await, "the search finds what is kept");
    for trace in traces {
        assert!(!server.keeps_text(trace).await, "{trace} stands in the store");
    }
    let session = scene.owner.get(&format!("/api/sessions/{}", opened.id())).await.expect(200).body;
    assert_eq!(session["user_id"], Value::Null, "{session}");
}

async fn a_respondent_is_known_in_the_frames_that_a_view_names(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.public_url = Some("https://forms.example".to_owned());
    })
    .await;
    let owner = server.key(Role::Owner, "olga").await;
    let origins = json!({"embed_origins": ["https://a.example", "https://b.example:8443"]});
    let framed = Scene::open_for(&server, owner.clone(), "none", origins).await;
    let hidden = Scene::open_for(&server, owner, "none", json!({})).await;
    for (scene, ancestors, attributes) in [
        (
            &framed,
            "frame-ancestors https://a.example https://b.example:8443",
            "SameSite=None; Secure; Partitioned",
        ),
        (&hidden, "frame-ancestors 'none'", "SameSite=Lax; Secure"),
    ] {
        let page = scene.stranger().get(&format!("/views/{}", scene.id)).await.expect(200);
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.ends_with(ancestors), "{policy}");
        assert!(!page.headers.contains_key("x-frame-options"));
        let opened = scene.stranger().post(&scene.responses(), json!({})).await.expect(201);
        let submit = format!("/api/views/{}/submit-interaction", scene.id);
        let sent = scene.stranger().post(&submit, json!({"values": {"name": "Ann"}})).await.expect(200);
        for answer in [&page, &opened, &sent] {
            let set = answer.headers["set-cookie"].to_str().unwrap();
            assert!(set.ends_with(attributes), "{set}");
            assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control-")));
        }
        // An origin that may show the form still calls nothing itself.
        let foreign = scene.stranger().with("origin", "https://a.example");
        foreign.post(&scene.responses(), json!({})).await.refused(403, "denied");
        let own = scene.stranger().with("origin", "https://forms.example");
        own.post(&scene.responses(), json!({})).await.expect(201);
    }
}
