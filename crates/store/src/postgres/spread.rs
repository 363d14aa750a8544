//! What nodes tell each other: which logs have grown, never what was said. At most one burst of notifications in
//! 20 ms, after the commit; a listener that lost its connection doubts everything; a poll catches what got lost.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::ids::{Incarnation, SessionId, TenantId, random_hex};
use sederunt_core::live::{Delta, Hint};
use sederunt_core::session::Status;
use sederunt_core::store::Notice;
use tokio::sync::{Notify, mpsc, watch};

use super::connect::{Address, Role};
use super::fault::Result;
use super::tx::{Base, Scope, count};

/// Between two bursts: every notifying commit takes a lock that all of the server shares.
const BURST_EVERY: Duration = Duration::from_millis(20);
/// The server takes payloads below 8000 bytes.
const PAYLOAD_MAX: usize = 7_900;
/// Room for what stands before the text of a delta.
const DELTA_TEXT_MAX: usize = 7_600;
/// Sessions named in one burst; beyond it everyone is told to look for themselves.
const NAMED_MAX: usize = 4_096;
/// Bytes of deltas in one burst; more are dropped, since the finished message arrives anyway.
const DELTA_BYTES_MAX: usize = 1024 * 1024;
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Logs asked for in one statement of the poll.
const POLL_LOGS_MAX: usize = 1_000;
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// The channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("{schema}_wake")
}

/// What waits to be told to the other nodes.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Names this node, so that it does not listen to itself.
    node: String,
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    news: Vec<(Incarnation, Hint)>,
    place: HashMap<Incarnation, usize>,
    deltas: Vec<Delta>,
    delta_bytes: usize,
    /// More happened than can be named.
    flood: bool,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { node: random_hex::<6>(), waiting: Mutex::default(), wake: Notify::new() }
    }
}

impl Outbox {
    pub(super) fn put(&self, notices: &[Notice]) {
        {
            let mut waiting = self.waiting.lock();
            for notice in notices {
                waiting.add(notice);
            }
        }
        self.wake.notify_one();
    }

    pub(super) fn put_delta(&self, delta: Delta) {
        {
            let mut waiting = self.waiting.lock();
            waiting.delta_bytes += delta.text.len();
            if waiting.delta_bytes > DELTA_BYTES_MAX {
                return;
            }
            waiting.deltas.push(delta);
        }
        self.wake.notify_one();
    }

    /// Everything that waits, as payloads.
    fn drain(&self) -> Vec<String> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let mut payloads = Vec::new();
        // Deltas first: the message that ends a reply must not overtake its text.
        for delta in joined(waiting.deltas) {
            say_delta(&self.node, &delta, &mut payloads);
        }
        if waiting.flood {
            payloads.push(format!("w\n{}", self.node));
        } else {
            say_news(&self.node, &waiting.news, &mut payloads);
        }
        payloads
    }
}

impl Waiting {
    fn add(&mut self, notice: &Notice) {
        if self.flood {
            return;
        }
        let hint = Hint::of(notice);
        match self.place.get(&notice.incarnation) {
            Some(&at) => {
                let told = &mut self.news[at].1;
                let (row_changed, deleted) = (told.row_changed, told.deleted);
                let last_sequence = told.last_sequence.max(hint.last_sequence);
                *told = hint;
                told.last_sequence = last_sequence;
                told.row_changed |= row_changed;
                told.deleted |= deleted;
            }
            None if self.news.len() == NAMED_MAX => {
                self.flood = true;
                self.news.clear();
                self.place.clear();
            }
            None => {
                self.place.insert(notice.incarnation, self.news.len());
                self.news.push((notice.incarnation, hint));
            }
        }
    }
}

