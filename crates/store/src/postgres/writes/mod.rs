//! Statements that write many rows at once, and the pipeline that sends them without waiting in between.

use std::borrow::Cow;

use deadpool_postgres::Object;
use futures_util::future::{join, join_all};
use postgres_types::ToSql;
use sederunt_core::event::Event;
use sederunt_core::session::{Head, Session};
use sederunt_core::store::{IdemKey, Replay};
use sederunt_core::time::Timestamp;
use tokio_postgres::Statement;
use uuid::Uuid;

use super::fault::{Fault, Result};
use super::tx::{Param, int};

/// Statements sent without waiting; beyond it the driver no longer promises their order.
const PIPELINE_MAX: usize = 24;

/// Statements of one transaction.
#[derive(Default)]
pub(in crate::postgres) struct Writes<'a> {
    /// None of them reads or writes a row that another one writes: they are sent as one.
    independent: Vec<BoundStatement<'a>>,
    /// What comes after them, in order.
    then: Vec<BoundStatement<'a>>,
}

/// A statement and its parameters.
pub(in crate::postgres) type BoundStatement<'a> = (&'static str, Vec<Cell<'a>>);

/// A parameter, lent or given.
pub(in crate::postgres) enum Cell<'a> {
    Borrowed(Param<'a>),
    Owned(Box<dyn ToSql + Sync + Send + 'a>),
}

/// Parameters that the statement keeps for itself.
macro_rules! cells {
    ($($value:expr),+ $(,)?) => { vec![$($crate::postgres::writes::Cell::Owned(Box::new($value))),+] };
}
pub(in crate::postgres) use cells;

/// The tenant, and an array for each column of its rows.
macro_rules! columns {
    ($tk:expr, $rows:expr, $row:ident => $($value:expr),+ $(,)?) => {
        vec![
            $crate::postgres::writes::Cell::Owned(Box::new($tk)),
            $($crate::postgres::writes::Cell::Owned(Box::new(
                $rows.iter().map(|$row| $value).collect::<Vec<_>>(),
            ))),+
        ]
    };
}
pub(in crate::postgres) use columns;

fn params<'s>(cells: &'s [Cell<'_>]) -> Vec<Param<'s>> {
    cells
        .iter()
        .map(|cell| match cell {
            Cell::Borrowed(param) => *param as Param<'s>,
            Cell::Owned(value) => &**value as Param<'s>,
        })
        .collect()
}

/// A commit that did not come back as done.
#[derive(Debug)]
pub(in crate::postgres) struct CommitFailure {
    pub(in crate::postgres) fault: Fault,
    /// Whether it is sure that nothing was written.
    pub(in crate::postgres) certain: bool,
}

impl From<Fault> for CommitFailure {
    fn from(fault: Fault) -> Self {
        Self { fault, certain: true }
    }
}

impl From<tokio_postgres::Error> for CommitFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).into()
    }
}

impl<'a> Writes<'a> {
    /// Rows of a table that nothing else here touches.
    pub(in crate::postgres) fn add(&mut self, (sql, cells): BoundStatement<'a>) {
        self.independent.push((sql, cells));
    }

    /// The same with parameters that are kept elsewhere.
    pub(in crate::postgres) fn add_borrowed(&mut self, sql: &'static str, params: impl Into<Vec<Param<'a>>>) {
        self.add((sql, params.into().into_iter().map(Cell::Borrowed).collect()));
    }

    /// What comes after all of them.
    pub(in crate::postgres) fn add_after(&mut self, sql: &'static str, cells: Vec<Cell<'a>>) {
        self.then.push((sql, cells));
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.independent.is_empty() && self.then.is_empty()
    }

    /// Sends everything and waits for all answers.
    pub(in crate::postgres) async fn run(self, client: &Object) -> Result<()> {
        for portion in self.into_statements().chunks(PIPELINE_MAX) {
            send(client, portion).await?;
        }
        Ok(())
    }

