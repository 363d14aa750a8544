//! Every data command in both modes: without a server the routes run in the command's own process, beside a server they
//! are called over HTTP. What is printed and how the command ends must not differ.

use std::time::Duration;

use sederunt::{ClaimRequest, Json, Settle, limits};
use serde_json::{Value, json};

use crate::world::{Ran, World, owner, queue, talk};

/// One command a line, words separated by blanks. `@…` stands for an id that the store drew (see [`drawn`]), `~` for a
/// blank in a word.
const COMMANDS: &str = r#"
users create ada --name Ada
users create ada
users create bo --role guest
users create x --role king
users create a/b
users ls
users role ada owner
users role nobody guest
users role a/b guest
users link bo --platform slack --external-id T1:U1
users link bo --platform pigeon --external-id U1
users merge bo ada
users merge ada nobody
users merge ada a/b
keys create --user ada --role member --expires 30d
keys create --user zoe --role member
keys create --role king
keys create --role member
keys ls
keys revoke @key
keys revoke nothing
keys revoke a/b
tenants create acme
tenants create acme
tenants create a/b
tenants ls
tenants suspend acme
tenants resume acme
tenants suspend nobody
tenants suspend a/b
users create eve --tenant acme
users ls --tenant acme
audit --tenant acme
tenants delete acme
tenants delete acme --yes
tenants delete acme --yes
tenants delete default --yes
agents create agent.json
agents create empty.json
agents create nothing.json
agents ls
agents show scribe
agents show nothing
agents show a/b
agents edit scribe name.json
agents edit scribe wrong.json
entities create entity.json
entities ls --type city
entities show oban
entities edit oban empty.json
criteria create criteria.json
criteria ls
criteria show tone
criteria edit tone name.json
views create view.json
views ls
views show where
views edit where empty.json
views answers where
views answers nothing
views responses where
views responses where --status draft
views responses where --status nope
views responses where --csv
views responses nothing
responses ls where
responses ls nothing
responses show nothing
responses promote nothing
tasks create task.json
tasks create wrong.json
tasks ls
tasks ls --status active --limit 1
tasks ls --status nope
tasks ls --limit 0
tasks ls --cursor x
tasks show second
tasks edit second name.json
tasks pause second
tasks trigger second
tasks resume second
tasks trigger second --input {"city":"Oban","n":1.50,"big":12345678901234567890}
tasks trigger second --input {
tasks trigger nothing
tasks status second
tasks status nothing
bundle export
bundle export bundle.json
bundle import bundle.json
bundle import wrong.json
work
work counts --tz Mars/Olympus
work ls needs_me --tz Europe/London
work ls running
work ls yesterday
inbox --json
inbox --limit 0
inbox show @output
inbox show nothing
approve @output --output {"mood":"x"}
approve @output --digest 00
approve @output --output {"summary":"Sun."} --reason cleared
approve @output
deny @output
approve nothing
deny nothing
deny @question --reason no
sessions ls
sessions ls --all --limit 50
sessions ls --type agent --status pending
sessions ls --group live --parents-only
sessions ls --user ada --metadata k=v
sessions ls --search message
sessions ls --type x
sessions ls --status x
sessions ls --group x
sessions ls --limit 0
sessions ls --cursor x
sessions ls --user a/b
sessions show cli:main
sessions show cli:m
sessions show job-
sessions show nothing
sessions show a/b
sessions show ..
sessions tail cli:main --no-follow
sessions tail cli:main --no-follow --after 2
sessions tail cli:main --after 99
sessions tail nothing
sessions export cli:main --format md
sessions export cli:main --format txt --all
sessions export cli:main --format json
sessions export nothing
sessions answer cli:main yes
sessions answer nothing yes
sessions done cli:main --result 1
sessions stop job-b
sessions stop nothing
sessions tail job-b
sessions retry job-b
sessions retry cli:main
sessions rm job-b
sessions rm nothing
claims take --worker me --type x
claims take --worker me --limit 0
claims take --worker me --lease 10m
claims ls
sessions rm job-a
feedback give up
feedback give sideways
feedback give down It edited the lock file by hand --change Run~the~package~manager~instead --skill git
feedback ls --open
feedback ls --limit 0
feedback show @feedback
feedback show nothing
feedback add @feedback And~again --role assistant
feedback add nothing more
feedback finalize @feedback
feedback finalize @feedback
feedback finalize nothing
feedback open nothing up words
feedback failures
feedback failures --task nothing
feedback failures --session a/b
feedback stats
feedback summary --recent 5
feedback summary --recent 0
feedback ratings cli:main
feedback ratings nothing
feedback ratings a/b
lessons ls
lessons ls --state nope
lessons search package
lessons show @lesson
lessons show nothing
lessons accept @lesson
lessons edit @lesson --text Let~the~package~manager~write~its~files
lessons retire @lesson
lessons rules
lessons rules --min 0
safety hold --until 2030-01-31 --reason audit
safety hold --until 2001-01-31
safety hold --until 2030-01-31 --reason because
purge
purge --ratings 0
purge --yes
audit
audit --limit 0
audit --cursor x
sessions ls --tenant a/b
"#;

#[test]
fn every_data_command_says_the_same_with_and_without_a_server() {
    let (alone, beside) = (prepared(), prepared());
    let server = beside.serve(&["--workers", "0"]);
    let (said_alone, said_beside) = std::thread::scope(|scope| {
        let alone = scope.spawn(|| all_said(&alone));
        let beside = all_said(&beside);
        (alone.join().unwrap(), beside)
    });
    for (line, (alone, beside)) in commands().zip(said_alone.into_iter().zip(said_beside)) {
        assert_eq!(alone, beside, "{line}");
    }
    assert_eq!(server.stop("-TERM"), 0);
    let actors = |world: &World| -> Vec<Value> {
        let trail = world.json(&["audit", "--limit", "1000"]);
        trail["items"].as_array().unwrap().iter().map(|line| line["actor"].clone()).collect()
    };
    assert!(actors(&alone).len() > 10 && actors(&alone).iter().all(|actor| actor == "operator"));
}

fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.lines().filter(|line| !line.is_empty())
}

