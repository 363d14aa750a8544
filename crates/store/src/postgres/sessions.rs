//! Sessions: how they are read, and the rows beside their heads.

use futures_util::FutureExt as _;
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::quota::{Amount, UseByHolder};
use sederunt_core::session::row::filterable;
use sederunt_core::session::{DescriptionSource, Details, Head, Session};
use sederunt_core::store::{SessionRowStore, StoreFuture, Update};
use sederunt_core::time::Timestamp;

use super::fault::Result;
use super::rows::{Columns, DETAILS, HEAD};
use super::tx::{AS_STORE, Context, Scope, Tx, hash64, int};
use super::writes::{BoundStatement, Writes, cells, columns};
use super::{PostgresStore, read};

/// Selects whole sessions.
pub(super) fn session_sql(rest: &str) -> String {
    session_sql_with("", rest)
}

/// The same with further columns, each after a comma.
pub(super) fn session_sql_with(more: &str, rest: &str) -> String {
    format!(
        "SELECT {HEAD}, h.preview, {DETAILS}{more} FROM session_heads h JOIN sessions s ON s.tk = h.tk AND s.sk = h.sk {rest}"
    )
}

/// A range of a log that a session shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedRange {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) log: i64,
}

impl SharedRange {
    /// The ranges that a fork of a session at a sequence shares: the session's ranges, cut, and then its own log.
    pub(super) fn prefix(ranges: Vec<Self>, own_log: i64, at: i64) -> Vec<Self> {
        let own_from = ranges.last().map_or(1, |last| last.to + 1);
        ranges
            .into_iter()
            .chain([Self { from: own_from, to: at, log: own_log }])
            .filter(|range| range.from <= at)
            .map(|range| Self { to: range.to.min(at), ..range })
            .collect()
    }
}

pub(super) async fn ranges(tx: &Tx, tk: i32, sk: i64) -> Result<Vec<SharedRange>> {
    let sql = "SELECT from_seq, to_seq, log FROM session_ranges WHERE tk = $1 AND sk = $2 ORDER BY from_seq";
    let mut ranges = Vec::new();
    for row in tx.query(sql, &[&tk, &sk]).await? {
        ranges.push(SharedRange { from: row.try_get(0)?, to: row.try_get(1)?, log: row.try_get(2)? });
    }
    Ok(ranges)
}

/// The rows of a new session beside its head.
pub(super) struct NewSessionParts {
    pub(super) details: Details,
    pub(super) participants: Vec<UserId>,
    pub(super) ranges: Vec<SharedRange>,
}

/// A session to be inserted.
pub(super) struct NewSessionRow<'a> {
    pub(super) sk: i64,
    pub(super) id: &'a SessionId,
    pub(super) head: &'a Head,
    pub(super) parts: &'a NewSessionParts,
    /// The description that its first text gives.
    pub(super) described: Option<&'a str>,
}

impl NewSessionRow<'_> {
    fn described_by(&self) -> Option<DescriptionSource> {
        self.described.map(|_| DescriptionSource::Fallback).or(self.parts.details.description_source)
    }
}