    /// Sends everything with the commit behind it, as a rule in one round trip.
    pub(in crate::postgres) async fn run_and_commit(self, client: &Object) -> Result<(), CommitFailure> {
        let mut list = self.into_statements();
        let rest = list.split_off(list.len().saturating_sub(PIPELINE_MAX));
        for portion in list.chunks(PIPELINE_MAX) {
            send(client, portion).await?;
        }
        let statements = prepare(client, &rest).await?;
        let params: Vec<_> = rest.iter().map(|(_, cells)| params(cells)).collect();
        let sent =
            params.iter().zip(&statements).map(|(params, statement)| client.execute(statement, params));
        let (answers, ended) = join(join_all(sent), client.batch_execute("COMMIT")).await;
        for answer in answers {
            if let Err(error) = answer {
                let fault = Fault::from(error);
                // A statement that the server has refused voids the commit behind it. A silent end says nothing.
                return Err(CommitFailure { certain: fault.is_verdict(), fault });
            }
        }
        ended.map_err(|error| CommitFailure { fault: error.into(), certain: false })
    }

    fn into_statements(self) -> Vec<(Cow<'static, str>, Vec<Cell<'a>>)> {
        let then = self.then.into_iter().map(|(sql, cells)| (Cow::Borrowed(sql), cells));
        combined(self.independent).into_iter().chain(then).collect()
    }
}

/// Statements as one that does all of them: every answer of the server is a message, and somebody who wakes up.
fn combined(mut list: Vec<BoundStatement<'_>>) -> Option<(Cow<'static, str>, Vec<Cell<'_>>)> {
    let (last, mut cells) = list.pop()?;
    if list.is_empty() {
        return Some((last.into(), cells));
    }
    let mut sql = String::new();
    let mut all = Vec::new();
    for (nth, (one, mut cells)) in list.into_iter().enumerate() {
        sql.push_str(if nth == 0 { "WITH w" } else { "), w" });
        sql.push_str(&nth.to_string());
        sql.push_str(" AS (");
        push_shifted(&mut sql, one, all.len());
        all.append(&mut cells);
    }
    sql.push_str(") ");
    push_shifted(&mut sql, last, all.len());
    all.append(&mut cells);
    Some((sql.into(), all))
}

/// Adds a statement whose parameters come after so many others.
pub(in crate::postgres) fn push_shifted(sql: &mut String, one: &str, by: usize) {
    for (nth, piece) in one.split('$').enumerate() {
        if nth == 0 {
            sql.push_str(piece);
            continue;
        }
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = piece.split_at(digits);
        sql.push('$');
        sql.push_str(&(number.parse::<usize>().unwrap_or(0) + by).to_string());
        sql.push_str(rest);
    }
}

async fn prepare(client: &Object, list: &[(Cow<'static, str>, Vec<Cell<'_>>)]) -> Result<Vec<Statement>> {
    let mut statements = Vec::with_capacity(list.len());
    for (sql, _) in list {
        statements.push(client.prepare_cached(sql).await?);
    }
    Ok(statements)
}

async fn send(client: &Object, list: &[(Cow<'static, str>, Vec<Cell<'_>>)]) -> Result<()> {
    let statements = prepare(client, list).await?;
    let params: Vec<_> = list.iter().map(|(_, cells)| params(cells)).collect();
    let sent = params.iter().zip(&statements).map(|(params, statement)| client.execute(statement, params));
    for answer in join_all(sent).await {
        answer?;
    }
    Ok(())
}

/// Rows of `events`.
#[derive(Default)]
pub(in crate::postgres) struct EventRows<'a> {
    tk: Vec<i32>,
    log: Vec<i64>,
    seq: Vec<i64>,
    kind: Vec<&'a str>,
    content: Vec<Option<&'a str>>,
    metadata: Vec<Option<&'a str>>,
    subthread: Vec<Option<&'a str>>,
    external: Vec<Option<&'a str>>,
    turn: Vec<Option<i64>>,
    author: Vec<Option<&'a str>>,
    at: Vec<i64>,
    ids: ExternalRows<'a>,
}

#[derive(Default)]
struct ExternalRows<'a> {
    tk: Vec<i32>,
    log: Vec<i64>,
    id: Vec<&'a str>,
    seq: Vec<i64>,
}

