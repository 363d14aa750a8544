//! Notifications between nodes (NOTIFY and LISTEN): which logs have grown, where the text of unfinished replies is, and
//! who is present in sessions (`presence`). They carry nothing of a log. A node sends at most one batch of notifications in 20 ms, after the commits. A
//! listener that lost its connection wakes all its readers, and a poll finds what got lost. Every login of the
//! database can hear and send notifications, so each is sealed (`seal`), and the text of replies goes through a table
//! under row-level security (`reply_pieces`).

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sederunt_core::ids::{Incarnation, SessionId, TenantId};
use sederunt_core::live::{Delta, Hint, ends_reply};
use sederunt_core::presence::PresenceChange;
use sederunt_core::session::Status;
use sederunt_core::store::{DeltaStore, Notice};
use sederunt_core::{Error, limits};
use tokio::sync::{Notify, mpsc, watch};
use uuid::Uuid;

use super::PostgresStore;
use super::connect::{Address, DbRole};
use super::fault::Result;
use super::presence::{self, PresenceBatch, PresenceQueue};
use super::reply_pieces::{self, AnnouncedText, FinishedReply, ReplyLedger, ReplyPiece};
use super::seal::{Opened, SEALED_TEXT_MAX, WakeOpener, WakeSealer, WakeSecret};
use super::tx::{Context, Scope, count};

impl DeltaStore for PostgresStore {
    fn spread_delta(&self, tenant: &TenantId, delta: Delta) {
        self.context.notify_queue.put_delta(tenant, delta);
    }
}

/// Between two batches: every notifying commit takes a lock that the whole server shares.
const SEND_EVERY: Duration = Duration::from_millis(20);
/// Sessions named in one batch; beyond it, the other nodes are told to wake all their readers.
const NAMED_MAX: usize = 4_096;
/// Bytes of replies in one batch; more are dropped, since the finished message arrives anyway.
const DELTA_BYTES_MAX: usize = 1024 * 1024;
/// Unfinished replies that this node sends to others at once; those beyond it arrive as finished messages only.
const REPLIES_MAX: usize = 10_000;
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Polls between two searches for pieces of replies whose node has died.
const OLD_PIECES_EVERY: u32 = 60;
/// Logs that one statement of the poll reads.
const POLL_LOGS_MAX: usize = 1_000;
/// How long notifications wait for the reply text that was announced before them.
const TEXT_WAIT_MAX: Duration = Duration::from_millis(500);
/// Between two log lines about refused notifications.
const REFUSED_LOG_EVERY: Duration = Duration::from_secs(1);
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// The channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("{schema}_wake")
}

/// Reads the secret that the nodes of this installation share.
pub(super) async fn secret(scan: &deadpool_postgres::Pool, schema: &str) -> Result<WakeSecret> {
    super::tx::within(async {
        let row = scan.get().await?.query_one("SELECT key FROM installation", &[]).await?;
        Ok(WakeSecret::of(row.try_get(0)?, schema))
    })
    .await
}

/// What this node has yet to send to the others.
#[derive(Debug)]
pub(super) struct NotifyQueue {
    sealer: WakeSealer,
    secret: WakeSecret,
    waiting: Mutex<PendingNews>,
    finished: Mutex<Vec<FinishedReply>>,
    presence: PresenceQueue,
    wake: Notify,
}

#[derive(Debug, Default)]
struct PendingNews {
    news: Vec<SessionNews>,
    place: HashMap<Incarnation, usize>,
    said: Vec<ReplyChange>,
    said_bytes: usize,
    /// Sessions whose unfinished reply this node is sending.
    speaking: HashSet<Incarnation>,
    /// More sessions changed than a batch can name.
    flood: bool,
}

/// A change of a session.
#[derive(Debug, PartialEq)]
struct SessionNews {
    incarnation: Incarnation,
    hint: Hint,
    /// The message that the unfinished reply became is in the log.
    ends_reply: bool,
}

/// A change of an unfinished reply, in order.
#[derive(Debug)]
enum ReplyChange {
    Piece(TenantId, Delta),
    End(Incarnation),
}

