//! JSON Web Tokens

use std::time::Duration;

use base64::Engine as _;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use sederunt_core::TenantId;
use sederunt_server::{Auth, JwtConfig, JwtKeys};
use serde_json::{Value, json};

use crate::issuer::{Issuer, Signer};
use crate::server::{StoreKind, TestServer, on_every_store};

const SECRET: &[u8] = b"a secret of thirty-two bytes or so";

on_every_store!(
    a_token_speaks_for_its_user,
    a_suspended_tenant_is_refused,
    a_token_has_no_more_rights_than_its_users_row,
    tokens_under_published_keys_are_believed,
    tokens_that_only_look_right_are_refused,
    a_changed_key_is_fetched_when_a_token_names_it,
    a_flood_of_unknown_keys_asks_the_issuer_once,
    an_issuer_that_is_away_costs_nobody_their_access,
    a_key_set_in_a_file_is_read_again,
);

async fn server(store_kind: StoreKind) -> TestServer {
    TestServer::open(store_kind, |config| config.auth = Auth::Jwt(JwtConfig::secret(SECRET))).await
}

fn token(claims: &Value) -> String {
    encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

fn claims(tenant: &str, role: &str) -> Value {
    json!({"sub": "ann", "tenant": tenant, "role": role, "exp": get_current_timestamp() + 60})
}

async fn a_token_speaks_for_its_user(store_kind: StoreKind) {
    let server = server(store_kind).await;
    let ann = server.bearer(&token(&claims("default", "member")));
    let made = ann.post("/api/sessions", json!({"session_type": "mixed"})).await.expect(201).body;
    assert_eq!((&made["user_id"], &made["tenant_id"]), (&json!("ann"), &json!("default")));
    ann.get("/api/keys").await.refused(403, "denied");
    for refused in [claims("nowhere", "owner"), claims("default", "channel"), claims("default", "operator")] {
        server.bearer(&token(&refused)).get("/api/sessions").await.refused(401, "unauthenticated");
    }
    server.key(sederunt_core::Role::Owner, "").await.get("/api/sessions").await.expect(200);
}

async fn a_suspended_tenant_is_refused(store_kind: StoreKind) {
    let server = server(store_kind).await;
    let tenant = TenantId::parse("acme").unwrap();
    server.engine.operator().create_tenant(&tenant).await.unwrap();
    server.bearer(&token(&claims("acme", "owner"))).get("/api/sessions").await.expect(200);
    server.engine.operator().suspend_tenant(&tenant, true).await.unwrap();
    let fresh =
        token(&json!({"sub": "bob", "tenant": "acme", "role": "owner", "exp": get_current_timestamp() + 60}));
    server.bearer(&fresh).get("/api/sessions").await.refused(401, "unauthenticated");
}

async fn a_token_has_no_more_rights_than_its_users_row(store_kind: StoreKind) {
    let server = server(store_kind).await;
    let owner = server.key(sederunt_core::Role::Owner, "").await;
    for (user, role) in [("boss", "owner"), ("low", "guest"), ("gone", "owner"), ("old", "owner")] {
        owner.post("/api/users", json!({"id": user, "role": role})).await.expect(201);
    }
    owner.patch("/api/users/gone", json!({"suspended": true})).await.expect(200);
    owner.post("/api/users/old/merge", json!({"into": "boss"})).await.expect(200);
    owner.patch("/api/users/old", json!({"suspended": false})).await.expect(200);
    let of = |user: &str| {
        let exp = get_current_timestamp() + 60;
        server.bearer(&token(&json!({"sub": user, "tenant": "default", "role": "owner", "exp": exp})))
    };
    of("boss").get("/api/keys").await.expect(200);
    of("nobody-yet").get("/api/keys").await.expect(200);
    of("low").get("/api/keys").await.refused(403, "denied");
    for refused in ["gone", "old"] {
        of(refused).get("/api/sessions").await.refused(401, "unauthenticated");
    }
}

async fn house_of(
    store_kind: StoreKind,
    keys: JwtKeys,
    configure: impl FnOnce(&mut JwtConfig),
) -> TestServer {
    let mut jwt = JwtConfig::new(keys);
    configure(&mut jwt);
    TestServer::open(store_kind, |config| config.auth = Auth::Jwt(jwt)).await
}

/// A server that believes this issuer, and looks at its keys as often as it takes.
async fn believing(issuer: &Issuer, store_kind: StoreKind) -> TestServer {
    house_of(store_kind, JwtKeys::JwksUrl(issuer.url.clone()), |jwt| jwt.again_after = Duration::ZERO).await
}

fn with(key: &str, value: Value) -> Value {
    let mut claims = claims("default", "member");
    claims[key] = value;
    claims
}

async fn tokens_under_published_keys_are_believed(store_kind: StoreKind) {
    let (rsa, ec) = (Signer::rs256("r"), Signer::es256("e"));
    let unfit = json!({"kty": "oct", "k": "c2VjcmV0", "kid": "s"});
    let strange = json!({"kty": "of-tomorrow"});
    let issuer = Issuer::publishing(&[&strange, &unfit, &rsa.public, &ec.public]).await;
    let server = believing(&issuer, store_kind).await;
    let member = claims("default", "member");
    for token in [
        rsa.sign(&member),
        ec.sign(&member),
        rsa.sign_as(Algorithm::RS256, None, &member),
        ec.sign_as(Algorithm::ES256, None, &member),
    ] {
        server.bearer(&token).get("/api/sessions").await.expect(200);
    }
    assert_eq!(issuer.asked(), 1, "keys that are known are not fetched again");
}

async fn tokens_that_only_look_right_are_refused(store_kind: StoreKind) {
    let (rsa, ec, stranger) = (Signer::rs256("r"), Signer::es256("e"), Signer::rs256("r"));
    let issuer = Issuer::publishing(&[&rsa.public, &ec.public]).await;
    let server = house_of(store_kind, JwtKeys::JwksUrl(issuer.url.clone()), |jwt| {
        jwt.issuer = Some("https://issuer.example".into());
        jwt.audience = Some("sederunt".into());
    })
    .await;
    let whole = || {
        let mut claims = with("iss", json!("https://issuer.example"));
        claims["aud"] = json!(["others", "sederunt"]);
        claims
    };
    let but = |key: &str, value: Option<Value>| {
        let mut claims = whole();
        match value {
            Some(value) => claims[key] = value,
            None => drop(claims.as_object_mut().unwrap().remove(key)),
        }
        rsa.sign(&claims)
    };
    server.bearer(&rsa.sign(&whole())).get("/api/sessions").await.expect(200);
    server.bearer(&ec.sign(&whole())).get("/api/sessions").await.expect(200);

    let base64 = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let unsigned = format!("{}.{}.", base64(r#"{"alg":"none","kid":"r"}"#), base64(&whole().to_string()));
    let by_public_key = |secret: &str| {
        let header = Header { kid: Some("r".into()), ..Header::new(Algorithm::HS256) };
        encode(&header, &whole(), &EncodingKey::from_secret(secret.as_bytes())).unwrap()
    };
    let signed = rsa.sign(&whole());
    let (head, signature) = (signed.split('.').next().unwrap(), signed.rsplit('.').next().unwrap());
    let altered = format!("{head}.{}.{signature}", base64(&with("role", json!("owner")).to_string()));
    let refused = [
        ("another algorithm of the family", rsa.sign_as(Algorithm::RS512, Some("r"), &whole())),
        ("the name of the other key", rsa.sign_as(Algorithm::RS256, Some("e"), &whole())),
        ("no signature", unsigned),
        ("the public key as a secret", by_public_key(rsa.public["n"].as_str().unwrap())),
        ("the public key's JSON as a secret", by_public_key(&rsa.public.to_string())),
        ("somebody else's key", stranger.sign(&whole())),
        ("altered claims", altered),
        ("expired", but("exp", Some(json!(get_current_timestamp() - 60)))),
        ("not yet valid", but("nbf", Some(json!(get_current_timestamp() + 60)))),
        ("no end", but("exp", None)),
        ("another audience", but("aud", Some(json!("others")))),
        ("no audience", but("aud", None)),
        ("another issuer", but("iss", Some(json!("https://evil.example")))),
        ("no issuer", but("iss", None)),
    ];
    for (what, token) in refused {
        let answer = server.bearer(&token).get("/api/sessions").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["error"]["code"]),
            (401, &json!("unauthenticated")),
            "{what}"
        );
    }
}

async fn a_changed_key_is_fetched_when_a_token_names_it(store_kind: StoreKind) {
    let (old, new) = (Signer::es256("old"), Signer::es256("new"));
    let issuer = Issuer::publishing(&[&old.public]).await;
    let server = believing(&issuer, store_kind).await;
    let member = claims("default", "member");
    server.bearer(&old.sign(&member)).get("/api/sessions").await.expect(200);
    issuer.publish(&[&new.public]);
    server.bearer(&new.sign(&member)).get("/api/sessions").await.expect(200);
    assert_eq!(issuer.asked(), 2);
    let late = old.sign(&with("sub", json!("bob")));
    server.bearer(&late).get("/api/sessions").await.refused(401, "unauthenticated");
}

async fn a_flood_of_unknown_keys_asks_the_issuer_once(store_kind: StoreKind) {
    let (known, unknown) = (Signer::es256("known"), Signer::es256("unknown"));
    let issuer = Issuer::publishing(&[&known.public]).await;
    let url = JwtKeys::JwksUrl(issuer.url.clone());
    let server = house_of(store_kind, url, |jwt| jwt.again_after = Duration::from_secs(3600)).await;
    let call = |n: usize| {
        let token = unknown.sign_as(Algorithm::ES256, Some(&format!("k{n}")), &claims("default", "owner"));
        let guest = server.bearer(&token);
        async move { guest.get("/api/sessions").await.refused(401, "unauthenticated") }
    };
    futures_util::future::join_all((0..40).map(call)).await;
    assert_eq!(issuer.asked(), 1);
    server.bearer(&known.sign(&claims("default", "owner"))).get("/api/sessions").await.expect(200);
    assert_eq!(issuer.asked(), 1);
}

async fn an_issuer_that_is_away_costs_nobody_their_access(store_kind: StoreKind) {
    let (known, next) = (Signer::es256("known"), Signer::es256("next"));
    let issuer = Issuer::publishing(&[&known.public]).await;
    let away = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    issuer.say(away.to_owned());
    let server = believing(&issuer, store_kind).await;
    let by_ann = known.sign(&claims("default", "member"));
    let asked = server.bearer(&by_ann).get("/api/sessions").await.refused(503, "unavailable");
    assert!(asked.headers.contains_key("retry-after"), "nothing is known yet: come back");
    issuer.publish(&[&known.public]);
    server.bearer(&by_ann).get("/api/sessions").await.expect(200);
    for answer in [away, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"] {
        issuer.say(answer.to_owned());
        let unknown = next.sign(&with("sub", json!(answer.len().to_string())));
        server.bearer(&unknown).get("/api/sessions").await.refused(401, "unauthenticated");
        let by_bob = known.sign(&with("sub", json!(format!("bob{}", answer.len()))));
        server.bearer(&by_bob).get("/api/sessions").await.expect(200);
    }
}

async fn a_key_set_in_a_file_is_read_again(store_kind: StoreKind) {
    let (old, new) = (Signer::es256("old"), Signer::es256("new"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |key: &Value| std::fs::write(file.path(), json!({ "keys": [key] }).to_string()).unwrap();
    write(&old.public);
    let keys = JwtKeys::JwksFile(file.path().to_owned());
    let server = house_of(store_kind, keys, |jwt| jwt.again_after = Duration::ZERO).await;
    server.bearer(&old.sign(&claims("default", "member"))).get("/api/sessions").await.expect(200);
    write(&new.public);
    server.bearer(&new.sign(&claims("default", "member"))).get("/api/sessions").await.expect(200);
}