macro_rules! columns_of_events {
    () => {
        "tk, log, seq, type, content, metadata, subthread_id, external_id, turn, author, at"
    };
}
macro_rules! rows_of_events {
    () => {
        "SELECT unnest($1::integer[]) AS tk, unnest($2::bigint[]) AS log, unnest($3::bigint[]) AS seq,
             unnest($4::text[]) AS type, unnest($5::text[]) AS content, unnest($6::text[]) AS metadata,
             unnest($7::text[]) AS subthread_id, unnest($8::text[]) AS external_id, unnest($9::bigint[]) AS turn,
             unnest($10::text[]) AS author, unnest($11::bigint[]) AS at"
    };
}

impl<'a> EventRows<'a> {
    pub(in crate::postgres) fn push(&mut self, tk: i32, log: i64, event: &'a Event) {
        self.tk.push(tk);
        self.log.push(log);
        self.seq.push(int(event.sequence));
        self.kind.push(event.kind.as_str());
        self.content.push(event.content.as_ref().map(|json| json.as_str()));
        self.metadata.push(event.metadata.as_ref().map(|json| json.as_str()));
        self.subthread.push(event.subthread_id.as_deref());
        self.external.push(event.external_event_id.as_deref());
        self.turn.push(event.turn.map(int));
        self.author.push(event.author.as_deref());
        self.at.push(event.at.as_micros());
        if let Some(id) = event.external_event_id.as_deref() {
            self.ids.tk.push(tk);
            self.ids.log.push(log);
            self.ids.id.push(id);
            self.ids.seq.push(int(event.sequence));
        }
    }

    /// Inserts those of the rows `e` that a condition behind it lets pass. Takes [`Self::params`].
    pub(in crate::postgres) const INSERT_SOME: &'static str = concat!(
        "INSERT INTO events (",
        columns_of_events!(),
        ") SELECT ",
        columns_of_events!(),
        " FROM (",
        rows_of_events!(),
        ") e"
    );

    /// Without what is kept of external ids.
    pub(in crate::postgres) fn params<'w>(&'w self) -> Vec<Param<'w>> {
        vec![
            &self.tk, &self.log, &self.seq, &self.kind, &self.content, &self.metadata, &self.subthread,
            &self.external, &self.turn, &self.author, &self.at,
        ]
    }

    pub(in crate::postgres) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        if !self.tk.is_empty() {
            writes.add_borrowed(
                concat!("INSERT INTO events (", columns_of_events!(), ") ", rows_of_events!()),
                self.params(),
            );
        }
        if !self.ids.tk.is_empty() {
            writes.add_borrowed(
                "INSERT INTO external_ids (tk, log, external_id, seq)
                 SELECT * FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::bigint[])",
                [&self.ids.tk as Param<'w>, &self.ids.log, &self.ids.id, &self.ids.seq],
            );
        }
    }
}

/// Heads as an append leaves them: counters, and the preview where there is a new one.
#[derive(Default)]
pub(in crate::postgres) struct CounterRows<'a> {
    tk: Vec<i32>,
    sk: Vec<i64>,
    last_sequence: Vec<i64>,
    last_at: Vec<i64>,
    active_minute: Vec<i64>,
    message_count: Vec<i64>,
    bytes: Vec<i64>,
    turn_count: Vec<i64>,
    turn_sequence: Vec<Option<i64>>,
    turn_answered: Vec<bool>,
    described: Vec<bool>,
    deadline_at: Vec<Option<i64>>,
    preview: Vec<Option<&'a str>>,
}

