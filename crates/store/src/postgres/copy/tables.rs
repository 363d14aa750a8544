//! Every table of the database, the column of the files that each of its columns comes from, and how rows are
//! compared.

use sha2::Digest as _;

/// How a column is written and read; in between, every value is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    Number,
    Flag,
    Uuid,
    Bytes,
    /// Numbers, as `{1,2}`.
    List,
}

use ColumnKind::{Bytes, Flag, List, Number, Text, Uuid};

/// A column: its name, its source in the files (`""`: the same name), its kind.
pub(super) type CopiedColumn = (&'static str, &'static str, ColumnKind);

#[derive(Debug)]
pub(super) struct CopiedTable {
    pub(super) name: &'static str,
    pub(super) columns: &'static [CopiedColumn],
    /// Its rows of the tenant `?1` in the files, in the order in which they are inserted.
    pub(super) from: &'static str,
}

/// The logs that a tenant's sessions consist of: their own, and those that forks refer to.
macro_rules! logs {
    () => {
        "(SELECT sk AS log FROM session_heads WHERE tk = ?1 \
          UNION SELECT r.log FROM session_ranges r JOIN session_heads h ON h.sk = r.sk WHERE h.tk = ?1) l"
    };
}

/// Every table, in the order in which references allow them to be filled.
pub(super) const TABLES: &[CopiedTable] = &[
    CopiedTable {
        name: "tenants",
        columns: &[("tk", "", Number), ("id", "", Text), ("suspended", "", Flag), ("created_at", "", Number)],
        from: "tenants WHERE tk = ?1",
    },
    CopiedTable {
        name: "users",
        columns: &[
            ("tk", "", Number),
            ("id", "", Text),
            ("name", "", Text),
            ("role", "", Text),
            ("suspended", "", Flag),
            ("merged_into", "", Text),
            ("created_at", "", Number),
            ("known_by", "", Text),
            ("told_at", "", Number),
        ],
        from: "users WHERE tk = ?1",
    },
    CopiedTable {
        name: "identities",
        columns: &[
            ("tk", "", Number),
            ("platform", "", Text),
            ("external_id", "", Text),
            ("user_id", "", Text),
        ],
        from: "identities WHERE tk = ?1",
    },
    CopiedTable {
        name: "api_keys",
        columns: &[
            ("tk", "", Number),
            ("id", "", Text),
            ("hash", "", Bytes),
            ("user_id", "", Text),
            ("role", "", Text),
            ("prefix", "", Text),
            ("act_as", "", Flag),
            ("created_at", "", Number),
            ("expires_at", "", Number),
            ("revoked_at", "", Number),
            ("who", "", Text),
            ("threads", "", Text),
        ],
        from: "keys WHERE tk = ?1 ORDER BY kk",
    },
    CopiedTable {
        name: "link_codes",
        columns: &[
            ("tk", "", Number),
            ("platform", "", Text),
            ("external_id", "", Text),
            ("hash", "", Text),
            ("name", "", Text),
            ("expires_at", "", Number),
        ],
        from: "link_codes WHERE tk = ?1",
    },
    CopiedTable {
        name: "session_heads",
        columns: &[
            ("tk", "h.tk", Number),
            ("sk", "h.sk", Number),
            ("id", "h.id", Text),
            ("incarnation", "", Uuid),
            ("session_type", "h.session_type", Text),
            ("is_talk", "", Flag),
            ("is_bridge", "", Flag),
            ("is_external", "", Flag),
            ("is_group", "h.is_group", Flag),
            ("holder", "", Text),
            ("status", "h.status", Text),
            ("inactive", "h.inactive", Flag),
            ("version", "", Number),
            ("last_sequence", "", Number),
            ("last_at", "", Number),
            ("active_minute", "", Number),
            ("message_count", "", Number),
            ("turn_count", "", Number),
            ("turn_sequence", "turn", Number),
            ("turn_answered", "", Flag),
            ("preview", "", Text),
            ("described", "", Flag),
            ("claim_worker", "", Text),
            ("claim_credential", "", Text),
            ("lease_until", "", Number),
            ("epoch", "", Number),
            ("attempts", "", Number),
            ("stop_requested", "", Flag),
            ("priority", "", Number),
            ("deadline_at", "", Number),
            ("task_id", "", Text),
            ("agent_slug", "h.agent_slug", Text),
            ("entity_id", "", Text),
            ("started_at", "", Number),
            ("bytes", "t.bytes", Number),
        ],
        from: "session_heads h JOIN session_tails t ON t.sk = h.sk JOIN sessions s ON s.sk = h.sk
               WHERE h.tk = ?1 ORDER BY h.sk",
    },
    CopiedTable {
        name: "sessions",
        columns: &[
            ("tk", "s.tk", Number),
            ("sk", "s.sk", Number),
            ("source_kind", "", Text),
            ("source_interactive", "interactive", Flag),
            ("source_platform", "platform", Text),
            ("source_trigger_id", "trigger_id", Text),
            ("source_is_group", "d.is_group", Flag),
            ("metadata", "", Text),
            ("parent_id", "", Text),
            ("root_id", "", Text),
            ("retry_of", "", Text),
            ("title", "", Text),
            ("description", "", Text),
            ("description_source", "", Text),
            ("working_memory", "", Text),
            ("input", "", Text),
            ("draft_values", "", Text),
            ("run", "", Text),
            ("result", "", Text),
            ("usage", "", Text),
            ("error_message", "", Text),
            ("end_reason", "", Text),
            ("memory_mode", "", Text),
            ("is_anonymous", "", Flag),
            ("created_at", "", Number),
            ("completed_at", "", Number),
            ("incarnation", "", Uuid),
            ("id", "h.id", Text),
        ],
        from: "sessions s JOIN session_details d ON d.sk = s.sk JOIN session_heads h ON h.sk = s.sk
               WHERE s.tk = ?1 ORDER BY s.sk",
    },
    CopiedTable {
        name: "participants",
        columns: &[("tk", "", Number), ("sk", "", Number), ("user_id", "", Text)],
        from: "participants WHERE tk = ?1",
    },
    CopiedTable {
        name: "departures",
        columns: &[("tk", "", Number), ("sk", "", Number), ("user_id", "", Text)],
        from: "departures WHERE tk = ?1",
    },
    CopiedTable {
        name: "session_metadata",
        columns: &[("tk", "", Number), ("sk", "", Number), ("key", "", Text), ("value", "", Text)],
        from: "session_metadata WHERE tk = ?1",
    },
    CopiedTable {
        name: "session_ranges",
        columns: &[
            ("tk", "h.tk", Number),
            ("sk", "h.sk", Number),
            ("from_seq", "", Number),
            ("to_seq", "", Number),
            ("log", "", Number),
        ],
        from: "session_ranges r JOIN session_heads h ON h.sk = r.sk WHERE h.tk = ?1",
    },
    CopiedTable {
        name: "events",
        columns: &[
            ("tk", "?1", Number),
            ("log", "k >> 32", Number),
            ("seq", "k & 4294967295", Number),
            ("type", "", Text),
            ("content", "", Text),
            ("metadata", "", Text),
            ("subthread_id", "subthread", Text),
            ("external_id", "", Text),
            ("turn", "", Number),
            ("author", "", Text),
            ("at", "", Number),
        ],
        from: concat!(logs!(), " JOIN events e ON e.k BETWEEN l.log << 32 AND (l.log << 32) | 4294967295"),
    },
    CopiedTable {
        name: "external_ids",
        columns: &[
            ("tk", "?1", Number),
            ("log", "x.log", Number),
            ("external_id", "", Text),
            ("seq", "", Number),
        ],
        from: concat!(logs!(), " JOIN event_external x ON x.log = l.log"),
    },
    CopiedTable {
        name: "idempotency",
        columns: &[
            ("tk", "", Number),
            ("scope", "", Bytes),
            ("sk", "", Number),
            ("body", "", Bytes),
            ("first", "", Number),
            ("last", "", Number),
            ("sequences", "'{' || replace(sequences, ' ', ',') || '}'", List),
            ("claims", "'{' || replace(replace(taken, ' ', ','), '.', ',') || '}'", List),
            ("note", "", Uuid),
            ("at", "", Number),
        ],
        // A key whose session is gone has no effect, and may be there twice.
        from: "idempotency i WHERE tk = ?1 \
               AND (sk IS NULL OR EXISTS (SELECT 1 FROM session_heads h WHERE h.sk = i.sk))",
    },
    CopiedTable {
        name: "browser_sessions",
        columns: &[
            ("tk", "", Number),
            ("id", "", Text),
            ("hash", "", Bytes),
            ("key_id", "", Text),
            ("user_id", "", Text),
            ("role", "", Text),
            ("browser", "", Text),
            ("created_at", "", Number),
            ("seen_at", "", Number),
            ("expires_at", "", Number),
        ],
        from: "browser_sessions WHERE tk = ?1 ORDER BY id",
    },
    CopiedTable {
        name: "shares",
        columns: &[
            ("tk", "s.tk", Number),
            ("id", "s.id", Text),
            ("hash", "", Bytes),
            ("sk", "s.sk", Number),
            ("session_id", "h.id", Text),
            ("access", "", Text),
            ("created_by", "", Text),
            ("created_at", "", Number),
            ("expires_at", "", Number),
            ("revoked_at", "", Number),
            ("view_id", "", Text),
            ("user_id", "", Text),
        ],
        from: "shares s LEFT JOIN session_heads h ON h.sk = s.sk WHERE s.tk = ?1 ORDER BY hk",
    },
    CopiedTable {
        name: "channels",
        columns: &[
            ("tk", "", Number),
            ("name", "", Text),
            ("paused", "", Flag),
            ("lease_node", "", Text),
            ("lease_until", "", Number),
            ("epoch", "", Number),
            ("cursor", "", Text),
            ("error", "", Text),
            ("error_at", "", Number),
        ],
        from: "channels WHERE tk = ?1",
    },
    CopiedTable {
        name: "channel_updates",
        columns: &[("tk", "", Number), ("channel", "", Text), ("update_key", "", Text), ("at", "", Number)],
        from: "channel_updates WHERE tk = ?1",
    },
    CopiedTable {
        name: "channel_conversations",
        columns: &[
            ("tk", "", Number),
            ("channel", "", Text),
            ("chat", "", Text),
            ("thread", "", Text),
            ("sk", "", Number),
        ],
        from: "channel_conversations WHERE tk = ?1",
    },
    CopiedTable {
        name: "channel_deliveries",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("id", "", Text),
            ("channel", "", Text),
            ("chat", "", Text),
            ("thread", "", Text),
            ("sk", "", Number),
            ("turn_seq", "", Number),
            ("end_seq", "", Number),
            ("sentence", "", Text),
            ("state", "", Text),
            ("parts_sent", "", Number),
            ("message_ids", "", Text),
            ("attempts", "", Number),
            ("due_at", "", Number),
            ("filed_at", "", Number),
            ("reason", "", Text),
        ],
        from: "channel_deliveries WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "docs",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("kind", "", Text),
            ("id", "", Text),
            ("slug", "", Text),
            ("body", "", Text),
            ("version", "", Number),
            ("created_by", "", Text),
            ("created_at", "", Number),
            ("updated_at", "", Number),
        ],
        from: "docs WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "doc_facets",
        columns: &[
            ("tk", "", Number),
            ("kind", "", Text),
            ("key", "", Text),
            ("value", "", Text),
            ("n", "", Number),
        ],
        from: "doc_facets WHERE tk = ?1",
    },
    CopiedTable {
        name: "approvals",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("id", "", Text),
            ("sk", "", Number),
            ("kind", "", Text),
            ("state", "", Text),
            ("task_id", "", Text),
            ("assigned_to", "", Text),
            ("expires_at", "", Number),
            ("created_at", "", Number),
            ("decided_by", "", Text),
            ("decided_at", "", Number),
            ("body", "", Text),
        ],
        from: "approvals WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "responses",
        columns: &[
            ("tk", "", Number),
            ("sk", "", Number),
            ("view_id", "", Text),
            ("respondent", "", Text),
            ("respondent_kind", "", Text),
            ("respondent_id", "", Text),
            ("ordinal", "", Number),
            ("is_anonymous", "", Flag),
            ("once", "", Flag),
            ("state", "", Text),
            ("saved_at", "", Number),
            ("form", "", Text),
        ],
        from: "responses WHERE tk = ?1",
    },
    CopiedTable {
        name: "documents",
        columns: &[
            ("tk", "h.tk", Number),
            ("sk", "h.sk", Number),
            ("kind", "", Text),
            ("id", "d.id", Text),
            ("opened_seq", "", Number),
            ("snapshot_seq", "", Number),
            ("row_version", "", Number),
            ("snapshot", "", Text),
            ("origin", "", Text),
        ],
        from: "documents d JOIN session_heads h ON h.sk = d.sk WHERE h.tk = ?1",
    },
    CopiedTable {
        name: "document_patches",
        columns: &[
            ("tk", "?1", Number),
            ("log", "p.log", Number),
            ("kind", "", Text),
            ("id", "", Text),
            ("seq", "", Number),
        ],
        from: concat!(logs!(), " JOIN document_patches p ON p.log = l.log"),
    },
    CopiedTable {
        name: "audit",
        columns: &[
            ("tk", "", Number),
            ("at", "", Number),
            ("actor", "", Text),
            ("action", "", Text),
            ("target", "", Text),
        ],
        from: "audit WHERE tk = ?1 ORDER BY ak",
    },
    CopiedTable {
        name: "talks",
        columns: &[
            ("tk", "", Number),
            ("sk", "", Number),
            ("active_at", "", Number),
            ("waiting", "", Number),
            ("body", "", Text),
        ],
        from: "talks WHERE tk = ?1",
    },
    CopiedTable {
        name: "feedback_events",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("id", "", Text),
            ("at", "", Number),
            ("signal", "", Text),
            ("author", "", Text),
            ("session_id", "", Text),
            ("body", "", Text),
            ("code", "", Text),
            ("task_id", "", Text),
        ],
        from: "feedback_events WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "feedback_names",
        columns: &[
            ("tk", "", Number),
            ("kind", "", Text),
            ("name", "", Text),
            ("n", "", Number),
            ("signal", "", Text),
            ("author", "", Text),
        ],
        from: "feedback_names WHERE tk = ?1",
    },
    CopiedTable {
        name: "feedback_sessions",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("id", "", Text),
            ("event_id", "", Text),
            ("signal", "", Text),
            ("state", "", Text),
            ("opened_at", "", Number),
            ("expires_at", "", Number),
            ("author", "", Text),
            ("version", "", Number),
            ("body", "", Text),
        ],
        from: "feedback_sessions WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "lessons",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("id", "", Text),
            ("polarity", "", Text),
            ("state", "", Text),
            ("occurrences", "", Number),
            ("created_at", "", Number),
            ("updated_at", "", Number),
            ("version", "", Number),
            ("body", "", Text),
            ("drawer", "", Number),
            ("words", "", Text),
            ("shown", "", Number),
            ("first_shown_at", "", Number),
            ("last_shown_at", "", Number),
            ("negative_since", "", Number),
            ("positive_since", "", Number),
        ],
        from: "lessons WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "lesson_words",
        columns: &[
            ("tk", "l.tk", Number),
            ("drawer", "w.drawer", Number),
            ("word", "w.word", Text),
            ("n", "w.n", Number),
            ("times", "w.times", Number),
            ("length", "w.length", Number),
        ],
        from: "lessons l JOIN lesson_words w ON w.n = l.n WHERE l.tk = ?1",
    },
    CopiedTable {
        name: "memories",
        columns: &[
            ("tk", "", Number),
            ("n", "", Number),
            ("id", "", Text),
            ("owner", "", Text),
            ("kind", "", Text),
            ("created_at", "", Number),
            ("last_referenced_at", "", Number),
            ("dormant_at", "", Number),
            ("body", "", Text),
            ("drawer", "", Number),
            ("words", "", Text),
            ("embedded_by", "", Text),
            ("vector", "", Bytes),
            ("embedded_n", "", Number),
        ],
        from: "memory.memories WHERE tk = ?1 ORDER BY n",
    },
    CopiedTable {
        name: "memory_words",
        columns: &[
            ("tk", "?1", Number),
            ("drawer", "", Number),
            ("word", "", Text),
            ("n", "", Number),
            ("times", "", Number),
            ("length", "", Number),
        ],
        from: "memory.memory_words WHERE drawer IN (SELECT drawer FROM memory.memories WHERE tk = ?1)",
    },
    CopiedTable {
        name: "crisis_log",
        columns: &[
            ("tk", "", Number),
            ("insertion_order", "", Number),
            ("id", "", Text),
            ("session_id_opaque", "", Text),
            ("detected_at", "", Number),
            ("held_until", "", Number),
            ("value", "", Text),
        ],
        from: "crisis.crisis_log WHERE tk = ?1 ORDER BY insertion_order",
    },
    CopiedTable {
        name: "session_feedback",
        columns: &[
            ("tk", "", Number),
            ("insertion_order", "", Number),
            ("id", "", Text),
            ("session_id_opaque", "", Text),
            ("user_id_or_null", "", Text),
            ("recorded_at", "", Text),
            ("recorded_date", "", Text),
            ("label", "", Text),
            ("turn_count_at_end", "", Number),
            ("source", "", Text),
            ("schema_version", "", Number),
            ("value", "", Text),
        ],
        from: "feedback.session_feedback WHERE tk = ?1 ORDER BY insertion_order",
    },
];

