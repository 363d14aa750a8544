//! Sessions: how one is read, and the rows that are written beside their heads.

use sederunt_core::ids::{SessionId, UserId};
use sederunt_core::session::row::filterable;
use sederunt_core::session::{DescriptionSource, Details, Head};
use sederunt_core::store::Update;
use sederunt_core::time::Timestamp;

use super::fault::Result;
use super::rows::{DETAILS, HEAD};
use super::tx::{Tx, hash64, int};
use super::writes::{Writes, cells};

/// The whole row of a session.
pub(super) fn whole(rest: &str) -> String {
    whole_with("", rest)
}

/// The same with more columns, each after a comma.
pub(super) fn whole_with(more: &str, rest: &str) -> String {
    format!(
        "SELECT {HEAD}, h.preview, {DETAILS}{more} FROM session_heads h JOIN sessions s ON s.tk = h.tk AND s.sk = h.sk {rest}"
    )
}

/// A piece of somebody's log that a session shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) log: i64,
}

impl Range {
    /// What a fork of a session at a sequence shares: the session's own ranges, cut, and then its own log.
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

pub(super) async fn ranges(tx: &Tx, tk: i32, sk: i64) -> Result<Vec<Range>> {
    let sql = "SELECT from_seq, to_seq, log FROM session_ranges WHERE tk = $1 AND sk = $2 ORDER BY from_seq";
    let mut ranges = Vec::new();
    for row in tx.query(sql, &[&tk, &sk]).await? {
        ranges.push(Range { from: row.try_get(0)?, to: row.try_get(1)?, log: row.try_get(2)? });
    }
    Ok(ranges)
}

/// What a new session brings beside its head.
pub(super) struct Fresh {
    pub(super) details: Details,
    pub(super) participants: Vec<UserId>,
    pub(super) ranges: Vec<Range>,
}

impl Fresh {
    pub(super) fn write<'a>(
        &'a self,
        tk: i32,
        sk: i64,
        id: &'a SessionId,
        head: &'a Head,
        writes: &mut Writes<'a>,
    ) {
        let details = &self.details;
        writes.give(
            "INSERT INTO session_heads (tk, sk, id, incarnation, session_type, is_talk, is_bridge, is_external, is_group,
                 holder, status, inactive, version, last_sequence, last_at, active_minute, message_count, turn_count,
                 turn_sequence, turn_answered, preview, described, claim_worker, claim_credential, lease_until, epoch,
                 attempts, stop_requested, priority, deadline_at, task_id, agent_slug, entity_id, started_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                 $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34)",
            cells![
                tk,
                sk,
                id.as_str(),
                head.incarnation.0,
                head.session_type.as_str(),
                head.is_talk,
                head.is_bridge,
                head.is_external,
                head.is_group,
                head.holder.as_ref().map(UserId::as_str),
                head.status.as_str(),
                head.inactive,
                int(head.version),
                int(head.last_sequence),
                head.last_at.as_micros(),
                head.last_at.minute(),
                int(head.message_count),
                int(head.turn_count),
                head.turn.map(|turn| int(turn.sequence)),
                head.turn.is_some_and(|turn| turn.answered),
                head.preview.as_deref(),
                head.described,
                head.claim.as_ref().map(|claim| &*claim.worker),
                head.claim.as_ref().map(|claim| claim.credential.as_str()),
                head.claim.as_ref().map(|claim| claim.lease_until.as_micros()),
                int(head.epoch),
                i32::try_from(head.attempts).unwrap_or(i32::MAX),
                head.stop_requested,
                head.priority,
                head.deadline_at.map(Timestamp::as_micros),
                details.task_id.as_deref(),
                details.agent_slug.as_deref(),
                details.entity_id.as_deref(),
                details.started_at.map(Timestamp::as_micros),
            ],
        );
        writes.give(
            "INSERT INTO sessions (tk, sk, source_kind, source_interactive, source_platform, source_trigger_id,
                 source_is_group, metadata, parent_id, root_id, retry_of, title, description, description_source,
                 working_memory, input, draft_values, run, result, usage, error_message, end_reason, memory_mode,
                 is_anonymous, created_at, completed_at, incarnation)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                 $22, $23, $24, $25, $26, $27)",
            cells![
                tk,
                sk,
                details.source.kind.as_str(),
                details.source.interactive,
                details.source.platform.as_deref(),
                details.source.trigger_id.as_deref(),
                details.source.is_group(),
                details.metadata.as_str(),
                details.parent_id.as_ref().map(SessionId::as_str),
                details.root_id.as_ref().map(SessionId::as_str),
                details.retry_of.as_ref().map(SessionId::as_str),
                details.title.as_deref(),
                details.description.as_deref(),
                details.description_source.map(|source| source.as_str()),
                details.working_memory.as_ref().map(|json| json.as_str()),
                details.input.as_ref().map(|json| json.as_str()),
                details.draft_values.as_ref().map(|json| json.as_str()),
                details.run.as_ref().map(|json| json.as_str()),
                details.result.as_ref().map(|json| json.as_str()),
                details.usage.as_ref().map(|json| json.as_str()),
                details.error_message.as_deref(),
                details.end_reason.as_deref(),
                details.memory_mode.as_str(),
                details.is_anonymous,
                details.created_at.as_micros(),
                details.completed_at.map(Timestamp::as_micros),
                head.incarnation.0,
            ],
        );
        add_participants(tk, sk, &self.participants, writes);
        add_metadata(tk, sk, filterable(&details.metadata), writes);
        if !self.ranges.is_empty() {
            let from: Vec<i64> = self.ranges.iter().map(|range| range.from).collect();
            let to: Vec<i64> = self.ranges.iter().map(|range| range.to).collect();
            let log: Vec<i64> = self.ranges.iter().map(|range| range.log).collect();
            writes.give(
                "INSERT INTO session_ranges (tk, sk, from_seq, to_seq, log)
                 SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::bigint[])",
                cells![tk, sk, from, to, log],
            );
        }
    }
}