/// Pieces of the same reply that follow each other, as one.
fn joined(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut whole: Vec<Delta> = Vec::new();
    for delta in deltas {
        match whole.iter_mut().rev().find(|known| known.incarnation == delta.incarnation) {
            Some(known) if known.epoch == delta.epoch && known.offset + known.text.len() == delta.offset => {
                known.text = format!("{}{}", known.text, delta.text).into();
            }
            _ => whole.push(delta),
        }
    }
    whole
}

fn say_delta(node: &str, delta: &Delta, payloads: &mut Vec<String>) {
    let mut at = 0;
    while at < delta.text.len() {
        let mut upto = (at + DELTA_TEXT_MAX).min(delta.text.len());
        while !delta.text.is_char_boundary(upto) {
            upto -= 1;
        }
        let (incarnation, epoch, offset) = (delta.incarnation.0.simple(), delta.epoch, delta.offset + at);
        payloads.push(format!("d\n{node}\n{incarnation}\t{epoch}\t{offset}\n{}", &delta.text[at..upto]));
        at = upto;
    }
}

fn say_news(node: &str, news: &[(Incarnation, Hint)], payloads: &mut Vec<String>) {
    let start = format!("c\n{node}");
    let mut payload = start.clone();
    for (incarnation, hint) in news {
        let mut line = String::new();
        // Names hold no control characters, so these separate them.
        let _ = write!(
            line,
            "\n{}\t{}\t{}\t{}\t{}\t{}",
            incarnation.0.simple(),
            hint.last_sequence,
            hint.status,
            u8::from(hint.row_changed) + 2 * u8::from(hint.deleted),
            hint.tenant,
            hint.session
        );
        if payload.len() + line.len() > PAYLOAD_MAX {
            payloads.push(std::mem::replace(&mut payload, start.clone()));
        }
        payload.push_str(&line);
    }
    if payload.len() > start.len() {
        payloads.push(payload);
    }
}

/// Something another node said.
#[derive(Debug, PartialEq)]
enum Heard {
    News(Vec<(Incarnation, Hint)>),
    Delta(Delta),
    Flood,
}

/// Reads a payload. `None` for this node's own, and for what it does not understand.
fn hear(node: &str, payload: &str) -> Option<Heard> {
    let mut parts = payload.splitn(3, '\n');
    let (kind, from, rest) = (parts.next()?, parts.next()?, parts.next());
    if from == node {
        return None;
    }
    match kind {
        "w" => Some(Heard::Flood),
        "c" => rest?.split('\n').map(hear_line).collect::<Option<_>>().map(Heard::News),
        "d" => {
            let (head, text) = rest?.split_once('\n')?;
            let mut fields = head.split('\t');
            Some(Heard::Delta(Delta {
                incarnation: Incarnation(fields.next()?.parse().ok()?),
                epoch: fields.next()?.parse().ok()?,
                offset: fields.next()?.parse().ok()?,
                text: text.into(),
            }))
        }
        _ => None,
    }
}

fn hear_line(line: &str) -> Option<(Incarnation, Hint)> {
    let mut fields = line.split('\t');
    let incarnation = Incarnation(fields.next()?.parse().ok()?);
    let last_sequence = fields.next()?.parse().ok()?;
    let status = Status::parse(fields.next()?)?;
    let flags: u8 = fields.next()?.parse().ok()?;
    let hint = Hint {
        tenant: TenantId::stored(fields.next()?),
        session: SessionId::stored(fields.next()?),
        status,
        last_sequence,
        row_changed: flags & 1 != 0,
        deleted: flags & 2 != 0,
    };
    Some((incarnation, hint))
}

/// Sends bursts until the store closes, and then what is left.
pub(super) async fn tell(base: Arc<Base>, mut closing: watch::Receiver<bool>) {
    loop {
        let last = tokio::select! {
            () = base.outbox.wake.notified() => false,
            _ = closing.wait_for(|closing| *closing) => true,
        };
        let payloads = base.outbox.drain();
        if !payloads.is_empty()
            && let Err(fault) = send(&base, payloads).await
        {
            tracing::warn!(?fault, "the other nodes could not be woken; they find the change by themselves");
            base.outbox.waiting.lock().flood = true;
            base.outbox.wake.notify_one();
            if !last {
                tokio::time::sleep(RECONNECT_MAX).await;
            }
        }
        if last {
            return;
        }
        tokio::time::sleep(BURST_EVERY).await;
    }
}