impl NotifyQueue {
    pub(super) fn new(secret: WakeSecret) -> Result<Self, Error> {
        Ok(Self {
            sealer: WakeSealer::new(&secret)?,
            secret,
            waiting: Mutex::default(),
            finished: Mutex::default(),
            presence: PresenceQueue::default(),
            wake: Notify::new(),
        })
    }

    pub(super) fn put(&self, notices: &[Notice]) {
        {
            let mut waiting = self.waiting.lock();
            for notice in notices {
                waiting.add(notice);
            }
        }
        self.wake.notify_one();
    }

    pub(super) fn put_delta(&self, tenant: &TenantId, delta: Delta) {
        {
            let mut waiting = self.waiting.lock();
            // Readers are not shown text beyond this (see `live::reply`).
            if delta.offset + delta.text.len() > limits::DELTA_TEXT_BYTES_MAX
                || waiting.said_bytes + delta.text.len() > DELTA_BYTES_MAX
            {
                return;
            }
            if !waiting.speaking.contains(&delta.incarnation) {
                if waiting.speaking.len() >= REPLIES_MAX {
                    return;
                }
                waiting.speaking.insert(delta.incarnation);
            }
            waiting.said_bytes += delta.text.len();
            waiting.add_text(tenant, delta);
        }
        self.wake.notify_one();
    }

    pub(super) fn put_presence(&self, changes: impl IntoIterator<Item = PresenceChange>) {
        self.presence.put(changes);
        self.wake.notify_one();
    }

    /// Asks the other nodes who is present there.
    fn ask_presence(&self) {
        self.presence.ask();
        self.wake.notify_one();
    }

    /// Another node has ended a reply of this node.
    fn end_reply(&self, incarnation: Incarnation) {
        self.waiting.lock().end_reply(incarnation);
    }

    /// Takes everything that is pending. The set of unfinished replies stays.
    fn drain(&self) -> PendingNews {
        let mut waiting = self.waiting.lock();
        let speaking = std::mem::take(&mut waiting.speaking);
        let drained = std::mem::take(&mut *waiting);
        waiting.speaking = speaking;
        drained
    }

    fn seal(&self, texts: &[String]) -> Result<Vec<String>, Error> {
        texts.iter().map(|text| self.sealer.seal(text)).collect()
    }
}

impl PendingNews {
    fn add(&mut self, notice: &Notice) {
        let ends_reply =
            !self.speaking.is_empty() && ends_reply(notice) && self.end_reply(notice.incarnation);
        if self.flood {
            return;
        }
        let hint = Hint::of(notice);
        match self.place.get(&notice.incarnation) {
            Some(&at) => {
                let told = &mut self.news[at];
                told.ends_reply |= ends_reply;
                let Hint { row_changed, deleted, is_activity, .. } = told.hint;
                let last_sequence = told.hint.last_sequence.max(hint.last_sequence);
                told.hint = hint;
                told.hint.last_sequence = last_sequence;
                told.hint.row_changed |= row_changed;
                told.hint.deleted |= deleted;
                told.hint.is_activity &= is_activity;
            }
            None if self.news.len() == NAMED_MAX => {
                self.flood = true;
                self.news.clear();
                self.place.clear();
            }
            None => {
                self.place.insert(notice.incarnation, self.news.len());
                self.news.push(SessionNews { incarnation: notice.incarnation, hint, ends_reply });
            }
        }
    }

    /// Adds the text to the piece before it if it continues that piece.
    fn add_text(&mut self, tenant: &TenantId, delta: Delta) {
        let before = self.said.iter_mut().rev().find_map(|said| match said {
            ReplyChange::Piece(_, known) if known.incarnation == delta.incarnation => Some(Some(known)),
            ReplyChange::End(incarnation) if *incarnation == delta.incarnation => Some(None),
            ReplyChange::Piece(..) | ReplyChange::End(_) => None,
        });
        match before.flatten() {
            Some(known) if known.epoch == delta.epoch && known.offset + known.text.len() == delta.offset => {
                known.text = format!("{}{}", known.text, delta.text).into();
            }
            _ => self.said.push(ReplyChange::Piece(tenant.clone(), delta)),
        }
    }

    /// Returns whether this node was sending that reply.
    fn end_reply(&mut self, incarnation: Incarnation) -> bool {
        let spoke = self.speaking.remove(&incarnation);
        if spoke {
            self.said.push(ReplyChange::End(incarnation));
        }
        spoke
    }
}