/// Advances heads; what else is set, drawn from parameters, done first and asked for comes in between.
macro_rules! advance_heads {
    ($set:literal, $columns:literal, $first:literal, $and:literal) => {
        concat!(
            "UPDATE session_heads h SET last_sequence = u.last_sequence, last_at = u.last_at,
                 active_minute = u.active_minute, message_count = u.message_count, turn_count = u.turn_count,
                 turn_sequence = u.turn_sequence, turn_answered = u.turn_answered, described = u.described,
                 deadline_at = u.deadline_at, bytes = u.bytes", $set, "
             FROM (SELECT unnest($1::integer[]) AS tk, unnest($2::bigint[]) AS sk, unnest($3::bigint[]) AS last_sequence,
                 unnest($4::bigint[]) AS last_at, unnest($5::bigint[]) AS active_minute,
                 unnest($6::bigint[]) AS message_count, unnest($7::bigint[]) AS turn_count,
                 unnest($8::bigint[]) AS turn_sequence, unnest($9::boolean[]) AS turn_answered,
                 unnest($10::boolean[]) AS described, unnest($11::bigint[]) AS deadline_at, unnest($12::bigint[]) AS bytes", $columns,
                 $first, ") u
             WHERE h.tk = u.tk AND h.sk = u.sk", $and
        )
    };
}

impl<'a> CounterRows<'a> {
    pub(in crate::postgres) fn push(&mut self, tk: i32, sk: i64, head: &'a Head) {
        self.tk.push(tk);
        self.sk.push(sk);
        self.last_sequence.push(int(head.last_sequence));
        self.last_at.push(head.last_at.as_micros());
        self.active_minute.push(head.last_at.minute());
        self.message_count.push(int(head.message_count));
        self.bytes.push(int(head.bytes));
        self.turn_count.push(int(head.turn_count));
        self.turn_sequence.push(head.turn.map(|turn| int(turn.sequence)));
        self.turn_answered.push(head.turn.is_some_and(|turn| turn.answered));
        self.described.push(head.described);
        self.deadline_at.push(head.deadline_at.map(Timestamp::as_micros));
        self.preview.push(head.preview.as_deref());
    }

    /// Writes only the rows that a certain transaction wrote, and says which. Takes [`Self::params`], for each row the
    /// transaction, and the tenants, whom it names before it looks at any row: so many in all.
    pub(in crate::postgres) const KNOWN: (&'static str, usize) = (
        advance_heads!(
            "",
            ", unnest($13::xid[]) AS xid",
            " FROM (SELECT set_config('app.tks', $14, true) OFFSET 0) named",
            " AND h.xmin = u.xid RETURNING h.sk"
        ),
        14,
    );
    /// The same with [`Self::params_with_preview`].
    pub(in crate::postgres) const KNOWN_WITH_PREVIEW: (&'static str, usize) = (
        advance_heads!(
            ", preview = u.preview",
            ", unnest($13::text[]) AS preview, unnest($14::xid[]) AS xid",
            " FROM (SELECT set_config('app.tks', $15, true) OFFSET 0) named",
            " AND h.xmin = u.xid RETURNING h.sk"
        ),
        15,
    );

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.tk.is_empty()
    }

    pub(in crate::postgres) fn params<'w>(&'w self) -> Vec<Param<'w>> {
        vec![
            &self.tk, &self.sk, &self.last_sequence, &self.last_at, &self.active_minute, &self.message_count,
            &self.turn_count, &self.turn_sequence, &self.turn_answered, &self.described, &self.deadline_at,
            &self.bytes,
        ]
    }

    pub(in crate::postgres) fn params_with_preview<'w>(&'w self) -> Vec<Param<'w>> {
        let mut params = self.params();
        params.push(&self.preview);
        params
    }

    /// Writes the counters and leaves the preview as it is: the role that appends may not even read it.
    pub(in crate::postgres) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        if !self.is_empty() {
            writes.add_borrowed(advance_heads!("", "", "", ""), self.params());
        }
    }

    pub(in crate::postgres) fn write_with_preview<'w>(&'w self, writes: &mut Writes<'w>) {
        if !self.is_empty() {
            writes.add_borrowed(
                advance_heads!(", preview = u.preview", ", unnest($13::text[]) AS preview", "", ""),
                self.params_with_preview(),
            );
        }
    }
}

/// What a decision changes in a head beyond an append.
#[derive(Default)]
pub(in crate::postgres) struct StateRows<'a> {
    tk: Vec<i32>,
    sk: Vec<i64>,
    holder: Vec<Option<&'a str>>,
    status: Vec<&'a str>,
    inactive: Vec<bool>,
    version: Vec<i64>,
    claim_worker: Vec<Option<&'a str>>,
    claim_credential: Vec<Option<&'a str>>,
    lease_until: Vec<Option<i64>>,
    epoch: Vec<i64>,
    attempts: Vec<i32>,
    stop_requested: Vec<bool>,
    counters: CounterRows<'a>,
}

