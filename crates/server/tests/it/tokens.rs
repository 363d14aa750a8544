//! JSON Web Tokens

use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
use sederunt_core::TenantId;
use sederunt_server::{Auth, JwtConfig};
use serde_json::{Value, json};

use crate::house::{Ground, House, on_every_store};

const SECRET: &[u8] = b"a secret of thirty-two bytes or so";

on_every_store!(a_token_speaks_for_its_user, a_suspended_tenant_is_refused);

async fn house(ground: Ground) -> House {
    House::open(ground, |config| config.auth = Auth::Jwt(JwtConfig::secret(SECRET))).await
}

fn token(claims: &Value) -> String {
    encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

fn claims(tenant: &str, role: &str) -> Value {
    json!({"sub": "ann", "tenant": tenant, "role": role, "exp": get_current_timestamp() + 60})
}

async fn a_token_speaks_for_its_user(ground: Ground) {
    let house = house(ground).await;
    let ann = house.bearer(&token(&claims("default", "member")));
    let made = ann.post("/api/sessions", json!({"session_type": "mixed"})).await.expect(201).body;
    assert_eq!((&made["user_id"], &made["tenant_id"]), (&json!("ann"), &json!("default")));
    ann.get("/api/keys").await.refused(403, "denied");
    for refused in [claims("nowhere", "owner"), claims("default", "channel"), claims("default", "operator")] {
        house.bearer(&token(&refused)).get("/api/sessions").await.refused(401, "unauthenticated");
    }
    house.key(sederunt_core::Role::Owner, "").await.get("/api/sessions").await.expect(200);
}

async fn a_suspended_tenant_is_refused(ground: Ground) {
    let house = house(ground).await;
    let tenant = TenantId::parse("acme").unwrap();
    house.engine.operator().create_tenant(&tenant).await.unwrap();
    house.bearer(&token(&claims("acme", "owner"))).get("/api/sessions").await.expect(200);
    house.engine.operator().suspend_tenant(&tenant, true).await.unwrap();
    let fresh =
        token(&json!({"sub": "bob", "tenant": "acme", "role": "owner", "exp": get_current_timestamp() + 60}));
    house.bearer(&fresh).get("/api/sessions").await.refused(401, "unauthenticated");
}