/// Inserts sessions, with one statement for each table.
pub(super) fn insert_sessions<'a>(tk: i32, made: &[NewSessionRow<'a>], writes: &mut Writes<'a>) {
    if made.is_empty() {
        return;
    }
    writes.add((
        "INSERT INTO session_heads (tk, sk, id, incarnation, session_type, is_talk, is_bridge, is_external, is_group,
             holder, status, inactive, version, last_sequence, last_at, active_minute, message_count, turn_count,
             turn_sequence, turn_answered, preview, described, claim_worker, claim_credential, lease_until, epoch,
             attempts, stop_requested, priority, deadline_at, task_id, agent_slug, entity_id, started_at, bytes)
         SELECT $1, unnest($2::bigint[]), unnest($3::text[]), unnest($4::uuid[]), unnest($5::text[]),
             unnest($6::boolean[]), unnest($7::boolean[]), unnest($8::boolean[]), unnest($9::boolean[]),
             unnest($10::text[]), unnest($11::text[]), unnest($12::boolean[]), unnest($13::bigint[]),
             unnest($14::bigint[]), unnest($15::bigint[]), unnest($16::bigint[]), unnest($17::bigint[]),
             unnest($18::bigint[]), unnest($19::bigint[]), unnest($20::boolean[]), unnest($21::text[]),
             unnest($22::boolean[]), unnest($23::text[]), unnest($24::text[]), unnest($25::bigint[]),
             unnest($26::bigint[]), unnest($27::integer[]), unnest($28::boolean[]), unnest($29::integer[]),
             unnest($30::bigint[]), unnest($31::text[]), unnest($32::text[]), unnest($33::text[]), unnest($34::bigint[]),
             unnest($35::bigint[])",
        columns![
            tk, made, one =>
            one.sk,
            one.id.as_str(),
            one.head.incarnation.0,
            one.head.session_type.as_str(),
            one.head.is_talk,
            one.head.is_bridge,
            one.head.is_external,
            one.head.is_group,
            one.head.holder.as_ref().map(UserId::as_str),
            one.head.status.as_str(),
            one.head.inactive,
            int(one.head.version),
            int(one.head.last_sequence),
            one.head.last_at.as_micros(),
            one.head.last_at.minute(),
            int(one.head.message_count),
            int(one.head.turn_count),
            one.head.turn.map(|turn| int(turn.sequence)),
            one.head.turn.is_some_and(|turn| turn.answered),
            one.head.preview.as_deref(),
            one.head.described,
            one.head.claim.as_ref().map(|claim| &*claim.worker),
            one.head.claim.as_ref().map(|claim| claim.credential.as_str()),
            one.head.claim.as_ref().map(|claim| claim.lease_until.as_micros()),
            int(one.head.epoch),
            i32::try_from(one.head.attempts).unwrap_or(i32::MAX),
            one.head.stop_requested,
            one.head.priority,
            one.head.deadline_at.map(Timestamp::as_micros),
            one.parts.details.task_id.as_deref(),
            one.parts.details.agent_slug.as_deref(),
            one.parts.details.entity_id.as_deref(),
            one.parts.details.started_at.map(Timestamp::as_micros),
            int(one.head.bytes),
        ],
    ));
    writes.add((
        "INSERT INTO sessions (tk, sk, source_kind, source_interactive, source_platform, source_trigger_id,
             source_is_group, metadata, parent_id, root_id, retry_of, title, description, description_source,
             working_memory, input, draft_values, run, result, usage, error_message, end_reason, memory_mode,
             is_anonymous, created_at, completed_at, incarnation, id)
         SELECT $1, unnest($2::bigint[]), unnest($3::text[]), unnest($4::boolean[]),
             unnest($5::text[]), unnest($6::text[]), unnest($7::boolean[]), unnest($8::text[]), unnest($9::text[]),
             unnest($10::text[]), unnest($11::text[]), unnest($12::text[]), unnest($13::text[]), unnest($14::text[]),
             unnest($15::text[]), unnest($16::text[]), unnest($17::text[]), unnest($18::text[]), unnest($19::text[]),
             unnest($20::text[]), unnest($21::text[]), unnest($22::text[]), unnest($23::text[]), unnest($24::boolean[]),
             unnest($25::bigint[]), unnest($26::bigint[]), unnest($27::uuid[]), unnest($28::text[])",
        columns![
            tk, made, one =>
            one.sk,
            one.parts.details.source.kind.as_str(),
            one.parts.details.source.interactive,
            one.parts.details.source.platform.as_deref(),
            one.parts.details.source.trigger_id.as_deref(),
            one.parts.details.source.is_group(),
            one.parts.details.metadata.as_str(),
            one.parts.details.parent_id.as_ref().map(SessionId::as_str),
            one.parts.details.root_id.as_ref().map(SessionId::as_str),
            one.parts.details.retry_of.as_ref().map(SessionId::as_str),
            one.parts.details.title.as_deref(),
            one.described.or(one.parts.details.description.as_deref()),
            one.described_by().map(|source| source.as_str()),
            one.parts.details.working_memory.as_ref().map(Json::as_str),
            one.parts.details.input.as_ref().map(Json::as_str),
            one.parts.details.draft_values.as_ref().map(Json::as_str),
            one.parts.details.run.as_ref().map(Json::as_str),
            one.parts.details.result.as_ref().map(Json::as_str),
            one.parts.details.usage.as_ref().map(Json::as_str),
            one.parts.details.error_message.as_deref(),
            one.parts.details.end_reason.as_deref(),
            one.parts.details.memory_mode.as_str(),
            one.parts.details.is_anonymous,
            one.parts.details.created_at.as_micros(),
            one.parts.details.completed_at.map(Timestamp::as_micros),
            one.head.incarnation.0,
            one.id.as_str(),
        ],
    ));
    let users = made.iter().flat_map(|one| one.parts.participants.iter().map(|user| (one.sk, user)));
    insert_participants(tk, users).into_iter().for_each(|rows| writes.add(rows));
    let metadata = made.iter().flat_map(|one| {
        filterable(&one.parts.details.metadata).into_iter().map(|(key, value)| (one.sk, key, value))
    });
    insert_metadata(tk, metadata).into_iter().for_each(|rows| writes.add(rows));
    let ranges: Vec<_> =
        made.iter().flat_map(|one| one.parts.ranges.iter().map(|range| (one.sk, range))).collect();
    if !ranges.is_empty() {
        writes.add((
            "INSERT INTO session_ranges (tk, sk, from_seq, to_seq, log)
             SELECT $1, unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]),
                 unnest($5::bigint[])",
            columns![tk, ranges, one => one.0, one.1.from, one.1.to, one.1.log],
        ));
    }
}