impl<'a> StateRows<'a> {
    pub(in crate::postgres) fn push(&mut self, tk: i32, sk: i64, head: &'a Head) {
        self.tk.push(tk);
        self.sk.push(sk);
        self.holder.push(head.holder.as_ref().map(|user| user.as_str()));
        self.status.push(head.status.as_str());
        self.inactive.push(head.inactive);
        self.version.push(int(head.version));
        self.claim_worker.push(head.claim.as_ref().map(|claim| &*claim.worker));
        self.claim_credential.push(head.claim.as_ref().map(|claim| claim.credential.as_str()));
        self.lease_until.push(head.claim.as_ref().map(|claim| claim.lease_until.as_micros()));
        self.epoch.push(int(head.epoch));
        self.attempts.push(i32::try_from(head.attempts).unwrap_or(i32::MAX));
        self.stop_requested.push(head.stop_requested);
        self.counters.push(tk, sk, head);
    }

    pub(in crate::postgres) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        if self.tk.is_empty() {
            return;
        }
        writes.add_borrowed(
            "UPDATE session_heads h SET holder = u.holder, status = u.status, inactive = u.inactive, version = u.version,
                 claim_worker = u.claim_worker, claim_credential = u.claim_credential, lease_until = u.lease_until,
                 epoch = u.epoch, attempts = u.attempts, stop_requested = u.stop_requested,
                 last_sequence = u.last_sequence, last_at = u.last_at, active_minute = u.active_minute,
                 message_count = u.message_count, turn_count = u.turn_count, turn_sequence = u.turn_sequence,
                 turn_answered = u.turn_answered, described = u.described, deadline_at = u.deadline_at,
                 preview = u.preview, bytes = u.bytes
             FROM (SELECT unnest($1::integer[]) AS tk, unnest($2::bigint[]) AS sk, unnest($3::text[]) AS holder,
                 unnest($4::text[]) AS status, unnest($5::boolean[]) AS inactive, unnest($6::bigint[]) AS version,
                 unnest($7::text[]) AS claim_worker, unnest($8::text[]) AS claim_credential,
                 unnest($9::bigint[]) AS lease_until, unnest($10::bigint[]) AS epoch, unnest($11::integer[]) AS attempts,
                 unnest($12::boolean[]) AS stop_requested, unnest($13::bigint[]) AS last_sequence,
                 unnest($14::bigint[]) AS last_at, unnest($15::bigint[]) AS active_minute,
                 unnest($16::bigint[]) AS message_count, unnest($17::bigint[]) AS turn_count,
                 unnest($18::bigint[]) AS turn_sequence, unnest($19::boolean[]) AS turn_answered,
                 unnest($20::boolean[]) AS described, unnest($21::bigint[]) AS deadline_at,
                 unnest($22::text[]) AS preview, unnest($23::bigint[]) AS bytes) u
             WHERE h.tk = u.tk AND h.sk = u.sk",
            [
                &self.tk as Param<'w>, &self.sk, &self.holder, &self.status, &self.inactive, &self.version,
                &self.claim_worker, &self.claim_credential, &self.lease_until, &self.epoch, &self.attempts,
                &self.stop_requested, &self.counters.last_sequence, &self.counters.last_at,
                &self.counters.active_minute, &self.counters.message_count, &self.counters.turn_count,
                &self.counters.turn_sequence, &self.counters.turn_answered, &self.counters.described,
                &self.counters.deadline_at, &self.counters.preview, &self.counters.bytes,
            ],
        );
    }
}

/// Heads as claims leave them.
pub(in crate::postgres) struct ClaimedRows<'a> {
    tk: i32,
    sk: Vec<i64>,
    status: Vec<&'a str>,
    worker: Vec<Option<&'a str>>,
    credential: Vec<Option<&'a str>>,
    lease_until: Vec<Option<i64>>,
    version: Vec<i64>,
    epoch: Vec<i64>,
    attempts: Vec<i32>,
    last_sequence: Vec<i64>,
    last_at: Vec<i64>,
    active_minute: Vec<i64>,
    started_at: Vec<Option<i64>>,
}