/// Packs lines into texts that fit into one notification each, every text with its kind in the first line.
fn encode_lines(kind: &str, lines: impl Iterator<Item = String>, texts: &mut Vec<String>) {
    let mut text = kind.to_owned();
    for line in lines {
        if text.len() + 1 + line.len() > SEALED_TEXT_MAX {
            texts.push(std::mem::replace(&mut text, kind.to_owned()));
        }
        let _ = write!(text, "\n{line}");
    }
    if text.len() > kind.len() {
        texts.push(text);
    }
}

fn encode_announced(one: &AnnouncedText) -> String {
    let AnnouncedText { incarnation, tk, epoch, offset, reply, first, last } = one;
    format!("{}\t{tk}\t{epoch}\t{offset}\t{reply}\t{first}\t{last}", incarnation.0.simple())
}

fn encode_news(SessionNews { incarnation, hint, ends_reply }: &SessionNews) -> String {
    let status = Status::ALL.iter().position(|status| *status == hint.status).unwrap_or_default();
    let flags = u8::from(hint.row_changed)
        + 2 * u8::from(hint.deleted)
        + 4 * u8::from(*ends_reply)
        + 8 * u8::from(hint.is_activity);
    // Names hold no control characters, so these separate the fields.
    format!(
        "{}\t{}\t{status}\t{flags}\t{}\t{}",
        incarnation.0.simple(),
        hint.last_sequence,
        hint.tenant,
        hint.session
    )
}

/// A message of another node.
#[derive(Debug, PartialEq)]
enum NodeMessage {
    Text(Vec<AnnouncedText>),
    News(Vec<SessionNews>),
    Presence(Vec<PresenceChange>),
    /// A node that does not know yet who is present here.
    PresenceAsked,
    Flood,
}

/// Decodes an opened text. `None` for kinds that only a newer node knows.
fn decode(text: &str) -> Option<NodeMessage> {
    let (kind, lines) = text.split_once('\n').unwrap_or((text, ""));
    match kind {
        "w" => Some(NodeMessage::Flood),
        "q" => Some(NodeMessage::PresenceAsked),
        "p" => lines.split('\n').map(presence::decode).collect::<Option<_>>().map(NodeMessage::Presence),
        "c" => lines.split('\n').map(decode_news).collect::<Option<_>>().map(NodeMessage::News),
        "r" => lines.split('\n').map(decode_announced).collect::<Option<_>>().map(NodeMessage::Text),
        _ => None,
    }
}

fn decode_announced(line: &str) -> Option<AnnouncedText> {
    let mut fields = line.split('\t');
    Some(AnnouncedText {
        incarnation: Incarnation(fields.next()?.parse().ok()?),
        tk: fields.next()?.parse().ok()?,
        epoch: fields.next()?.parse().ok()?,
        offset: fields.next()?.parse().ok()?,
        reply: fields.next()?.parse().ok()?,
        first: fields.next()?.parse().ok()?,
        last: fields.next()?.parse().ok()?,
    })
}

fn decode_news(line: &str) -> Option<SessionNews> {
    let mut fields = line.split('\t');
    let incarnation = Incarnation(fields.next()?.parse().ok()?);
    let last_sequence = fields.next()?.parse().ok()?;
    let status = *Status::ALL.get(fields.next()?.parse::<usize>().ok()?)?;
    let flags: u8 = fields.next()?.parse().ok()?;
    let hint = Hint {
        tenant: TenantId::stored(fields.next()?),
        session: SessionId::stored(fields.next()?),
        status,
        last_sequence,
        row_changed: flags & 1 != 0,
        deleted: flags & 2 != 0,
        is_activity: flags & 8 != 0,
    };
    Some(SessionNews { incarnation, hint, ends_reply: flags & 4 != 0 })
}