fn insert_participants<'a>(
    tk: i32,
    users: impl Iterator<Item = (i64, &'a UserId)>,
) -> Option<BoundStatement<'a>> {
    let users: Vec<_> = users.collect();
    let sql = "INSERT INTO participants (tk, sk, user_id)
         SELECT $1, unnest($2::bigint[]), unnest($3::text[]) ON CONFLICT DO NOTHING";
    (!users.is_empty()).then(|| (sql, columns![tk, users, one => one.0, one.1.as_str()]))
}

fn insert_metadata<'a>(
    tk: i32,
    pairs: impl Iterator<Item = (i64, String, String)>,
) -> Option<BoundStatement<'a>> {
    let pairs: Vec<_> = pairs.collect();
    let sql = "INSERT INTO session_metadata (tk, sk, key, value)
         SELECT $1, unnest($2::bigint[]), unnest($3::text[]), unnest($4::text[])";
    (!pairs.is_empty()).then(|| (sql, columns![tk, pairs, one => one.0, one.1.clone(), one.2.clone()]))
}

/// An update of the wide half of a session. `None` leaves a column as it is.
#[derive(Default)]
pub(super) struct DetailsUpdate<'a> {
    sk: i64,
    title: Option<Option<&'a str>>,
    description: Option<(Option<&'a str>, Option<DescriptionSource>)>,
    metadata: Option<&'a Json>,
    run: Option<&'a Json>,
    draft_values: Option<Option<&'a Json>>,
    result: Option<&'a Json>,
    usage: Option<&'a Json>,
    error_message: Option<&'a str>,
    end_reason: Option<&'a str>,
    completed: bool,
}

