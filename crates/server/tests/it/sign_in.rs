//! /auth and /api/me: signing in from a browser

use std::time::Duration;

use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
use sederunt_api::limits::SIGN_IN_TOKEN_CHARS_MAX;
use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use sederunt_core::limits;
use sederunt_server::{Auth, JwtConfig, Rate};
use serde_json::json;

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    a_key_is_exchanged_for_a_cookie_that_opens_what_the_key_opens,
    a_token_is_exchanged_for_a_cookie_that_ends_with_it,
    a_browser_is_signed_out_with_its_key_within_five_seconds,
    a_browser_is_signed_out_after_silence_and_after_seven_days,
    only_pages_of_this_server_change_anything_with_a_cookie,
    workers_channels_lenders_and_the_operator_do_not_sign_in,
    credentials_that_open_nothing_are_refused_alike_and_counted,
    people_see_and_end_their_own_browsers_alone,
    a_person_has_no_more_browsers_than_the_limit,
    a_caller_is_told_who_it_is,
    what_does_not_fit_a_sign_in_is_refused,
);

const SECRET: &[u8] = b"a secret of thirty-two bytes or so";

fn cookie_of(answer: &Answer) -> String {
    let line = answer.headers["set-cookie"].to_str().unwrap();
    assert!(line.contains("; HttpOnly; SameSite=Strict"), "{line}");
    line.split(';').next().unwrap().to_owned()
}

/// A browser that has signed in, on a page of this server.
async fn browser<'s>(server: &'s TestServer, secret: &str) -> Caller<'s> {
    let answer = server.anyone().post("/auth/session", json!({"key": secret})).await.expect(204);
    server.anyone().with("cookie", &cookie_of(&answer)).with("sec-fetch-site", "same-origin")
}

async fn member_key(server: &TestServer, user: &str) -> (String, String) {
    server.new_key(NewKey { role: Some(Role::Member), user: Some(user.into()), ..NewKey::default() }).await
}