/// How a command ended, what it printed, and what it said on stderr.
type Said = (i32, String, String);

/// What all commands said one after the other, for people and, unless that would do something twice, for programs.
fn all_said(world: &World) -> Vec<(Said, Option<Said>)> {
    let both = |line: &str| {
        let words: Vec<String> = line.split(' ').map(|word| drawn(world, word)).collect();
        let plain = run(world, &words);
        let once = words.iter().any(|word| word == "--json") || plain.0 == 0 && !reads(&words);
        let coded = (!once).then(|| run(world, &[&words[..], &["--json".to_owned()]].concat()));
        if line.starts_with("sessions ls") {
            return (in_any_order(plain), coded.map(in_any_order));
        }
        (plain, coded)
    };
    commands().map(both).collect()
}

/// A list of sessions in an order of its own: sessions are listed by the minute of their last activity, and one of the two
/// runs may see the next minute begin earlier than the other.
fn in_any_order((status, out, complaint): Said) -> Said {
    let sorted = match serde_json::from_str::<Value>(&out) {
        Ok(mut page) => {
            if let Some(items) = page["items"].as_array_mut() {
                items.sort_by_key(|item| item["title"].to_string());
            }
            page.to_string()
        }
        Err(_) => {
            let mut lines: Vec<&str> = out.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        }
    };
    (status, sorted, complaint)
}

fn reads(words: &[String]) -> bool {
    let verb = words.iter().skip(1).find(|word| !word.starts_with("--"));
    let verb = verb.map_or("", String::as_str);
    !matches!(words[0].as_str(), "approve" | "deny")
        && [
            "", "ls", "show", "tail", "export", "status", "counts", "search", "stats", "summary", "answers",
            "failures", "ratings", "rules",
        ]
        .contains(&verb)
}

/// Runs a command. What two stores cannot have in common is left out of what it said.
fn run(world: &World, words: &[String]) -> Said {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Ran { code, stdout, stderr } = world.run(&words);
    (code, masked(&stdout), masked(&stderr))
}

/// The same text with one word for every id, secret, digest, time and cursor that was drawn.
fn masked(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let mut masked = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if length == 0 {
            masked.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(length);
        masked.push_str(if is_drawn(word) { "DRAWN" } else { word });
        rest = after;
    }
    masked
}