/// Sends batches until the store closes, and then what is left.
pub(super) async fn send_loop(context: Arc<Context>, mut closing: watch::Receiver<bool>) {
    let mut ledger = ReplyLedger::default();
    loop {
        let last = tokio::select! {
            () = context.notify_queue.wake.notified() => false,
            _ = closing.wait_for(|closing| *closing) => true,
        };
        let queue = &context.notify_queue;
        let present = queue.presence.take();
        if let Err(fault) = send(&context, &mut ledger, queue.drain(), &present).await {
            queue.presence.put_back(present);
            tracing::warn!(
                ?fault,
                "this node could not notify the others; it tries again in two seconds, and they wake all their readers then"
            );
            queue.waiting.lock().flood = true;
            queue.wake.notify_one();
            if !last {
                tokio::time::sleep(RECONNECT_MAX).await;
            }
        } else if present.has_more {
            queue.wake.notify_one();
        }
        if last {
            return;
        }
        tokio::time::sleep(SEND_EVERY).await;
    }
}

async fn send(
    context: &Context,
    ledger: &mut ReplyLedger,
    waiting: PendingNews,
    present: &PresenceBatch,
) -> Result<()> {
    let (written, announced, finished) = number_pieces(context, ledger, waiting.said).await?;
    let mut texts = Vec::new();
    // Replies first: the message that ends a reply must not overtake its text.
    encode_lines("r", announced.iter().map(encode_announced), &mut texts);
    if waiting.flood {
        texts.push("w".to_owned());
    } else {
        encode_lines("c", waiting.news.iter().map(encode_news), &mut texts);
    }
    encode_lines("p", present.lines(), &mut texts);
    if present.asks() {
        texts.push("q".to_owned());
    }
    let payloads = context.notify_queue.seal(&texts)?;
    if !written.is_empty() {
        reply_pieces::write(context, context.notify_queue.sealer.node, &written, &payloads).await?;
    } else if !payloads.is_empty() {
        super::tx::within(async {
            let client = context.scan.get().await?;
            let sql = client
                .prepare_cached("SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload")
                .await?;
            client.query(&sql, &[&channel(&context.schema), &payloads]).await?;
            Ok(())
        })
        .await?;
    }
    context.notify_queue.finished.lock().extend(finished);
    Ok(())
}

/// Numbers the pieces of replies, and notes which replies are finished.
async fn number_pieces(
    context: &Context,
    ledger: &mut ReplyLedger,
    said: Vec<ReplyChange>,
) -> Result<(Vec<ReplyPiece>, Vec<AnnouncedText>, Vec<FinishedReply>)> {
    let named = said.iter().filter_map(|said| match said {
        ReplyChange::Piece(tenant, _) => Some(tenant.clone()),
        ReplyChange::End(_) => None,
    });
    let tks = reply_pieces::tenants(context, named).await?;
    let (mut written, mut announced, mut finished) = (Vec::new(), Vec::new(), Vec::new());
    for said in said {
        match said {
            ReplyChange::Piece(tenant, delta) => {
                if let Some(tk) = tks.get(&tenant) {
                    let (piece, one) = ledger.add(*tk, delta);
                    written.push(piece);
                    announced.push(one);
                }
            }
            ReplyChange::End(incarnation) => finished.extend(ledger.finish(incarnation)),
        }
    }
    Ok((written, announced, finished))
}