impl<'a> DetailsUpdate<'a> {
    /// The wide half of an update, and the description from the first text if there is one. `None`: nothing to write.
    fn of(sk: i64, update: &'a Update, fallback: &mut Option<&'a str>) -> Option<Self> {
        let mut wide = Self {
            sk,
            title: update.title.as_ref().map(|title| title.as_deref()),
            description: update.description.as_ref().map(|(text, source)| (text.as_deref(), *source)),
            metadata: update.metadata.as_ref(),
            run: update.run.as_ref(),
            draft_values: update.draft_values.as_ref().map(Option::as_ref),
            result: update.result.as_ref(),
            usage: update.usage.as_ref(),
            error_message: update.error_message.as_deref(),
            end_reason: update.end_reason.as_deref(),
            completed: update.completed,
        };
        let Self { title, description, metadata, run, result, usage, error_message, end_reason, .. } = &wide;
        let touched = title.is_some()
            || description.is_some()
            || [metadata, run, result, usage].iter().any(|json| json.is_some())
            || error_message.is_some()
            || end_reason.is_some()
            || wide.draft_values.is_some()
            || wide.completed;
        if touched && wide.description.is_none() {
            wide.description = fallback.take().map(|text| (Some(text), Some(DescriptionSource::Fallback)));
        }
        touched.then_some(wide)
    }

    /// Merges a later update into this one.
    fn merge(&mut self, later: Self) {
        *self = Self {
            sk: later.sk,
            title: later.title.or(self.title),
            description: later.description.or(self.description),
            metadata: later.metadata.or(self.metadata),
            run: later.run.or(self.run),
            draft_values: later.draft_values.or(self.draft_values),
            result: later.result.or(self.result),
            usage: later.usage.or(self.usage),
            error_message: later.error_message.or(self.error_message),
            end_reason: later.end_reason.or(self.end_reason),
            completed: later.completed || self.completed,
        };
    }
}

/// Writes the wide halves of sessions, each once.
pub(super) fn update_details<'a>(
    tk: i32,
    wide: &[DetailsUpdate<'a>],
    now: Timestamp,
) -> Option<BoundStatement<'a>> {
    if wide.is_empty() {
        return None;
    }
    let sql =
        "UPDATE sessions s SET title = CASE WHEN u.titled THEN u.title ELSE s.title END,
             description = CASE WHEN u.described THEN u.description ELSE s.description END,
             description_source = CASE WHEN u.described THEN u.source ELSE s.description_source END,
             metadata = coalesce(u.metadata, s.metadata), run = coalesce(u.run, s.run),
             result = coalesce(u.result, s.result), usage = coalesce(u.usage, s.usage),
             error_message = nullif(coalesce(u.error_message, s.error_message), ''),
             end_reason = coalesce(u.end_reason, s.end_reason), completed_at = coalesce(u.completed_at, s.completed_at),
             draft_values = CASE WHEN u.drafted THEN u.draft_values ELSE s.draft_values END
         FROM (SELECT unnest($2::bigint[]) AS sk, unnest($3::boolean[]) AS titled, unnest($4::text[]) AS title,
             unnest($5::boolean[]) AS described, unnest($6::text[]) AS description,
             unnest($7::text[]) AS source, unnest($8::text[]) AS metadata, unnest($9::text[]) AS run,
             unnest($10::text[]) AS result, unnest($11::text[]) AS usage, unnest($12::text[]) AS error_message,
             unnest($13::text[]) AS end_reason, unnest($14::bigint[]) AS completed_at,
             unnest($15::boolean[]) AS drafted, unnest($16::text[]) AS draft_values) u
         WHERE s.tk = $1 AND s.sk = u.sk";
    let cells = columns![
            tk, wide, one =>
            one.sk,
            one.title.is_some(),
            one.title.flatten(),
            one.description.is_some(),
            one.description.and_then(|(text, _)| text),
            one.description.and_then(|(_, source)| source).map(|source| source.as_str()),
            one.metadata.map(Json::as_str),
            one.run.map(Json::as_str),
            one.result.map(Json::as_str),
            one.usage.map(Json::as_str),
            one.error_message,
            one.end_reason,
            one.completed.then_some(now.as_micros()),
            one.draft_values.is_some(),
            one.draft_values.flatten().map(Json::as_str),
    ];
    Some((sql, cells))
}