async fn a_key_is_exchanged_for_a_cookie_that_opens_what_the_key_opens(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (secret, _) = member_key(&server, "ada").await;
    let ada = browser(&server, &secret).await;
    let made = ada.post("/api/sessions", json!({"session_type": "mixed"})).await.expect(201).body;
    assert_eq!(made["user_id"], "ada");
    assert_eq!((&made["source"]["kind"], &made["source"]["interactive"]), (&json!("web"), &json!(true)));
    ada.get("/api/keys").await.refused(403, "denied");
    let by_key = server.bearer(&secret);
    by_key.get(&format!("/api/sessions/{}", made["id"].as_str().unwrap())).await.expect(200);
    // A header counts more than the cookie.
    let both = ada.clone().with("authorization", "Bearer sdr_wrong");
    both.get("/api/me").await.refused(401, "unauthenticated");
    let gone = ada.delete("/auth/session").await.expect(204);
    assert!(gone.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    ada.get("/api/me").await.refused(401, "unauthenticated");
    ada.delete("/auth/session").await.expect(204);
    by_key.get("/api/me").await.expect(200);
    for cookie in ["sederunt=wrong", "sederunt=", "other=1"] {
        server.anyone().with("cookie", cookie).get("/api/me").await.refused(401, "unauthenticated");
    }
}

async fn a_token_is_exchanged_for_a_cookie_that_ends_with_it(store_kind: StoreKind) {
    let server =
        TestServer::open(store_kind, |config| config.auth = Auth::Jwt(JwtConfig::secret(SECRET))).await;
    let claims =
        json!({"sub": "ann", "tenant": "default", "role": "member", "exp": get_current_timestamp() + 3600});
    let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET)).unwrap();
    let config = server.anyone().get("/auth/config").await.expect(200).body;
    assert_eq!((&config["mode"], &config["sign_in"]), (&json!("jwt"), &json!(["key", "token"])));
    let answer = server.anyone().post("/auth/session", json!({"token": token})).await.expect(204);
    let ann = server.anyone().with("cookie", &cookie_of(&answer));
    let me = ann.get("/api/me").await.expect(200).body;
    assert_eq!(
        (&me["user"]["id"], &me["role"], &me["auth"]),
        (&json!("ann"), &json!("member"), &json!("browser"))
    );
    server.clock.advance(Duration::from_secs(3601));
    let other = server.anyone().with("cookie", &cookie_of(&answer)).with("x-request-id", "fresh");
    let limit = limits::REVOCATION_REACHES;
    let ended = tokio::time::timeout(limit, async {
        while other.get("/api/me").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    ended.await.unwrap();
    server.anyone().post("/auth/session", json!({"token": "a.b.c"})).await.refused(401, "unauthenticated");
}

async fn a_browser_is_signed_out_with_its_key_within_five_seconds(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (secret, id) = member_key(&server, "ada").await;
    let ada = browser(&server, &secret).await;
    ada.get("/api/me").await.expect(200);
    owner.delete(&format!("/api/keys/{id}")).await.expect(204);
    let ended = tokio::time::timeout(limits::REVOCATION_REACHES, async {
        while ada.get("/api/me").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    ended.await.unwrap();
}

async fn a_browser_is_signed_out_after_silence_and_after_seven_days(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (secret, _) = member_key(&server, "ada").await;
    let signed_in = async || {
        let signed_in = server
            .engine
            .sign_in(sederunt_core::engine::Credential::Key(&secret), None, Some(&"x".repeat(300)))
            .await
            .unwrap();
        assert_eq!(signed_in.session.browser.as_ref().unwrap().len(), limits::BROWSER_NAME_CHARS_MAX);
        signed_in.secret
    };
    let use_it = async |secret: &str| {
        let credential = sederunt_core::engine::Credential::Browser(secret);
        server.engine.authenticate(credential, None).await.is_ok()
    };
    let silent = signed_in().await;
    server.clock.advance(limits::BROWSER_SESSION_IDLE_MAX - Duration::from_secs(60));
    assert!(use_it(&silent).await);
    server.clock.advance(Duration::from_secs(120));
    assert!(use_it(&silent).await, "its use was written down");
    server.clock.advance(limits::BROWSER_SESSION_IDLE_MAX + limits::BROWSER_SESSION_SEEN_EVERY);
    assert!(!use_it(&silent).await);

    let busy = signed_in().await;
    let mut left = limits::BROWSER_SESSION_LIFE_MAX;
    while left > Duration::from_secs(3600) {
        server.clock.advance(Duration::from_secs(3600));
        left -= Duration::from_secs(3600);
        assert!(use_it(&busy).await);
    }
    server.clock.advance(left);
    assert!(!use_it(&busy).await, "seven days");
}

async fn only_pages_of_this_server_change_anything_with_a_cookie(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (secret, _) = member_key(&server, "ada").await;
    let answer = server.anyone().post("/auth/session", json!({"key": secret})).await.expect(204);
    let bare = || server.anyone().with("cookie", &cookie_of(&answer));
    let wish = || json!({"session_type": "mixed"});
    let own = format!("http://{}", server.address);
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("x-nothing", "said"),
    ] {
        bare().with(name, value).post("/api/sessions", wish()).await.refused(403, "denied");
        bare().with(name, value).delete("/auth/session").await.refused(403, "denied");
    }
    bare().with("sec-fetch-site", "same-origin").post("/api/sessions", wish()).await.expect(201);
    bare().with("origin", &own).post("/api/sessions", wish()).await.expect(201);
    bare().with("sec-fetch-site", "cross-site").get("/api/sessions").await.expect(200);
    // Another site does not sign people in as somebody else.
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let foreign = server.anyone().with(name, value);
        foreign.post("/auth/session", json!({"key": secret})).await.refused(403, "denied");
    }
}

async fn workers_channels_lenders_and_the_operator_do_not_sign_in(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let worker = NewKey { role: Some(Role::Worker), ..NewKey::default() };
    let channel = NewKey { role: Some(Role::Channel), prefix: Some("slack:".into()), ..NewKey::default() };
    let lender = NewKey { role: Some(Role::Owner), act_as: true, ..NewKey::default() };
    for wish in [worker, channel, lender] {
        let (secret, _) = server.new_key(wish).await;
        let refused = server.anyone().post("/auth/session", json!({"key": secret})).await;
        assert!(!refused.refused(403, "denied").headers.contains_key("set-cookie"));
    }
    let operator = json!({"key": crate::server::OPERATOR});
    server.anyone().post("/auth/session", operator).await.refused(403, "denied");
    let local = TestServer::local(store_kind).await;
    local.anyone().post("/auth/session", json!({"key": "sdr_x"})).await.refused(403, "denied");
    assert_eq!(local.anyone().get("/auth/config").await.expect(200).body["sign_in"], json!([]));
}

async fn credentials_that_open_nothing_are_refused_alike_and_counted(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = Auth::Keys;
        config.rates.failures_per_peer = Rate::new(1, 4);
    })
    .await;
    let owner = server.key(Role::Owner, "").await;
    let (revoked, id) = member_key(&server, "ada").await;
    owner.delete(&format!("/api/keys/{id}")).await.expect(204);
    let short = Some(Duration::from_secs(1));
    let (expired, _) =
        server.new_key(NewKey { role: Some(Role::Owner), expires_in: short, ..NewKey::default() }).await;
    server.clock.advance(Duration::from_secs(2));
    let mut sentences = Vec::new();
    for secret in ["sdr_unknown", &revoked, &expired] {
        let refused = server.anyone().post("/auth/session", json!({"key": secret})).await;
        sentences.push(refused.refused(401, "unauthenticated").body["error"]["message"].clone());
    }
    assert!(sentences.iter().all(|sentence| *sentence == sentences[0]), "{sentences:?}");
    let mut limited = 0;
    for n in 0..20 {
        let answer = server.anyone().post("/auth/session", json!({"key": format!("sdr_{n}")})).await;
        limited += usize::from(answer.status == 429);
    }
    assert!(limited > 10, "{limited}");
}