impl<'a> ClaimedRows<'a> {
    pub(in crate::postgres) fn of(tk: i32) -> Self {
        Self {
            tk,
            sk: Vec::new(),
            status: Vec::new(),
            worker: Vec::new(),
            credential: Vec::new(),
            lease_until: Vec::new(),
            version: Vec::new(),
            epoch: Vec::new(),
            attempts: Vec::new(),
            last_sequence: Vec::new(),
            last_at: Vec::new(),
            active_minute: Vec::new(),
            started_at: Vec::new(),
        }
    }

    pub(in crate::postgres) fn push(&mut self, sk: i64, session: &'a Session) {
        let head = &session.head;
        let claim = head.claim.as_ref();
        self.sk.push(sk);
        self.status.push(head.status.as_str());
        self.worker.push(claim.map(|claim| &*claim.worker));
        self.credential.push(claim.map(|claim| claim.credential.as_str()));
        self.lease_until.push(claim.map(|claim| claim.lease_until.as_micros()));
        self.version.push(int(head.version));
        self.epoch.push(int(head.epoch));
        self.attempts.push(i32::try_from(head.attempts).unwrap_or(i32::MAX));
        self.last_sequence.push(int(head.last_sequence));
        self.last_at.push(head.last_at.as_micros());
        self.active_minute.push(head.last_at.minute());
        self.started_at.push(session.details.started_at.map(Timestamp::as_micros));
    }

    pub(in crate::postgres) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        if self.sk.is_empty() {
            return;
        }
        writes.add_borrowed(
            "UPDATE session_heads h SET status = u.status, claim_worker = u.worker, claim_credential = u.credential,
                 lease_until = u.lease_until, deadline_at = NULL, version = u.version, epoch = u.epoch,
                 attempts = u.attempts, last_sequence = u.last_sequence, last_at = u.last_at,
                 active_minute = u.active_minute, started_at = u.started_at
             FROM (SELECT unnest($2::bigint[]) AS sk, unnest($3::text[]) AS status, unnest($4::text[]) AS worker,
                 unnest($5::text[]) AS credential, unnest($6::bigint[]) AS lease_until,
                 unnest($7::bigint[]) AS version, unnest($8::bigint[]) AS epoch, unnest($9::integer[]) AS attempts,
                 unnest($10::bigint[]) AS last_sequence, unnest($11::bigint[]) AS last_at,
                 unnest($12::bigint[]) AS active_minute, unnest($13::bigint[]) AS started_at) u
             WHERE h.tk = $1 AND h.sk = u.sk",
            [
                &self.tk as Param<'w>, &self.sk, &self.status, &self.worker, &self.credential, &self.lease_until,
                &self.version, &self.epoch, &self.attempts, &self.last_sequence, &self.last_at,
                &self.active_minute, &self.started_at,
            ],
        );
    }
}

/// Descriptions taken from the first text of sessions that nobody described.
#[derive(Default)]
pub(in crate::postgres) struct DescriptionRows<'a> {
    tk: Vec<i32>,
    sk: Vec<i64>,
    text: Vec<&'a str>,
}

impl<'a> DescriptionRows<'a> {
    pub(in crate::postgres) fn push(&mut self, tk: i32, sk: i64, text: &'a str) {
        self.tk.push(tk);
        self.sk.push(sk);
        self.text.push(text);
    }

    pub(in crate::postgres) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        if self.tk.is_empty() {
            return;
        }
        writes.add_borrowed(
            "UPDATE sessions s SET description = u.text, description_source = 'fallback'
             FROM (SELECT unnest($1::integer[]) AS tk, unnest($2::bigint[]) AS sk, unnest($3::text[]) AS text) u
             WHERE s.tk = u.tk AND s.sk = u.sk",
            [&self.tk as Param<'w>, &self.sk, &self.text],
        );
    }
}

