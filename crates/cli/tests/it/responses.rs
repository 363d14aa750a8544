use sederunt::Json;
use serde_json::{Value, json};

use crate::world::{World, owner};

/// A store with a form of which answers may be written to an entity.
fn with_form() -> World {
    let world = World::new();
    let form = json!({"id": "stand", "title": "Your stand", "publish_config": {"gate": "none"}, "questions": [
        {"key": "name", "label": "Name", "required": true}, {"key": "size", "label": "Size", "type": "number"}],
        "response": {"entity_type": "exhibitor", "fields": {"name": "name"}, "once": false}});
    std::fs::write(world.path("form.json"), form.to_string()).unwrap();
    world.ok(&["views", "create", "form.json"]);
    world
}

/// Submits these answers, and opens one more response that is only saved. Returns their ids.
fn answered(world: &World, answers: &[Value]) -> Vec<String> {
    world.seed(async |store| {
        let me = owner();
        let mut ids = Vec::new();
        for answer in answers {
            let opened = store.open_response(&me, "stand", None, None, None).await.unwrap();
            let id = opened.response.session.id;
            let values = Json::of(answer).unwrap();
            store.submit_response(&me, &id, None, Some(&values), None).await.unwrap();
            ids.push(id.to_string());
        }
        let draft = store.open_response(&me, "stand", None, None, None).await.unwrap().response.session.id;
        let values = Json::of(&json!({"size": 3})).unwrap();
        store.save_response(&me, &draft, None, &values, None).await.unwrap();
        ids.push(draft.to_string());
        ids
    })
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn responses_are_listed_shown_and_promoted_with_and_without_a_server() {
    let world = with_form();
    let made = answered(&world, &[json!({"name": "Acme", "size": 12}), json!({"name": "Bolt"})]);
    let [acme, bolt, draft] = &made[..] else { panic!("{made:?}") };
    let check = |approval_of: &str, other: &str| {
        let all = world.json(&["responses", "ls", "stand"]);
        assert_eq!(ids(&all), [draft, bolt, acme], "newest first: {all}");
        assert_eq!(world.json(&["views", "responses", "stand"]), all);
        assert_eq!(ids(&world.json(&["responses", "ls", "stand", "--status", "draft"])), [draft]);
        let table = world.ok(&["responses", "ls", "stand"]);
        assert!(table.starts_with("ID") && table.contains(r#"{"name":"Acme","size":12}"#), "{table}");
        let page = world.json(&["responses", "ls", "stand", "--limit", "1"]);
        let cursor = page["next_cursor"].as_str().unwrap();
        let next = world.json(&["responses", "ls", "stand", "--limit", "1", "--cursor", cursor]);
        assert_eq!((ids(&page), ids(&next)), (vec![draft.as_str()], vec![bolt.as_str()]));

        let one = world.json(&["responses", "show", other]);
        assert_eq!(
            (&one["id"], &one["status"], &one["promotion"]),
            (&json!(other), &json!("submitted"), &Value::Null)
        );
        assert!(world.ok(&["responses", "show", other]).contains("submitted"));
        let asked = world.json(&["responses", "promote", approval_of]);
        assert_eq!(asked["promotion"]["state"], "pending", "{asked}");
        world.fails(&["responses", "promote", approval_of], 4);
        world.fails(&["responses", "promote", draft], 4);
        let approval = asked["promotion"]["approval_id"].as_str().unwrap();
        let inbox = world.json(&["inbox", "show", approval]);
        assert_eq!(inbox["staged"], json!({"name": asked["values"]["name"]}), "{inbox}");
        world.fails(&["approve", approval, "--output", r#"{"name": 5}"#], 2);
        world.ok(&["approve", approval]);
        let promoted = world.json(&["responses", "show", approval_of]);
        assert_eq!((&promoted["status"], promoted["promoted_at"].is_string()), (&json!("promoted"), true));
    };
    check(acme, bolt);
    let second = answered(&world, &[]);
    assert_eq!(second, std::slice::from_ref(draft), "the open one is found again");
    let server = world.serve(&["--workers", "0"]);
    let again = world.json(&["responses", "promote", bolt, "--assigned-to", "mia"]);
    assert_eq!(again["promotion"]["state"], "pending");
    assert_eq!(ids(&world.json(&["responses", "ls", "stand", "--status", "promoted"])), [acme]);
    assert_eq!(
        world.json(&["entities", "ls", "--type", "exhibitor"])["items"][0]["fields"],
        json!({"name": "Acme"})
    );
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn an_export_guards_the_cells_that_a_spreadsheet_would_calculate() {
    let world = with_form();
    let answers =
        [json!({"name": "=1+1"}), json!({"name": "@SUM(A1)", "size": -4}), json!({"name": "a,\"b\"\nc"})];
    let made = answered(&world, &answers);
    let file = world.ok(&["views", "responses", "stand", "--csv", "--status", "submitted"]);
    let rows: Vec<&str> = file.split_terminator("\r\n").collect();
    assert!(rows[0].starts_with("id,status,") && rows[0].ends_with(",name,size"), "{file}");
    assert_eq!(rows.len(), 4, "{file}");
    for (row, end) in [(3, ",'=1+1,"), (2, ",'@SUM(A1),'-4"), (1, ",\"a,\"\"b\"\"\nc\",")] {
        assert!(rows[row].starts_with(&made[3 - row]) && rows[row].ends_with(end), "{}", rows[row]);
    }
    let whole = world.ok(&["views", "responses", "stand", "--csv"]);
    assert_eq!(whole.split_terminator("\r\n").count(), 5, "the draft too: {whole}");
}
