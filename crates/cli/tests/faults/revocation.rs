//! A key that is revoked, and a share link that is deleted, open nothing more: on any node, and for
//! streams that are already open, within five seconds.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Client, Key, Node, PATIENCE, Place, Said, Stream, eventually, within};

const SESSION: &str = "cli:secret";
const REVOCATION_REACHES: Duration = Duration::from_secs(5);
const STREAMS_PER_NODE: usize = 3;
/// What a respondent whose link was deleted is told: a node that has forgotten the link no longer finds the response.
const REFUSED_BY_LINK: [u16; 2] = [401, 404];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_a_key_ends_its_streams_and_requests_on_every_node() {
    let (_place, nodes, owners) = two_nodes().await;
    let made = owners[0].post("/api/keys", json!({"role": "member", "user": "ada"})).await.expect(201);
    let key = Key::of(&made);
    let members: Vec<Client> = nodes.iter().map(|node| node.client().with_key(&key)).collect();
    let mut streams = Vec::new();
    for member in members.iter().cycle().take(2 * STREAMS_PER_NODE) {
        streams.push(member.stream(SESSION, 0).await.unwrap());
    }
    all_hear(&owners[1], &mut streams).await;
    for member in &members {
        member.get(&format!("/api/sessions/{SESSION}")).await.expect(200);
    }

    let revoked = Instant::now();
    let answer = owners[0].delete(&format!("/api/keys/{}", key.id)).await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    all_end(streams, revoked).await;
    for member in &members {
        refused(revoked, &[401], async || member.get(&format!("/api/sessions/{SESSION}")).await.status).await;
        assert_eq!(member.stream(SESSION, 0).await.err().unwrap().status, 401);
    }
    owners[1].get(&format!("/api/sessions/{SESSION}")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_a_share_link_ends_its_streams_and_requests_on_every_node() {
    let (_place, nodes, owners) = two_nodes().await;
    let wish = json!({"access": "read", "expires_in": 3600});
    let share = owners[0].post(&format!("/api/sessions/{SESSION}/share"), wish).await.expect(201);
    let token = share["token"].as_str().unwrap();
    let strangers: Vec<Client> = nodes.iter().map(Node::client).collect();
    let mut streams = Vec::new();
    for stranger in strangers.iter().cycle().take(2 * STREAMS_PER_NODE) {
        streams.push(stranger.stream_shared(SESSION, token).await.unwrap());
    }
    all_hear(&owners[1], &mut streams).await;
    let path = format!("/api/sessions/{SESSION}/events?share={token}");
    for stranger in &strangers {
        stranger.get(&path).await.expect(200);
    }

    let revoked = Instant::now();
    let answer = owners[0].delete(&format!("/api/shares/{}", share["id"].as_str().unwrap())).await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    all_end(streams, revoked).await;
    for stranger in &strangers {
        refused(revoked, &[401], async || stranger.get(&path).await.status).await;
        assert_eq!(stranger.stream_shared(SESSION, token).await.err().unwrap().status, 401);
    }
    owners[1].get(&format!("/api/sessions/{SESSION}")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_link_to_a_form_ends_a_draft_on_every_node() {
    let (_place, nodes, owners) = two_nodes().await;
    let form = json!({"id": "form", "title": "Form", "publish_config": {"gate": "none"}, "response": {},
        "questions": [{"key": "n", "label": "N"}]});
    owners[0].post("/api/views", form).await.expect(201);
    let link = owners[0].post("/api/views/form/share", json!({"expires_in": 3600})).await.expect(201);
    let token = link["token"].as_str().unwrap();
    let opened = nodes[0].client().with_link(token, None).post("/api/views/form/responses", json!({})).await;
    let cookie = opened.cookie.clone().unwrap();
    let path = format!("/api/responses/{}", opened.expect(201)["id"].as_str().unwrap());
    let respondents: Vec<Client> =
        nodes.iter().map(|node| node.client().with_link(token, Some(&cookie))).collect();
    let save = async |respondent: &Client, value: String| {
        let values = json!({"values": {"n": value}});
        respondent.send("PATCH", &path, Some(&values), None).await.unwrap().status
    };
    for (at, respondent) in respondents.iter().enumerate() {
        assert_eq!(save(respondent, format!("before {at}")).await, 200);
    }

    let revoked = Instant::now();
    let answer = owners[0].delete(&format!("/api/shares/{}", link["id"].as_str().unwrap())).await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    let status = save(&respondents[0], "after".into()).await;
    assert!(REFUSED_BY_LINK.contains(&status), "the node that revoked the link knows at once: {status}");
    for respondent in &respondents {
        refused(revoked, &REFUSED_BY_LINK, async || save(respondent, "before 1".into()).await).await;
        for path in [&format!("{path}/submit"), "/api/views/form/responses"] {
            let status = respondent.post(path, json!({})).await.status;
            assert!(REFUSED_BY_LINK.contains(&status), "{path}: {status}");
        }
    }
    let kept = owners[1].get(&path).await.expect(200);
    assert_eq!((&kept["status"], &kept["values"]), (&json!("draft"), &json!({"n": "before 1"})));
}

/// Two nodes that ask for keys, the owner's clients of each, and a session that `ada` takes part in.
async fn two_nodes() -> (Place, Vec<Node>, Vec<Client>) {
    let place = Place::postgres().await;
    let key = place.create_key("owner", "root");
    let nodes = vec![Node::start_with_keys(&place).await, Node::start_with_keys(&place).await];
    let owners: Vec<Client> = nodes.iter().map(|node| node.client().with_key(&key)).collect();
    owners[0].post("/api/users", json!({"id": "ada", "role": "member"})).await.expect(201);
    let wish = json!({"id": SESSION, "session_type": "mixed", "participants": ["ada"]});
    owners[0].post("/api/sessions", wish).await.expect(201);
    (place, nodes, owners)
}

/// Every stream is open: a message reaches it.
async fn all_hear(owner: &Client, streams: &mut [Stream]) {
    for stream in &mut *streams {
        stream.until_ready().await;
    }
    let said = json!({"events": [{"type": "user.message", "content": "between us"}]});
    owner.post(&format!("/api/sessions/{SESSION}/events"), said).await.expect(201);
    for stream in streams {
        let heard = within("the message is heard", PATIENCE, stream.next()).await;
        assert!(matches!(heard, Said::Event { .. }), "{heard:?}");
    }
}

async fn all_end(streams: Vec<Stream>, revoked: Instant) {
    for mut stream in streams {
        let left = REVOCATION_REACHES.saturating_sub(revoked.elapsed());
        within("the stream ends", left, async {
            loop {
                match stream.next().await {
                    Said::End => break,
                    Said::Event { event, .. } => panic!("told after the revocation: {event}"),
                    Said::Ready | Said::Other(_) => {}
                }
            }
        })
        .await;
    }
}

/// Requests are refused as from anyone who proves nothing.
async fn refused(revoked: Instant, statuses: &[u16], mut ask: impl AsyncFnMut() -> u16) {
    let left = REVOCATION_REACHES.saturating_sub(revoked.elapsed());
    eventually("requests are refused", left.max(Duration::from_millis(200)), async || {
        let status = ask().await;
        assert!(status == 200 || statuses.contains(&status), "{status}");
        statuses.contains(&status).then_some(())
    })
    .await;
}