impl CopiedTable {
    /// Selects its rows from the files.
    pub(super) fn select(&self) -> String {
        let columns = self.columns.iter().map(|(name, from, _)| if from.is_empty() { *name } else { *from });
        format!("SELECT {} FROM {}", columns.collect::<Vec<_>>().join(", "), self.from)
    }

    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.from)
    }

    /// Inserts rows from one JSON text.
    pub(super) fn insert(&self) -> String {
        let names = self.columns.iter().map(|(name, _, _)| *name).collect::<Vec<_>>().join(", ");
        // The default tenant exists already; its number and name are the same everywhere.
        let rest = match self.name {
            "tenants" => {
                " ON CONFLICT (tk) DO UPDATE SET id = excluded.id, suspended = excluded.suspended, \
                 created_at = excluded.created_at"
            }
            _ => "",
        };
        format!(
            "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE \
             SELECT {names} FROM json_populate_recordset(NULL::{table}, $1::text::json){rest}",
            table = self.name
        )
    }

    /// Selects its rows from the database, every column as text.
    pub(super) fn read_back(&self) -> String {
        let columns = self.columns.iter().map(|(name, _, kind)| match kind {
            Text => (*name).to_owned(),
            Number | List => format!("{name}::text"),
            Flag => format!("{name}::int::text"),
            Uuid => format!("replace({name}::text, '-', '')"),
            Bytes => format!("encode({name}, 'hex')"),
        });
        format!("SELECT {} FROM {}", columns.collect::<Vec<_>>().join(", "), self.name)
    }
}

