use crate::world::{World, talk};

#[test]
fn a_link_is_made_listed_and_revoked() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let session = "cli:main";
    let made = world.json(&["shares", "create", session, "--access", "submit", "--expires", "1d"]);
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert!(made["url"].as_str().unwrap().ends_with(token));
    let listed = world.json(&["shares", "ls", "--session", session]);
    let link = &listed["items"][0];
    assert_eq!((link["id"].as_str(), link["access"].as_str()), (Some(id), Some("submit")));
    assert!(!listed.to_string().contains(token), "a token is shown once");
    let table = world.ok(&["shares", "ls"]);
    assert!(table.starts_with("ID") && table.contains(id) && !table.contains(token), "{table}");
    assert_eq!(world.json(&["shares", "ls", "--view", "nothing"])["items"].as_array().unwrap().len(), 0);
    assert_eq!(world.ok(&["shares", "revoke", id]), format!("revoked {id}\n"));
    assert!(world.json(&["shares", "ls"])["items"][0]["revoked_at"].is_string());
    world.fails(&["shares", "revoke", "nothing"], 3);
    world.fails(&["shares", "create", "nothing"], 3);
}

#[test]
fn the_status_of_an_entity_is_a_table_of_its_fields_and_blocks() {
    let world = World::new();
    let entity = r#"{"id": "price", "type_slug": "price", "fields": {}}"#;
    std::fs::write(world.path("entity.json"), entity).unwrap();
    world.ok(&["entities", "create", "entity.json"]);
    let map = world.json(&["entities", "status", "price"]);
    assert_eq!(map, serde_json::json!({"by_field": {}, "by_block": {}}));
    world.fails(&["entities", "status", "nothing"], 3);
}

#[test]
fn a_form_is_shared_by_a_link_that_is_shown_once() {
    let world = World::new();
    let form =
        r#"{"id": "form", "title": "Which?", "questions": [{"key": "a", "label": "A"}], "response": {}}"#;
    std::fs::write(world.path("form.json"), form).unwrap();
    world.ok(&["views", "create", "form.json"]);
    let made = world.json(&["views", "share", "form", "--expires", "1d"]);
    let token = made["token"].as_str().unwrap();
    assert!(made["url"].as_str().unwrap().ends_with(&format!("/views/form?share={token}")), "{made}");
    let listed = world.json(&["shares", "ls", "--view", "form"]);
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["session_id"]),
        (&made["id"], &serde_json::Value::Null)
    );
    assert!(world.ok(&["views", "share", "form"]).contains("/views/form?share="));
    world.fails(&["views", "share", "nothing"], 3);
    world.fails(&["views", "share", "form", "--user", "nobody"], 2);
}