/// Listens on its own connection, and connects again whenever that is lost. Sends `ready` once it listens.
pub(super) async fn listen(
    context: Arc<Context>,
    address: Address,
    ready: mpsc::Sender<()>,
    mut closing: watch::Receiver<bool>,
) {
    let mut pause = RECONNECT_FIRST;
    let mut before = false;
    let mut opener = MessageOpener {
        opener: WakeOpener::new(context.notify_queue.sealer.node, context.notify_queue.secret.clone()),
        refused: 0,
        logged: None,
    };
    loop {
        match start_listening(&address).await {
            Ok((client, heard)) => {
                if before {
                    context.hub.wake_all();
                }
                before = true;
                context.notify_queue.ask_presence();
                pause = RECONNECT_FIRST;
                let _ = ready.try_send(());
                tokio::select! {
                    () = handle_messages(&context, &mut opener, heard) => {
                        tracing::warn!("the connection that listens to other nodes was lost; this node opens it again");
                    }
                    _ = closing.wait_for(|closing| *closing) => return,
                }
                drop(client);
            }
            Err(fault) => tracing::warn!(
                ?fault,
                "this node cannot listen to the others; it tries again within two seconds"
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}

async fn start_listening(
    address: &Address,
) -> Result<(tokio_postgres::Client, mpsc::UnboundedReceiver<String>)> {
    super::tx::within(async {
        let (client, heard) = address.connect().await?;
        let sql =
            format!("SET ROLE {}; LISTEN {}", DbRole::Scan.name(&address.schema), channel(&address.schema));
        client.batch_execute(&sql).await?;
        Ok((client, heard))
    })
    .await
}

/// Opens notifications, and counts those that it refuses.
struct MessageOpener {
    opener: WakeOpener,
    /// Refused since the last log line.
    refused: u64,
    logged: Option<Instant>,
}

impl MessageOpener {
    fn open(&mut self, payload: &str) -> Option<(Uuid, NodeMessage)> {
        match self.opener.open(payload) {
            Opened::Text { node, text } => Some((node, decode(&text)?)),
            Opened::Own => None,
            Opened::Refused => {
                self.refuse();
                None
            }
        }
    }

    fn refuse(&mut self) {
        metrics::counter!("sederunt_store_wakeups_refused_total").increment(1);
        self.refused += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= REFUSED_LOG_EVERY) {
            tracing::warn!(
                refused = self.refused,
                "dropped notifications that no node of this installation has sealed: another login of the database \
                 sends them, or a node of an older version does"
            );
            self.logged = Some(Instant::now());
            self.refused = 0;
        }
    }
}

async fn handle_messages(
    context: &Context,
    opener: &mut MessageOpener,
    mut heard: mpsc::UnboundedReceiver<String>,
) {
    while let Some(payload) = heard.recv().await {
        match opener.open(&payload) {
            Some((node, NodeMessage::Text(announced))) => fetch_reply_text(context, node, announced).await,
            Some((_, NodeMessage::News(news))) => {
                for SessionNews { incarnation, hint, ends_reply } in news {
                    context.head_cache.forget([(hint.tenant.clone(), hint.session.clone())]);
                    // A session that does not run has no unfinished reply.
                    if ends_reply || hint.deleted || hint.status != Status::Running {
                        context.hub.reply_finished(incarnation);
                        context.notify_queue.end_reply(incarnation);
                    }
                    context.hub.raised(incarnation, hint.last_sequence, hint);
                }
            }
            Some((_, NodeMessage::Presence(changes))) => {
                changes.into_iter().for_each(|change| context.hub.presence_heard(change));
            }
            Some((_, NodeMessage::PresenceAsked)) => {
                context.notify_queue.put_presence(context.hub.presence().own());
            }
            Some((_, NodeMessage::Flood)) => context.hub.wake_all(),
            None => {}
        }
    }
}

/// Fetches announced text for the readers of this node. Text that does not come in time arrives as the finished
/// message.
async fn fetch_reply_text(context: &Context, node: Uuid, announced: Vec<AnnouncedText>) {
    let wanted: Vec<AnnouncedText> = announced
        .into_iter()
        .filter(|one| context.hub.listens_to(one.incarnation))
        .filter_map(|one| {
            let length = context.hub.reply_len(one.incarnation, one.epoch);
            pieces_to_read(one, length)
        })
        .collect();
    if wanted.is_empty() {
        return;
    }
    match tokio::time::timeout(TEXT_WAIT_MAX, reply_pieces::read(context, node, &wanted)).await {
        Ok(Ok(deltas)) => deltas.iter().for_each(|delta| context.hub.delta(delta)),
        Ok(Err(fault)) => tracing::debug!(
            ?fault,
            "this node could not read the text of a reply of another node; readers get the finished message"
        ),
        Err(_) => tracing::debug!(
            "the text of a reply of another node did not come in time; readers get the finished message"
        ),
    }
}

/// The pieces to read, given how much of the reply this node has: the announced ones, all from the beginning, or
/// none.
fn pieces_to_read(announced: AnnouncedText, length: usize) -> Option<AnnouncedText> {
    if length == announced.offset {
        Some(announced)
    } else if length > announced.offset && announced.offset > 0 {
        None
    } else {
        Some(AnnouncedText { first: announced.reply, ..announced })
    }
}

/// Polls the logs that readers of this node follow: a notification may have been lost.
pub(super) async fn poll(context: Arc<Context>, mut closing: watch::Receiver<bool>) {
    // The logs as the last poll saw them. If the hub is still behind that, the notification was lost: this node's own
    // commits have been published meanwhile.
    let mut seen: HashMap<Incarnation, Hint> = HashMap::new();
    let mut finished = Vec::new();
    let mut polls = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_EVERY) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        // Replies that were finished before the last poll: their readers have had the time to read the last pieces.
        let gone =
            std::mem::replace(&mut finished, std::mem::take(&mut *context.notify_queue.finished.lock()));
        if let Err(fault) = delete_pieces(&context, &gone, polls).await {
            tracing::debug!(
                ?fault,
                "this node could not delete the text of finished replies; the next poll tries again"
            );
            finished.extend(gone);
        }
        polls = (polls + 1) % OLD_PIECES_EVERY;
        let listened = context.hub.listened();
        for (incarnation, mark) in &listened {
            if let Some(hint) = seen.get(incarnation).filter(|hint| hint.last_sequence > *mark) {
                context.hub.raised(*incarnation, hint.last_sequence, hint.clone());
            }
        }
        let (now, silent) = match read_logs(&context, &listened).await {
            Ok(found) => found,
            Err(fault) => {
                tracing::debug!(
                    ?fault,
                    "the poll for events of other nodes failed; the next one tries again"
                );
                continue;
            }
        };
        if !silent.is_empty() {
            match reply_pieces::paused(&context, &silent).await {
                Ok(deltas) => deltas.iter().for_each(|delta| context.hub.delta(delta)),
                Err(fault) => tracing::debug!(
                    ?fault,
                    "the poll for replies of other nodes failed; the next one tries again"
                ),
            }
        }
        for (incarnation, hint) in seen {
            if !now.contains_key(&incarnation) && context.hub.listens_to(incarnation) {
                context.hub.raised(
                    incarnation,
                    hint.last_sequence,
                    Hint { row_changed: true, deleted: true, is_activity: false, ..hint },
                );
            }
        }
        seen = now;
    }
}

