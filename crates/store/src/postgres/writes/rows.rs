//! Builders of rows: each collects the columns of one table's rows as arrays, and adds one statement for all of them.

use sederunt_core::document::DocumentKey;
use sederunt_core::event::Event;
use sederunt_core::session::{Head, Session};
use sederunt_core::store::{IdemKey, Replay};
use sederunt_core::time::Timestamp;
use uuid::Uuid;

use super::Writes;
use crate::postgres::tx::{Param, int};

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
    patches: PatchRows,
}

/// Rows of `document_patches`.
#[derive(Default)]
struct PatchRows {
    tk: Vec<i32>,
    log: Vec<i64>,
    kind: Vec<&'static str>,
    id: Vec<Box<str>>,
    seq: Vec<i64>,
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
        let patched = event.metadata.as_ref().filter(|_| event.kind.is_patch());
        if let Some(DocumentKey { kind, id }) = patched.and_then(DocumentKey::of_metadata) {
            self.patches.tk.push(tk);
            self.patches.log.push(log);
            self.patches.kind.push(kind.as_str());
            self.patches.id.push(id);
            self.patches.seq.push(int(event.sequence));
        }
    }

    /// Inserts the rows `e` that match the condition that follows. Takes [`Self::params`].
    pub(in crate::postgres) const INSERT_SOME: &'static str = concat!(
        "INSERT INTO events (",
        columns_of_events!(),
        ") SELECT ",
        columns_of_events!(),
        " FROM (",
        rows_of_events!(),
        ") e"
    );

    /// Inserts those rows `p` of `document_patches` that match the condition that follows. Takes [`Self::patch_params`].
    pub(in crate::postgres) const INSERT_SOME_PATCHES: &'static str =
        "INSERT INTO document_patches (tk, log, kind, id, seq) SELECT tk, log, kind, id, seq
         FROM (SELECT unnest($1::integer[]) AS tk, unnest($2::bigint[]) AS log, unnest($3::text[]) AS kind,
             unnest($4::text[]) AS id, unnest($5::bigint[]) AS seq) p";

    /// Whether a document is patched by one of the events.
    pub(in crate::postgres) fn has_patches(&self) -> bool {
        !self.patches.tk.is_empty()
    }

    pub(in crate::postgres) fn patch_params<'w>(&'w self) -> [Param<'w>; 5] {
        let PatchRows { tk, log, kind, id, seq } = &self.patches;
        [tk, log, kind, id, seq]
    }

    /// How many parameters the events have.
    pub(in crate::postgres) const PARAMS: usize = 11;

    /// The parameters of the events, without those of `external_ids`.
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
        if self.has_patches() {
            writes.add_borrowed(
                "INSERT INTO document_patches (tk, log, kind, id, seq)
                 SELECT * FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::bigint[])",
                self.patch_params(),
            );
        }
    }
}

/// Heads as an append leaves them: counters, and the preview if there is a new one.
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

/// The statement that advances heads, with further assignments, columns, sources and conditions.
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

    /// Writes only rows that a given transaction wrote, and returns them. Takes [`Self::params`], the transaction of
    /// each row, and the tenants, which it names to the policies before it reads a row: this many parameters in all.
    pub(in crate::postgres) const KNOWN: (&'static str, usize) = (
        advance_heads!(
            "",
            ", unnest($13::xid[]) AS xid",
            " FROM (SELECT set_config('app.tks', $14, true) OFFSET 0) named",
            " AND h.xmin = u.xid RETURNING h.sk"
        ),
        14,
    );
    /// [`Self::KNOWN`] with [`Self::params_with_preview`].
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

    /// Writes the counters and not the preview, which the role `append` may not even read.
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

/// Heads as any other change leaves them.
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

/// Descriptions that were taken from the first text of sessions without one.
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

/// Idempotency keys with the effect of their commit.
#[derive(Default)]
pub(in crate::postgres) struct KeyRows {
    tk: Vec<i32>,
    scope: Vec<Vec<u8>>,
    sk: Vec<Option<i64>>,
    body: Vec<Vec<u8>>,
    first: Vec<Option<i64>>,
    last: Vec<Option<i64>>,
    /// As text, because the driver's nested arrays must have equal lengths.
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

    /// The key of a claim: the sessions that it handed out, with their epochs.
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
        // A row with the same key belongs to a session that is gone; otherwise the commit would have been answered
        // from it.
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