fn add_participants<'a>(tk: i32, sk: i64, users: &'a [UserId], writes: &mut Writes<'a>) {
    if users.is_empty() {
        return;
    }
    let users: Vec<&str> = users.iter().map(UserId::as_str).collect();
    writes.give(
        "INSERT INTO participants (tk, sk, user_id) SELECT $1, $2, * FROM unnest($3::text[]) ON CONFLICT DO NOTHING",
        cells![tk, sk, users],
    );
}

fn add_metadata<'a>(tk: i32, sk: i64, pairs: Vec<(String, String)>, writes: &mut Writes<'a>) {
    if pairs.is_empty() {
        return;
    }
    let (keys, values): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
    writes.give(
        "INSERT INTO session_metadata (tk, sk, key, value) SELECT $1, $2, * FROM unnest($3::text[], $4::text[])",
        cells![tk, sk, keys, values],
    );
}

/// The wide half of an update. Takes the description that the first text gives along, if it writes that row anyway.
pub(super) fn update<'a>(
    tk: i32,
    sk: i64,
    update: &'a Update,
    fallback: &mut Option<&'a str>,
    now: Timestamp,
    writes: &mut Writes<'a>,
) {
    let touched = update.title.is_some()
        || update.description.is_some()
        || update.metadata.is_some()
        || update.run.is_some()
        || update.result.is_some()
        || update.usage.is_some()
        || update.error_message.is_some()
        || update.end_reason.is_some()
        || update.completed;
    if touched {
        let described = match &update.description {
            Some((text, source)) => Some((text.as_deref(), *source)),
            None => fallback.take().map(|text| (Some(text), Some(DescriptionSource::Fallback))),
        };
        let (text, source) = described.unwrap_or_default();
        writes.give(
            "UPDATE sessions SET title = CASE WHEN $3 THEN $4 ELSE title END,
                 description = CASE WHEN $5 THEN $6 ELSE description END,
                 description_source = CASE WHEN $5 THEN $7 ELSE description_source END,
                 metadata = coalesce($8, metadata), result = coalesce($9, result), usage = coalesce($10, usage),
                 error_message = coalesce($11, error_message), end_reason = coalesce($12, end_reason),
                 completed_at = CASE WHEN $13 THEN $14 ELSE completed_at END, run = coalesce($15, run)
             WHERE tk = $1 AND sk = $2",
            cells![
                tk,
                sk,
                update.title.is_some(),
                update.title.as_ref().and_then(|title| title.as_deref()),
                described.is_some(),
                text,
                source.map(|source| source.as_str()),
                update.metadata.as_ref().map(|json| json.as_str()),
                update.result.as_ref().map(|json| json.as_str()),
                update.usage.as_ref().map(|json| json.as_str()),
                update.error_message.as_deref(),
                update.end_reason.as_deref(),
                update.completed,
                now.as_micros(),
                update.run.as_ref().map(|json| json.as_str()),
            ],
        );
    }
    if update.title.is_some() || update.description.is_some() {
        writes.give(
            "UPDATE session_heads SET words_version = words_version + 1 WHERE tk = $1 AND sk = $2",
            cells![tk, sk],
        );
    }
    if update.started {
        writes.give(
            "UPDATE session_heads SET started_at = $3 WHERE tk = $1 AND sk = $2 AND started_at IS NULL",
            cells![tk, sk, now.as_micros()],
        );
    }
    if let Some(metadata) = &update.metadata {
        writes.give("DELETE FROM session_metadata WHERE tk = $1 AND sk = $2", cells![tk, sk]);
        add_metadata(tk, sk, filterable(metadata), writes);
    }
    if let Some(users) = &update.participants {
        let keep: Vec<&str> = users.iter().map(UserId::as_str).collect();
        writes.give(
            "DELETE FROM participants WHERE tk = $1 AND sk = $2 AND user_id <> ALL ($3::text[])",
            cells![tk, sk, keep],
        );
        add_participants(tk, sk, users, writes);
    }
    if let Some(user) = &update.add_participant {
        add_participants(tk, sk, std::slice::from_ref(user), writes);
    }
}

/// The lock under which a log is trimmed or indexed.
pub(super) fn log_lock(tk: i32, log: i64) -> i64 {
    hash64(&[b"log", &tk.to_be_bytes(), &log.to_be_bytes()])
}

/// Removes a session. Of the logs that it held, what others still share stays.
pub(super) async fn delete(tx: &Tx, tk: i32, sk: i64) -> Result<()> {
    tx.client()?.batch_execute("SET LOCAL statement_timeout TO '80s'").await?;
    let mut logs: Vec<i64> = ranges(tx, tk, sk).await?.into_iter().map(|range| range.log).collect();
    logs.push(sk);
    logs.sort_unstable();
    logs.dedup();
    // Two deletions that share a log would each see the other's claim on it, and both would leave it behind.
    for log in &logs {
        tx.query("SELECT pg_advisory_xact_lock($1)", &[&log_lock(tk, *log)]).await?;
    }
    for sql in [
        "DELETE FROM session_ranges WHERE tk = $1 AND sk = $2",
        "DELETE FROM participants WHERE tk = $1 AND sk = $2",
        "DELETE FROM session_metadata WHERE tk = $1 AND sk = $2",
        "DELETE FROM shares WHERE tk = $1 AND sk = $2",
        "DELETE FROM approvals WHERE tk = $1 AND sk = $2",
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
        ] {
            tx.execute(sql, &[&tk, log]).await?;
        }
    }
    Ok(())
}