fn is_drawn(word: &str) -> bool {
    let only = |word: &str, allowed: &str| word.chars().all(|c| c.is_ascii_digit() || allowed.contains(c));
    let is_hex = |word: &str, length: usize| word.len() >= length && only(word, "abcdef");
    let is_uuid = word.len() == 36 && word.matches('-').count() == 4 && only(word, "abcdef-");
    let is_time = word.len() >= 8 && word.matches(':').count() == 2 && only(word, "-:.TZ");
    let is_day =
        word.len() == 10 && word.matches('-').count() == 2 && only(word, "-") && !word.starts_with("203");
    let is_age = word.strip_suffix('s').is_some_and(|seconds| !seconds.is_empty() && only(seconds, ""));
    let is_cursor = word.len() > 10 && word.contains('.') && only(word, "-.");
    let is_named = word.rsplit(['_', '-']).next().is_some_and(|end| is_hex(end, 12));
    word.starts_with("sdr_")
        || is_uuid
        || is_time
        || is_day
        || is_age
        || is_cursor
        || is_hex(word, 32)
        || is_named
}

/// The id that a word stands for in this world.
fn drawn(world: &World, word: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let approval = |kind: &str| {
        let inbox = world.json(&["inbox", "--all"]);
        let found = inbox["items"].as_array().unwrap().iter().find(|one| one["kind"] == kind);
        text(&found.unwrap()["id"])
    };
    match word {
        "@key" => text(&world.json(&["keys", "ls"])[0]["id"]),
        "@output" => approval("output"),
        "@question" => approval("question"),
        "@feedback" => text(&world.json(&["feedback", "ls"])["items"][0]["session_id"]),
        "@lesson" => text(&world.json(&["lessons", "ls"])["items"][0]["id"]),
        word => word.replace('~', " "),
    }
}

/// A world with files to define things from, talk, queued work, an output that waits for a decision and a question that
/// waits for an answer.
fn prepared() -> World {
    let world = World::new();
    let dimension = json!({"slug": "tone", "options": [{"value": "kind", "score": 1}, {"value": "cruel"}]});
    let question = json!({"key": "place", "label": "A place"});
    for (name, body) in [
        ("agent.json", json!({"slug": "scribe", "name": "Scribe"})),
        ("entity.json", json!({"id": "oban", "type_slug": "city", "title": "Oban"})),
        ("criteria.json", json!({"id": "tone", "name": "Tone", "dimensions": [dimension]})),
        ("view.json", json!({"id": "where", "title": "Where?", "questions": [question]})),
        (
            "report.json",
            json!({"id": "t1", "slug": "report", "name": "Report", "agent_slug": "eliza",
            "requires_approval": true}),
        ),
        ("look.json", json!({"id": "t2", "slug": "look", "name": "Look", "assigned_to": "ada"})),
        ("task.json", json!({"id": "t3", "slug": "second", "name": "Second", "agent_slug": "scribe"})),
        ("name.json", json!({"name": "Another name"})),
        ("wrong.json", json!({"colour": "red"})),
        ("empty.json", json!({})),
    ] {
        std::fs::write(world.path(name), body.to_string()).unwrap();
    }
    world.ok(&["tasks", "create", "report.json"]);
    world.ok(&["tasks", "create", "look.json"]);
    world.seed(async |store| {
        store.trigger(&owner(), "report", None, None).await.unwrap();
        let request = ClaimRequest {
            worker: "w".into(),
            session_types: Vec::new(),
            agent_slugs: Vec::new(),
            limit: 1,
            lease: limits::LEASE_DEFAULT,
            wait: Duration::ZERO,
        };
        let claimed = store.claim(&owner(), request, None).await.unwrap().pop().unwrap();
        let result = Json::of(&json!({"summary": "It rains."})).unwrap();
        let how = Settle::Complete { result: Some(result), text: None, usage: None };
        store.settle(&owner(), &claimed.session.id, claimed.epoch, how, None).await.unwrap();
        store.trigger(&owner(), "look", None, None).await.unwrap();
        talk(store, "cli:main", 3).await;
        queue(store, "job-alpha").await;
        queue(store, "job-beta").await;
    });
    world
}