/// The writes of an update beside the head. It takes the description from the first text along if it writes the wide
/// half anyway.
pub(super) fn update<'a>(
    tk: i32,
    sk: i64,
    update: &'a Update,
    fallback: &mut Option<&'a str>,
    now: Timestamp,
    wide: &mut Vec<DetailsUpdate<'a>>,
    writes: &mut Writes<'a>,
) {
    if let Some(more) = DetailsUpdate::of(sk, update, fallback) {
        match wide.last_mut().filter(|last| last.sk == sk) {
            Some(last) => last.merge(more),
            None => wide.push(more),
        }
    }
    if update.title.is_some() || update.description.is_some() {
        writes.add_after(
            "UPDATE session_heads SET words_version = words_version + 1 WHERE tk = $1 AND sk = $2",
            cells![tk, sk],
        );
    }
    if let Some(task) = &update.task_id {
        writes.add_after(
            "UPDATE session_heads SET task_id = $3 WHERE tk = $1 AND sk = $2",
            cells![tk, sk, &**task],
        );
    }
    if update.started {
        writes.add_after(
            "UPDATE session_heads SET started_at = $3 WHERE tk = $1 AND sk = $2 AND started_at IS NULL",
            cells![tk, sk, now.as_micros()],
        );
    }
    if let Some(metadata) = &update.metadata {
        writes.add_after("DELETE FROM session_metadata WHERE tk = $1 AND sk = $2", cells![tk, sk]);
        let pairs = filterable(metadata).into_iter().map(|(key, value)| (sk, key, value));
        insert_metadata(tk, pairs).into_iter().for_each(|(sql, cells)| writes.add_after(sql, cells));
    }
    if let Some(users) = &update.participants {
        let keep: Vec<&str> = users.iter().map(UserId::as_str).collect();
        writes.add_after(
            "DELETE FROM participants WHERE tk = $1 AND sk = $2 AND user_id <> ALL ($3::text[])",
            cells![tk, sk, keep],
        );
    }
    let more = update.participants.iter().flatten().chain(&update.add_participant);
    insert_participants(tk, more.clone().map(|user| (sk, user)))
        .into_iter()
        .for_each(|(sql, cells)| writes.add_after(sql, cells));
    let present: Vec<&str> = more.map(UserId::as_str).collect();
    if !present.is_empty() {
        writes.add_after(
            "DELETE FROM departures WHERE tk = $1 AND sk = $2 AND user_id = ANY ($3::text[])",
            cells![tk, sk, present],
        );
    }
    if let Some(user) = &update.leaves {
        writes.add_after(
            "DELETE FROM participants WHERE tk = $1 AND sk = $2 AND user_id = $3",
            cells![tk, sk, user.as_str()],
        );
        writes.add_after(
            "INSERT INTO departures (tk, sk, user_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            cells![tk, sk, user.as_str()],
        );
    }
}

impl SessionRowStore for PostgresStore {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.read_batches.session(tenant, id).boxed()
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = "SELECT d.user_id FROM sessions s JOIN departures d ON d.tk = s.tk AND d.sk = s.sk
             WHERE s.tk = $1 AND s.id = $2 ORDER BY d.user_id";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &id.as_str()]).await?;
            rows.iter().map(|row| Ok(UserId::stored(row.try_get::<_, &str>(0)?))).collect()
        })
    }
}

/// The lock under which a log is trimmed or indexed.
pub(super) fn log_lock(tk: i32, log: i64) -> i64 {
    hash64(&[b"log", &tk.to_be_bytes(), &log.to_be_bytes()])
}