async fn send(base: &Base, payloads: Vec<String>) -> Result<()> {
    super::tx::within(async {
        let client = base.scan.get().await?;
        let sql =
            client.prepare_cached("SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload").await?;
        client.query(&sql, &[&channel(&base.schema), &payloads]).await?;
        Ok(())
    })
    .await
}

/// Listens on a connection of its own, and comes back whenever it is lost. Answers `ready` once it listens.
pub(super) async fn listen(
    base: Arc<Base>,
    address: Address,
    ready: mpsc::Sender<()>,
    mut closing: watch::Receiver<bool>,
) {
    let mut pause = RECONNECT_FIRST;
    let mut before = false;
    loop {
        match start(&address).await {
            Ok((client, heard)) => {
                if before {
                    base.hub.wake_all();
                }
                before = true;
                pause = RECONNECT_FIRST;
                let _ = ready.try_send(());
                tokio::select! {
                    () = attend(&base, heard) => tracing::warn!("the connection that listens to other nodes was lost; it is opened again"),
                    _ = closing.wait_for(|closing| *closing) => return,
                }
                drop(client);
            }
            Err(fault) => tracing::warn!(?fault, "this node cannot listen to the others; it tries again"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

async fn start(address: &Address) -> Result<(tokio_postgres::Client, mpsc::UnboundedReceiver<String>)> {
    super::tx::within(async {
        let (client, heard) = address.alone().await?;
        let sql = format!("SET ROLE {}; LISTEN {}", Role::Scan.name(), channel(&address.schema));
        client.batch_execute(&sql).await?;
        Ok((client, heard))
    })
    .await
}

async fn attend(base: &Base, mut heard: mpsc::UnboundedReceiver<String>) {
    while let Some(payload) = heard.recv().await {
        match hear(&base.outbox.node, &payload) {
            Some(Heard::News(news)) => {
                for (incarnation, hint) in news {
                    base.known.forget([(hint.tenant.clone(), hint.session.clone())]);
                    base.hub.raised(incarnation, hint.last_sequence, hint);
                }
            }
            Some(Heard::Delta(delta)) => base.hub.delta(&delta),
            Some(Heard::Flood) => base.hub.wake_all(),
            None => {}
        }
    }
}

/// Asks for the logs that somebody listens to here: a notification may have been lost on its way.
pub(super) async fn poll(base: Arc<Base>, mut closing: watch::Receiver<bool>) {
    // What the last look saw. A log that still lags behind it now was told to nobody here: whatever this node had
    // just committed itself has been published meanwhile.
    let mut seen: HashMap<Incarnation, Hint> = HashMap::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_EVERY) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        let listened = base.hub.listened();
        for (incarnation, mark) in &listened {
            if let Some(hint) = seen.get(incarnation).filter(|hint| hint.last_sequence > *mark) {
                base.hub.raised(*incarnation, hint.last_sequence, hint.clone());
            }
        }
        let now = match look(&base, &listened).await {
            Ok(now) => now,
            Err(fault) => {
                tracing::debug!(?fault, "the poll for other nodes' events has failed");
                continue;
            }
        };
        for (incarnation, hint) in seen {
            if !now.contains_key(&incarnation) && base.hub.listens_to(incarnation) {
                base.hub.raised(
                    incarnation,
                    hint.last_sequence,
                    Hint { row_changed: true, deleted: true, ..hint },
                );
            }
        }
        seen = now;
    }
}

async fn look(base: &Base, listened: &[(Incarnation, u64)]) -> Result<HashMap<Incarnation, Hint>> {
    let sql = "SELECT s.incarnation, h.last_sequence, h.status, t.id, h.id FROM sessions s
         JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
         JOIN tenants t ON t.tk = s.tk WHERE s.incarnation = ANY ($1) AND t.id IS NOT NULL";
    let mut seen = HashMap::with_capacity(listened.len());
    for logs in listened.chunks(POLL_LOGS_MAX) {
        let asked: Vec<uuid::Uuid> = logs.iter().map(|(incarnation, _)| incarnation.0).collect();
        for row in base.read(Scope::All, sql, &[&asked]).await? {
            let hint = Hint {
                tenant: TenantId::stored(row.try_get::<_, &str>(3)?),
                session: SessionId::stored(row.try_get::<_, &str>(4)?),
                status: Status::parse(row.try_get(2)?).unwrap_or(Status::Idle),
                last_sequence: count(row.try_get(1)?),
                row_changed: false,
                deleted: false,
            };
            seen.insert(Incarnation(row.try_get(0)?), hint);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(session: &str, last_sequence: u64) -> Notice {
        Notice {
            tenant: TenantId::stored("t"),
            session: SessionId::stored(session),
            incarnation: Incarnation(uuid::Uuid::from_u128(session.len() as u128)),
            last_sequence,
            events: Vec::new(),
            status: Status::Pending,
            row_changed: last_sequence == 1,
            deleted: false,
        }
    }

    fn heard(payloads: &[String]) -> Vec<Heard> {
        payloads.iter().map(|payload| hear("other", payload).unwrap()).collect()
    }

    #[test]
    fn news_of_one_session_are_told_once_with_its_newest_state() {
        let outbox = Outbox::default();
        outbox.put(&[notice("a", 1), notice("bb", 4), notice("a", 2)]);
        let payloads = outbox.drain();
        let Heard::News(news) = &heard(&payloads)[0] else { panic!() };
        assert_eq!(news.len(), 2);
        assert_eq!((news[0].1.last_sequence, news[0].1.row_changed), (2, true));
        assert_eq!(news[1].1.session.as_str(), "bb");
        assert!(outbox.drain().is_empty());
    }

    #[test]
    fn a_node_does_not_hear_itself() {
        let outbox = Outbox::default();
        outbox.put(&[notice("a", 1)]);
        assert_eq!(hear(&outbox.node, &outbox.drain()[0]), None);
    }

    #[test]
    fn no_payload_is_longer_than_the_server_takes() {
        let outbox = Outbox::default();
        let name = "é".repeat(200);
        let many: Vec<Notice> = (0..500)
            .map(|n| Notice {
                incarnation: Incarnation(uuid::Uuid::from_u128(n)),
                session: SessionId::stored(name.as_str()),
                ..notice("a", 1)
            })
            .collect();
        outbox.put(&many);
        outbox.put_delta(Delta {
            incarnation: Incarnation(uuid::Uuid::nil()),
            epoch: 1,
            offset: 0,
            text: "ü\t\n".repeat(9_000).into(),
        });
        let payloads = outbox.drain();
        assert!(payloads.iter().all(|payload| payload.len() < 8_000));
        let (mut told, mut text) = (0, String::new());
        for heard in heard(&payloads) {
            match heard {
                Heard::News(news) => told += news.len(),
                Heard::Delta(delta) => {
                    assert_eq!(delta.offset, text.len());
                    text.push_str(&delta.text);
                }
                Heard::Flood => panic!(),
            }
        }
        assert_eq!((told, text.len()), (500, 4 * 9_000));
    }

    #[test]
    fn more_than_can_be_named_is_a_flood() {
        let outbox = Outbox::default();
        let many: Vec<Notice> = (0..=NAMED_MAX as u128)
            .map(|n| Notice { incarnation: Incarnation(uuid::Uuid::from_u128(n)), ..notice("a", 1) })
            .collect();
        outbox.put(&many);
        assert_eq!(heard(&outbox.drain()), [Heard::Flood]);
    }
}
