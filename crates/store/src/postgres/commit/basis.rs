//! Loads the rows that the records of a change rest on, in one statement, and locks those that must not change before
//! the commit. Core judges them (`Change::judge_records`).

use sederunt_core::approval::ApprovalState;
use sederunt_core::error::Error;
use sederunt_core::store::{Change, Refusal, RowKey, RowState};
use tokio_postgres::Row;

use crate::postgres::fault::Result;
use crate::postgres::tx::{Param, count};

/// The column of a row that decides.
enum RowReading {
    Presence,
    Version,
    /// The owner of the row.
    Of,
    State,
}

/// How rows are found, one entry for each kind: by a name in two parts, with a version and a word. `{a}` and `{b}`
/// are the first and second parts of the requested names. Rows are locked in the order of the entries.
const FINDS: [(RowReading, &str); 19] = [
    (
        RowReading::Presence,
        "SELECT s.id, '', 0::bigint, '' FROM sessions s JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
         WHERE s.tk = $1 AND s.id = ANY ({a}) ORDER BY h.sk FOR KEY SHARE OF h",
    ),
    (
        RowReading::Version,
        "SELECT d.id, d.kind, d.version, '' FROM unnest({a}, {b}) AS k (id, kind)
         JOIN docs d ON d.tk = $1 AND d.kind = k.kind AND d.id = k.id ORDER BY d.n FOR NO KEY UPDATE OF d",
    ),
    (
        RowReading::Of,
        "SELECT d.slug, d.kind, 0::bigint, d.id FROM unnest({a}, {b}) AS k (slug, kind)
         JOIN docs d ON d.tk = $1 AND d.kind = k.kind AND d.slug = k.slug",
    ),
    (
        RowReading::State,
        "SELECT id, '', 0::bigint, state FROM approvals WHERE tk = $1 AND id = ANY ({a})
         ORDER BY n FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT id, '', 0::bigint, '' FROM api_keys WHERE tk = $1 AND id = ANY ({a})
         ORDER BY id FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT id, '', 0::bigint, '' FROM shares WHERE tk = $1 AND id = ANY ({a}) ORDER BY id FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT id, '', 0::bigint, '' FROM users WHERE tk = $1 AND id = ANY ({a}) ORDER BY id FOR NO KEY UPDATE",
    ),
    (
        RowReading::Of,
        "SELECT i.platform, i.external_id, 0::bigint, i.user_id FROM unnest({a}, {b}) AS k (platform, external_id)
         JOIN identities i ON i.tk = $1 AND i.platform = k.platform AND i.external_id = k.external_id",
    ),
    (RowReading::Presence, "SELECT id, '', 0::bigint, '' FROM feedback_events WHERE tk = $1 AND id = ANY ({a})"),
    (
        RowReading::Version,
        "SELECT id, '', version, '' FROM feedback_sessions WHERE tk = $1 AND id = ANY ({a})
         ORDER BY n FOR NO KEY UPDATE",
    ),
    (
        RowReading::Version,
        "SELECT id, '', version, '' FROM lessons WHERE tk = $1 AND id = ANY ({a}) ORDER BY n FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT id, '', 0::bigint, '' FROM crisis_log WHERE tk = $1 AND id = ANY ({a})
         ORDER BY id FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT r.view_id, r.respondent, 0::bigint, '' FROM unnest({a}, {b}) AS k (view_id, respondent)
         JOIN responses r ON r.tk = $1 AND r.view_id = k.view_id AND r.respondent = k.respondent
             AND (r.state = 'open' OR (r.once AND r.state = 'submitted'))",
    ),
    (
        RowReading::Presence,
        "SELECT id, '', 0::bigint, '' FROM browser_sessions WHERE tk = $1 AND id = ANY ({a})
         ORDER BY id FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT s.id, k.name, 0::bigint, '' FROM unnest({a}, {b}) AS k (session, name)
         JOIN sessions s ON s.tk = $1 AND s.id = k.session
         JOIN documents d ON d.tk = s.tk AND d.sk = s.sk AND d.kind = split_part(k.name, '/', 1)
             AND d.id = substr(k.name, strpos(k.name, '/') + 1)",
    ),
    (
        RowReading::Presence,
        "SELECT k.channel, k.update_key, 0::bigint, '' FROM unnest({a}, {b}) AS k (channel, update_key)
         JOIN channel_updates u ON u.tk = $1 AND u.channel = k.channel AND u.update_key = k.update_key",
    ),
    (
        RowReading::Of,
        "SELECT k.channel, k.place, 0::bigint, s.id FROM unnest({a}, {b}) AS k (channel, place)
         JOIN channel_conversations c ON c.tk = $1 AND c.channel = k.channel
             AND c.chat = split_part(k.place, E'\\n', 1) AND c.thread = split_part(k.place, E'\\n', 2)
         JOIN sessions s ON s.tk = c.tk AND s.sk = c.sk",
    ),
    (
        RowReading::Version,
        "SELECT name, '', epoch, '' FROM channels WHERE tk = $1 AND name = ANY ({a}) ORDER BY name FOR NO KEY UPDATE",
    ),
    (
        RowReading::Presence,
        "SELECT hash, '', 0::bigint, '' FROM link_codes WHERE tk = $1 AND hash = ANY ({a})
         ORDER BY hash FOR NO KEY UPDATE",
    ),
];