/// A digest of rows in any order: their number and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableDigest {
    pub(super) rows: u64,
    sum: u128,
}

impl TableDigest {
    pub(super) fn row(&mut self, fields: &[Option<&str>]) {
        let mut hash = sha2::Sha256::new();
        for field in fields {
            // Lengths first, so that different rows cannot have the same bytes.
            match field {
                None => hash.update([0]),
                Some(text) => {
                    hash.update([1]);
                    hash.update(text.len().to_be_bytes());
                    hash.update(text.as_bytes());
                }
            }
        }
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize()[..16]);
        self.add(Self { rows: 1, sum: u128::from_be_bytes(half) });
    }

    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tenants::TENANT_TABLES;
    use super::*;

    #[test]
    fn a_digest_tells_rows_apart_but_not_their_order() {
        let digest = |rows: &[&[Option<&str>]]| {
            let mut digest = TableDigest::default();
            rows.iter().for_each(|row| digest.row(row));
            digest
        };
        let (a, b): (&[_], &[_]) = (&[Some("a"), None], &[Some("b"), Some("")]);
        assert_eq!(digest(&[a, b]), digest(&[b, a]));
        for other in [&[a][..], &[a, a], &[a, &[Some("b"), None]], &[a, &[Some(""), Some("b")]]] {
            assert_ne!(digest(&[a, b]), digest(other));
        }
        assert_ne!(digest(&[&[Some("ab"), Some("c")]]), digest(&[&[Some("a"), Some("bc")]]));
    }

    /// Tables that the store fills again when it is opened on the copy, or that it does not need.
    const NOT_COPIED: [&str; 3] = ["search_docs", "search_done", "reply_pieces"];

    #[test]
    fn every_table_of_a_tenant_is_copied_or_made_anew() {
        let mut copied: Vec<_> = TABLES.iter().map(|table| table.name).chain(NOT_COPIED).collect();
        let mut all: Vec<_> = TENANT_TABLES.into_iter().chain(["tenants"]).collect();
        copied.sort_unstable();
        all.sort_unstable();
        assert_eq!(copied, all);
    }
}