async fn people_see_and_end_their_own_browsers_alone(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ada_key, _) = member_key(&server, "ada").await;
    let (bob_key, _) = member_key(&server, "bob").await;
    let (first, second, bob) = (
        browser(&server, &ada_key).await,
        browser(&server, &ada_key).await,
        browser(&server, &bob_key).await,
    );
    let listed = first.get("/auth/sessions").await.expect(200).body["items"].clone();
    let items = listed.as_array().unwrap();
    assert_eq!(items.len(), 2);
    let other = items.iter().find(|item| item["is_current"] == false).unwrap();
    assert!(!listed.to_string().contains("hash"));
    let path = format!("/auth/sessions/{}", other["id"].as_str().unwrap());
    bob.delete(&path).await.expect(204);
    assert_eq!(first.get("/auth/sessions").await.expect(200).body["items"].as_array().unwrap().len(), 2);
    second.get("/api/me").await.expect(200);
    first.delete(&path).await.expect(204);
    first.delete(&path).await.expect(204);
    let ended = tokio::time::timeout(limits::REVOCATION_REACHES, async {
        while second.get("/api/me").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    ended.await.unwrap();
    assert_eq!(
        server.bearer(&ada_key).get("/auth/sessions").await.expect(200).body["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    server.key(Role::Worker, "").await.get("/auth/sessions").await.refused(403, "denied");
}

async fn a_person_has_no_more_browsers_than_the_limit(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (secret, _) = member_key(&server, "ada").await;
    let sign_in = async || {
        server.clock.advance(Duration::from_secs(1));
        let credential = sederunt_core::engine::Credential::Key(&secret);
        server.engine.sign_in(credential, None, None).await.unwrap()
    };
    let first = sign_in().await;
    for _ in 0..limits::BROWSER_SESSIONS_MAX {
        sign_in().await;
    }
    let ada = server.bearer(&secret);
    let items = ada.get("/auth/sessions").await.expect(200).body["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), limits::BROWSER_SESSIONS_MAX);
    assert!(items.iter().all(|item| item["id"] != first.session.id.as_str()));
    let cookie = format!("sederunt={}", first.secret);
    server.anyone().with("cookie", &cookie).get("/api/me").await.refused(401, "unauthenticated");
}

async fn a_caller_is_told_who_it_is(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    owner.post("/api/users", json!({"id": "ada", "name": "Ada"})).await.expect(201);
    let me = server.key(Role::Member, "ada").await.get("/api/me").await.expect(200).body;
    assert_eq!(
        (&me["tenant"], &me["user"], &me["role"], &me["auth"], &me["expires_at"]),
        (
            &json!("default"),
            &json!({"id": "ada", "name": "Ada"}),
            &json!("member"),
            &json!("key"),
            &json!(null)
        )
    );
    let can = |me: &serde_json::Value, verb: &str| me["can"].as_array().unwrap().contains(&json!(verb));
    assert!(can(&me, "trigger") && can(&me, "work_on") && !can(&me, "administer"));
    let of_owner = owner.get("/api/me").await.expect(200).body;
    assert!(can(&of_owner, "administer") && of_owner["user"].is_null());
    assert_eq!(server.operator().get("/api/me").await.expect(200).body["auth"], "operator");
    let worker = server.key(Role::Worker, "").await.get("/api/me").await.expect(200).body;
    assert!(can(&worker, "work") && !can(&worker, "decide"));
    server.anyone().get("/api/me").await.refused(401, "unauthenticated");

    let local = TestServer::local(store_kind).await;
    let me = local.anyone().get("/api/me").await.expect(200).body;
    assert_eq!((&me["role"], &me["auth"], &me["user"]), (&json!("owner"), &json!("local"), &json!(null)));
    let page = local.anyone().with("sec-fetch-site", "same-origin");
    for (caller, kind) in [(page, "web"), (local.anyone(), "api")] {
        let made = caller.post("/api/sessions", json!({"session_type": "mixed"})).await.expect(201).body;
        assert_eq!(
            (&made["source"]["kind"], &made["source"]["interactive"]),
            (&json!(kind), &json!(kind == "web"))
        );
    }
}

async fn what_does_not_fit_a_sign_in_is_refused(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    for body in [json!({}), json!({"key": "a", "token": "b"}), json!({"key": 1}), json!({"password": "x"})] {
        server.anyone().post("/auth/session", body).await.refused(422, "invalid");
    }
    for (field, most) in [("key", limits::NAME_CHARS_MAX), ("token", SIGN_IN_TOKEN_CHARS_MAX)] {
        for (chars, status, code) in
            [(0, 422, "invalid"), (most, 401, "unauthenticated"), (most + 1, 422, "invalid")]
        {
            let refused = server.anyone().post("/auth/session", json!({ field: "x".repeat(chars) })).await;
            refused.refused(status, code);
        }
    }
    server.anyone().post("/auth/session", json!({"token": "x"})).await.refused(401, "unauthenticated");
    let keyed = server.anyone().with("idempotency-key", "k");
    keyed.post("/auth/session", json!({"key": "sdr_x"})).await.refused(401, "unauthenticated");
}