/// Deletes a session. Ranges of its logs that other sessions share stay.
pub(super) async fn delete(tx: &Tx, tk: i32, sk: i64) -> Result<()> {
    tx.client()?.batch_execute(&format!("SET LOCAL statement_timeout TO '80s'; {AS_STORE}")).await?;
    let mut logs: Vec<i64> = ranges(tx, tk, sk).await?.into_iter().map(|range| range.log).collect();
    logs.push(sk);
    logs.sort_unstable();
    logs.dedup();
    // Two deletions that share a log would each see the other's reference, and both would keep it.
    for log in &logs {
        tx.query("SELECT pg_advisory_xact_lock($1)", &[&log_lock(tk, *log)]).await?;
    }
    for sql in [
        "DELETE FROM session_ranges WHERE tk = $1 AND sk = $2",
        "DELETE FROM participants WHERE tk = $1 AND sk = $2",
        "DELETE FROM departures WHERE tk = $1 AND sk = $2",
        "DELETE FROM session_metadata WHERE tk = $1 AND sk = $2",
        "DELETE FROM shares WHERE tk = $1 AND sk = $2",
        "DELETE FROM approvals WHERE tk = $1 AND sk = $2",
        "DELETE FROM responses WHERE tk = $1 AND sk = $2",
        "DELETE FROM documents WHERE tk = $1 AND sk = $2",
        "DELETE FROM channel_conversations WHERE tk = $1 AND sk = $2",
        "DELETE FROM channel_deliveries WHERE tk = $1 AND sk = $2",
        "DELETE FROM talks WHERE tk = $1 AND sk = $2",
        "DELETE FROM search_docs WHERE tk = $1 AND sk = $2",
        "DELETE FROM search_done WHERE tk = $1 AND sk = $2",
        "DELETE FROM sessions WHERE tk = $1 AND sk = $2",
        "DELETE FROM session_heads WHERE tk = $1 AND sk = $2",
    ] {
        tx.execute(sql, &[&tk, &sk]).await?;
    }
    for log in &logs {
        for sql in [
            "DELETE FROM events WHERE tk = $1 AND log = $2
                 AND NOT EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = $1 AND h.sk = $2)
                 AND seq > (SELECT coalesce(max(to_seq), 0) FROM session_ranges r WHERE r.tk = $1 AND r.log = $2)",
            "DELETE FROM external_ids WHERE tk = $1 AND log = $2
                 AND NOT EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = $1 AND h.sk = $2)
                 AND seq > (SELECT coalesce(max(to_seq), 0) FROM session_ranges r WHERE r.tk = $1 AND r.log = $2)",
            "DELETE FROM document_patches WHERE tk = $1 AND log = $2
                 AND NOT EXISTS (SELECT 1 FROM session_heads h WHERE h.tk = $1 AND h.sk = $2)
                 AND seq > (SELECT coalesce(max(to_seq), 0) FROM session_ranges r WHERE r.tk = $1 AND r.log = $2)",
        ] {
            tx.execute(sql, &[&tk, log]).await?;
        }
    }
    Ok(())
}

/// The quotas that a tenant has used, by holder.
pub(super) async fn usage(context: &Context, tenant: &TenantId) -> Result<UseByHolder> {
    let Some(tk) = context.tk(tenant).await? else { return Ok(Vec::new()) };
    let sql = "SELECT holder, count(*), count(*) FILTER (WHERE NOT is_talk AND NOT is_bridge AND status IN
                   ('pending', 'running', 'waiting_human', 'awaiting_tool')), coalesce(sum(bytes), 0)::bigint
               FROM session_heads WHERE tk = $1 GROUP BY holder";
    let rows = context.read(Scope::Tenant(tk), sql, &[&tk]).await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let holder = columns.user()?;
            let amount =
                Amount { sessions: columns.number()?, runs: columns.number()?, bytes: columns.number()? };
            Ok((holder, amount))
        })
        .collect()
}