/// Idempotency keys with what their commit did.
#[derive(Default)]
pub(in crate::postgres) struct KeyRows {
    tk: Vec<i32>,
    scope: Vec<Vec<u8>>,
    sk: Vec<Option<i64>>,
    body: Vec<Vec<u8>>,
    first: Vec<Option<i64>>,
    last: Vec<Option<i64>>,
    /// As text, since the driver's arrays of arrays must be even.
    sequences: Vec<Option<String>>,
    claims: Vec<Option<String>>,
    note: Vec<Option<Uuid>>,
    at: Vec<i64>,
}

impl KeyRows {
    pub(in crate::postgres) fn push(
        &mut self,
        tk: i32,
        sk: Option<i64>,
        key: &IdemKey,
        replay: &Replay,
        at: Timestamp,
    ) {
        self.tk.push(tk);
        self.scope.push(key.scope.to_vec());
        self.sk.push(sk);
        self.body.push(key.body.to_vec());
        let dense = replay.sequences.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let ends = replay.sequences.first().zip(replay.sequences.last()).filter(|_| dense);
        self.first.push(ends.map(|(first, _)| int(*first)));
        self.last.push(ends.map(|(_, last)| int(*last)));
        let list = (!dense).then(|| array(replay.sequences.iter().map(|sequence| int(*sequence))));
        self.sequences.push(list);
        self.claims.push(None);
        self.note.push(replay.note.map(|note| note.0));
        self.at.push(at.as_micros());
    }

    /// The key of a claim: which sessions it handed out, under which epochs.
    pub(in crate::postgres) fn push_claims(
        &mut self,
        tk: i32,
        key: &IdemKey,
        claims: &[(i64, u64)],
        at: Timestamp,
    ) {
        self.push(tk, None, key, &Replay { sequences: Vec::new(), note: key.note }, at);
        if let Some(last) = self.claims.last_mut() {
            *last = Some(array(claims.iter().flat_map(|(sk, epoch)| [*sk, int(*epoch)])));
        }
    }

    pub(in crate::postgres) fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        if self.tk.is_empty() {
            return;
        }
        // A key that is there already belongs to a session that is gone, or it would have been answered.
        writes.add_borrowed(
            "INSERT INTO idempotency AS i (tk, scope, sk, body, first, last, sequences, claims, note, at)
             SELECT tk, scope, sk, body, first, last, sequences::bigint[], claims::bigint[], note, at
             FROM unnest($1::integer[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[],
                 $8::text[], $9::uuid[], $10::bigint[])
                 AS u (tk, scope, sk, body, first, last, sequences, claims, note, at)
             ON CONFLICT (tk, scope) DO UPDATE SET sk = excluded.sk, body = excluded.body, first = excluded.first,
                 last = excluded.last, sequences = excluded.sequences, claims = excluded.claims, note = excluded.note,
                 at = excluded.at",
            [
                &self.tk as Param<'w>, &self.scope, &self.sk, &self.body, &self.first, &self.last, &self.sequences,
                &self.claims, &self.note, &self.at,
            ],
        );
    }
}

fn array(numbers: impl Iterator<Item = i64>) -> String {
    let list: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{{{}}}", list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_are_sent_as_one_keep_their_parameters_apart() {
        let mut writes = Writes::default();
        writes.add_after("UPDATE a SET f = $1", cells![4]);
        writes.add(("INSERT INTO a SELECT $1, unnest($2::text[])", cells![1, vec!["x"]]));
        writes.add(("UPDATE b SET c = $2 WHERE d = $1", cells![2, 3]));
        writes.add(("DELETE FROM e", vec![]));
        let list = writes.into_statements();
        let texts: Vec<(&str, usize)> = list.iter().map(|(sql, cells)| (&**sql, cells.len())).collect();
        let one = "WITH w0 AS (INSERT INTO a SELECT $1, unnest($2::text[])), w1 AS (UPDATE b SET c = $4 WHERE d = $3) \
                   DELETE FROM e";
        assert_eq!(texts, [(one, 4), ("UPDATE a SET f = $1", 1)]);
    }

    #[test]
    fn a_single_statement_is_sent_as_it_is() {
        let mut writes = Writes::default();
        writes.add(("DELETE FROM a WHERE b = $1", cells![1]));
        assert_eq!(writes.into_statements()[0].0, "DELETE FROM a WHERE b = $1");
        assert!(Writes::default().into_statements().is_empty());
    }
}
