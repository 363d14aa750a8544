//! What writers were promised, and whether the logs keep it.
//!
//! An event's text follows from its external id, and that names its writer, its post and its place
//! in the post: so every event of a log can be judged, acknowledged or not.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::harness::{Answer, Client};

/// Events in a batch of a writer.
const BATCH: usize = 5;

/// One request to append.
#[derive(Clone, Debug)]
pub struct Post {
    session: String,
    name: String,
    size: usize,
}

impl Post {
    /// The external ids of its events, in order.
    fn externals(&self) -> impl Iterator<Item = String> {
        (1..=self.size).map(|place| format!("{}.{place}of{}", self.name, self.size))
    }

    fn body(&self) -> Value {
        let event = |external: String| json!({"type": "user.message", "content": text_of(&external), "external_event_id": external});
        json!({"events": self.externals().map(event).collect::<Vec<_>>()})
    }
}

fn text_of(external: &str) -> String {
    format!("{external} says {}", external.repeat(9))
}

/// An event that a writer was told is in the log.
#[derive(Clone, Debug)]
struct Acked {
    session: String,
    external: String,
    sequence: u64,
}

/// What became of a post.
#[derive(Debug)]
pub enum Outcome {
    Acked,
    /// The server said no; the post stays in doubt until it is tried again or given up.
    Refused(Answer),
    /// The connection was cut or refused: nobody knows.
    Lost,
}

/// Appends single events and batches in turn, and keeps the answers.
#[derive(Debug)]
pub struct Writer {
    name: String,
    sessions: Vec<String>,
    posts: usize,
    in_doubt: Option<Post>,
    given_up: Vec<Post>,
    acked: Vec<Acked>,
}

impl Writer {
    pub fn crew(size: usize, sessions: &[&str]) -> Vec<Self> {
        Self::crew_named("w", size, sessions)
    }

    /// A crew beside others on the same sessions.
    pub fn crew_named(name: &str, size: usize, sessions: &[&str]) -> Vec<Self> {
        let sessions: Vec<String> = sessions.iter().map(|id| (*id).to_owned()).collect();
        (0..size)
            .map(|number| Self {
                name: format!("{name}-{number}"),
                sessions: sessions.clone(),
                posts: number,
                in_doubt: None,
                given_up: Vec::new(),
                acked: Vec::new(),
            })
            .collect()
    }

    /// Appends once: what is in doubt again, otherwise something new.
    pub async fn append(&mut self, to: &Client) -> Outcome {
        let post = self.in_doubt.take().unwrap_or_else(|| self.next());
        let path = format!("/api/sessions/{}/events", post.session);
        match to.send("POST", &path, Some(&post.body()), None).await {
            Ok(answer) if answer.status == 201 => {
                self.keep(&post, &answer.body);
                Outcome::Acked
            }
            Ok(answer) => {
                self.in_doubt = Some(post);
                Outcome::Refused(answer)
            }
            Err(_) => {
                self.in_doubt = Some(post);
                Outcome::Lost
            }
        }
    }

    fn next(&mut self) -> Post {
        self.posts += 1;
        Post {
            session: self.sessions[self.posts % self.sessions.len()].clone(),
            name: format!("{}.{}", self.name, self.posts),
            size: if self.posts.is_multiple_of(2) { BATCH } else { 1 },
        }
    }

    fn keep(&mut self, post: &Post, answer: &Value) {
        let events = answer["events"].as_array().unwrap();
        assert_eq!(events.len(), post.size, "{answer}");
        for (external, event) in post.externals().zip(events) {
            assert_eq!(event["external_event_id"], *external, "{answer}");
            let sequence = event["sequence"].as_u64().unwrap();
            self.acked.push(Acked { session: post.session.clone(), external, sequence });
        }
    }

    /// Turns to something new, and never tries what is in doubt again.
    pub fn give_up_doubt(&mut self) {
        self.given_up.extend(self.in_doubt.take());
    }

    pub fn acked(&self) -> usize {
        self.acked.len()
    }
}

/// One event as a log tells it.
#[derive(Clone, Debug)]
pub struct Line {
    pub sequence: u64,
    pub kind: String,
    pub external: Option<String>,
    pub text: Option<String>,
}

/// Reads a log to its end. Its sequences are dense from 1.
pub async fn read_log(client: &Client, session: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    loop {
        let after = lines.len();
        let path = format!("/api/sessions/{session}/events?after_sequence={after}&limit=1000");
        let page = client.get(&path).await.expect(200);
        for event in page["events"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            lines.push(Line {
                sequence: event["sequence"].as_u64().unwrap(),
                kind: text(&event["type"]).unwrap(),
                external: text(&event["external_event_id"]),
                text: text(&event["content"][0]["text"]),
            });
            assert_eq!(
                lines.last().unwrap().sequence,
                lines.len() as u64,
                "{session} has a hole or a repeat"
            );
        }
        if page["has_more"] == false {
            assert_eq!(page["last_sequence"], lines.len(), "{session} ends elsewhere than it says");
            return lines;
        }
    }
}

/// Checks the logs of all sessions against what all writers were promised. Returns how many events
/// were acknowledged.
pub async fn check(client: &Client, writers: &[Writer]) -> usize {
    let mut logs: HashMap<&str, Vec<Line>> = HashMap::new();
    for session in &writers[0].sessions {
        let log = read_log(client, session).await;
        check_log(session, &log);
        logs.insert(session, log);
    }
    let mut count = 0;
    for acked in writers.iter().flat_map(|writer| &writer.acked) {
        let index = usize::try_from(acked.sequence).unwrap() - 1;
        let line = logs[acked.session.as_str()].get(index);
        let line = line.unwrap_or_else(|| panic!("{acked:?} was acknowledged and is lost"));
        assert_eq!(line.external.as_ref(), Some(&acked.external), "another event stands at {acked:?}");
        count += 1;
    }
    count
}

/// Every event of a writer is there once, with its own text, and its post is whole and in order.
fn check_log(session: &str, log: &[Line]) {
    let mut seen = HashSet::new();
    for (index, line) in log.iter().enumerate() {
        let Some(external) = &line.external else { continue };
        assert!(seen.insert(external), "{session} has {external} twice");
        assert_eq!(line.text.as_ref(), Some(&text_of(external)), "{session} has another text at {line:?}");
        let (post, place) = external.rsplit_once('.').unwrap();
        let (place, size) = place.split_once("of").unwrap();
        let (place, size): (usize, usize) = (place.parse().unwrap(), size.parse().unwrap());
        for other in 1..=size {
            let at = (index + other).checked_sub(place).and_then(|at| log.get(at));
            let beside = at.and_then(|line| line.external.clone());
            assert_eq!(
                beside,
                Some(format!("{post}.{other}of{size}")),
                "{session}: the batch of {line:?} is torn"
            );
        }
    }
}

/// None of what writers were refused, and never tried again, stands in a log.
pub async fn check_refused_left_no_trace(client: &Client, writers: &[Writer]) -> usize {
    let mut there = HashSet::new();
    for session in &writers[0].sessions {
        there.extend(read_log(client, session).await.into_iter().filter_map(|line| line.external));
    }
    let refused: Vec<&Post> = writers.iter().flat_map(|writer| &writer.given_up).collect();
    for external in refused.iter().flat_map(|post| post.externals()) {
        assert!(!there.contains(&external), "{external} was refused and is there");
    }
    refused.len()
}