/// The index of a key in [`FINDS`], and its name in two parts.
fn find_of<'k>(key: &'k RowKey<'_>) -> (usize, &'k str, &'k str) {
    match key {
        RowKey::Session(id) => (0, id.as_str(), ""),
        RowKey::Doc(kind, id) => (1, id, kind.as_str()),
        RowKey::Slug(kind, slug) => (2, slug, kind.as_str()),
        RowKey::Approval(id) => (3, id, ""),
        RowKey::ApiKey(id) => (4, id.as_str(), ""),
        RowKey::Share(id) => (5, id, ""),
        RowKey::User(id) => (6, id.as_str(), ""),
        RowKey::Identity(identity) => (7, &identity.platform, &identity.external_id),
        RowKey::Feedback(id) => (8, id, ""),
        RowKey::FeedbackSession(id) => (9, id, ""),
        RowKey::Lesson(id) => (10, id, ""),
        RowKey::Crisis(id) => (11, id, ""),
        RowKey::StandingResponse { view_id, respondent_name } => (12, view_id, respondent_name),
        RowKey::BrowserSession(id) => (13, id, ""),
        RowKey::LinkCode(hash) => (18, hash, ""),
        RowKey::SharedDocument(session, name) => (14, session.as_str(), name),
        RowKey::ChannelUpdate { channel, update_key } => (15, channel, update_key),
        RowKey::Conversation { channel, place } => (16, channel, place),
        RowKey::Channel(name) => (17, name, ""),
    }
}

/// The query of a change: a statement that is the same for all changes with the same kinds of rows, and the names.
#[derive(Default)]
pub(in crate::postgres) struct BasisQuery<'k> {
    pub(in crate::postgres) sql: String,
    names: Vec<Vec<&'k str>>,
}

impl<'k> BasisQuery<'k> {
    pub(in crate::postgres) fn of(keys: &'k [RowKey<'_>]) -> Self {
        let mut query = Self::default();
        for (at, (_, find)) in FINDS.iter().enumerate() {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for (_, first, second) in keys.iter().map(find_of).filter(|(of, ..)| *of == at) {
                a.push(first);
                b.push(second);
            }
            if a.is_empty() {
                continue;
            }
            let find = find.replace("{a}", &query.add(a));
            let find = if find.contains("{b}") { find.replace("{b}", &query.add(b)) } else { find };
            let union = if query.sql.is_empty() { "" } else { " UNION ALL " };
            query.sql += &format!("{union}SELECT {at}, f.* FROM ({find}) f");
        }
        query
    }

    fn add(&mut self, names: Vec<&'k str>) -> String {
        self.names.push(names);
        format!("${}::text[]", self.names.len() + 1)
    }

    pub(in crate::postgres) fn params<'p>(&'p self, tk: &'p i32) -> Vec<Param<'p>> {
        std::iter::once(tk as Param<'p>).chain(self.names.iter().map(|names| names as Param<'p>)).collect()
    }
}

/// The index of a row in [`FINDS`], its name in two parts, and its state.
type BasisRow = (usize, String, String, RowState);

/// The rows that were found.
pub(in crate::postgres) struct BasisRows(Vec<BasisRow>);

impl BasisRows {
    pub(in crate::postgres) fn of(rows: &[Row]) -> Result<Self> {
        rows.iter().map(found).collect::<Result<_>>().map(Self)
    }

    fn state(&self, key: &RowKey<'_>) -> Option<RowState> {
        let (at, a, b) = find_of(key);
        let is_it = |row: &&BasisRow| (row.0, &*row.1, &*row.2) == (at, a, b);
        self.0.iter().find(is_it).map(|(.., state)| state.clone())
    }

    /// Whether the records of a change may be written.
    pub(in crate::postgres) fn judge(&self, change: &Change) -> std::result::Result<(), Refusal> {
        match change.judge_records(|key| Ok::<_, std::convert::Infallible>(self.state(key))) {
            Ok(judged) => judged,
        }
    }
}

fn found(row: &Row) -> Result<BasisRow> {
    let at = usize::try_from(row.try_get::<_, i32>(0)?).map_err(Error::internal)?;
    let (reads, _) = FINDS.get(at).ok_or_else(|| Error::internal("a row of no kind was found"))?;
    let (version, word): (i64, &str) = (row.try_get(3)?, row.try_get(4)?);
    let state = match reads {
        RowReading::Presence => RowState::Present,
        RowReading::Version => RowState::Version(count(version)),
        RowReading::Of => RowState::Of(word.into()),
        RowReading::State => {
            let state = ApprovalState::parse(word);
            RowState::Approval(state.ok_or_else(|| Error::internal(format!("an approval is `{word}`")))?)
        }
    };
    Ok((at, row.try_get(1)?, row.try_get(2)?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_the_same_kinds_of_rows_ask_by_the_same_statement() {
        let query = |ids: &[&'static str]| {
            let keys: Vec<_> = ids.iter().map(|id| RowKey::Lesson(id)).chain([RowKey::Share("s")]).collect();
            BasisQuery::of(&keys).sql
        };
        assert_eq!(query(&["a"]), query(&["b", "c"]));
        assert!(query(&["a"]).contains("$2::text[]") && query(&["a"]).contains("$3::text[]"));
        assert_eq!(BasisQuery::of(&[]).sql, "");
    }
}