/// Deletes pieces that no reader needs any more.
async fn delete_pieces(context: &Context, finished: &[FinishedReply], polls: u32) -> Result<()> {
    reply_pieces::remove(context, context.notify_queue.sealer.node, finished).await?;
    if polls == 0 {
        reply_pieces::remove_old(context).await?;
    }
    Ok(())
}

/// Reads the state of the logs, and finds running sessions of whose reply this node has no text.
async fn read_logs(
    context: &Context,
    listened: &[(Incarnation, u64)],
) -> Result<(HashMap<Incarnation, Hint>, Vec<(i32, Incarnation)>)> {
    let sql = "SELECT s.incarnation, h.last_sequence, h.status, t.id, h.id, s.tk, h.is_bridge FROM sessions s
         JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
         JOIN tenants t ON t.tk = s.tk WHERE s.incarnation = ANY ($1) AND t.id IS NOT NULL";
    let mut seen = HashMap::with_capacity(listened.len());
    let mut silent = Vec::new();
    for logs in listened.chunks(POLL_LOGS_MAX) {
        let asked: Vec<uuid::Uuid> = logs.iter().map(|(incarnation, _)| incarnation.0).collect();
        for row in context.read(Scope::All, sql, &[&asked]).await? {
            let hint = Hint {
                tenant: TenantId::stored(row.try_get::<_, &str>(3)?),
                session: SessionId::stored(row.try_get::<_, &str>(4)?),
                status: Status::parse(row.try_get(2)?).unwrap_or(Status::Idle),
                last_sequence: count(row.try_get(1)?),
                row_changed: false,
                deleted: false,
                is_activity: row.try_get(6)?,
            };
            let incarnation = Incarnation(row.try_get(0)?);
            if hint.status == Status::Running && !context.hub.has_reply(incarnation) {
                silent.push((row.try_get(5)?, incarnation));
            }
            seen.insert(incarnation, hint);
        }
    }
    Ok((seen, silent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> NotifyQueue {
        NotifyQueue::new(WakeSecret::of(&[7; 32], "s")).unwrap()
    }

    fn notice(session: &str, last_sequence: u64) -> Notice {
        Notice {
            tenant: TenantId::stored("t"),
            session: SessionId::stored(session),
            incarnation: Incarnation(Uuid::from_u128(session.len() as u128)),
            last_sequence,
            events: Vec::new(),
            status: Status::Pending,
            row_changed: last_sequence == 1,
            deleted: false,
        }
    }

    fn told(waiting: &PendingNews) -> Vec<String> {
        let mut texts = Vec::new();
        encode_lines("c", waiting.news.iter().map(encode_news), &mut texts);
        texts
    }

    #[test]
    fn news_of_one_session_are_told_once_with_its_newest_state() {
        let queue = queue();
        queue.put(&[notice("a", 1), notice("bb", 4), notice("a", 2)]);
        let drained = queue.drain();
        let texts = told(&drained);
        let Some(NodeMessage::News(news)) = decode(&texts[0]) else { panic!() };
        assert_eq!(news, drained.news);
        assert_eq!(news.len(), 2);
        assert_eq!((news[0].hint.last_sequence, news[0].hint.row_changed), (2, true));
        assert_eq!(news[1].hint.session.as_str(), "bb");
        assert!(queue.drain().news.is_empty());
    }

    #[test]
    fn no_payload_is_longer_than_the_server_takes() {
        let queue = queue();
        let name = "é".repeat(200);
        let many: Vec<Notice> = (0..500)
            .map(|n| Notice {
                incarnation: Incarnation(Uuid::from_u128(n)),
                session: SessionId::stored(name.as_str()),
                ..notice("a", 1)
            })
            .collect();
        queue.put(&many);
        let texts = told(&queue.drain());
        assert!(queue.seal(&texts).unwrap().iter().all(|payload| payload.len() < 8_000));
        let count = |text: &String| match decode(text) {
            Some(NodeMessage::News(news)) => news.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(texts.iter().map(count).sum::<usize>(), 500);
    }

    #[test]
    fn more_than_can_be_named_is_a_flood() {
        let queue = queue();
        let many: Vec<Notice> = (0..=NAMED_MAX as u128)
            .map(|n| Notice { incarnation: Incarnation(Uuid::from_u128(n)), ..notice("a", 1) })
            .collect();
        queue.put(&many);
        let drained = queue.drain();
        assert!(drained.flood && drained.news.is_empty());
        assert_eq!(decode("w"), Some(NodeMessage::Flood));
    }

    #[test]
    fn pieces_of_a_reply_are_joined_until_it_ends() {
        let queue = queue();
        let tenant = TenantId::stored("t");
        let incarnation = notice("a", 1).incarnation;
        let say = |offset, text: &str| {
            queue.put_delta(&tenant, Delta { incarnation, epoch: 1, offset, text: text.into() });
        };
        say(0, "Hel");
        say(3, "lo");
        queue.put(&[Notice { deleted: true, ..notice("a", 2) }]);
        say(0, "Next");
        let drained = queue.drain();
        assert!(drained.news[0].ends_reply);
        let said: Vec<&str> = drained
            .said
            .iter()
            .map(|said| match said {
                ReplyChange::Piece(_, delta) => &*delta.text,
                ReplyChange::End(_) => "|",
            })
            .collect();
        assert_eq!(said, ["Hello", "|", "Next"]);
        say(limits::DELTA_TEXT_BYTES_MAX, "x");
        assert!(queue.drain().said.is_empty(), "one past what late readers are given");
    }

    #[test]
    fn what_is_read_of_an_announced_text_follows_from_what_is_known() {
        let at = |offset| AnnouncedText {
            incarnation: Incarnation(Uuid::nil()),
            tk: 1,
            epoch: 1,
            offset,
            reply: 3,
            first: 8,
            last: 9,
        };
        assert_eq!(decode_announced(&encode_announced(&at(20))), Some(at(20)));
        for (offset, known, first) in [
            (20, 20, Some(8)),
            // A late reader, or one who missed a piece.
            (20, 0, Some(3)),
            (20, 10, Some(3)),
            (20, 30, None),
            // Another reply of the same run.
            (0, 30, Some(3)),
        ] {
            let first_read = pieces_to_read(at(offset), known).map(|one| one.first);
            assert_eq!(first_read, first, "{offset} {known}");
        }
    }
}
