//! Lists of sessions, newest activity first. Each query names the index that it walks, because the planner cannot
//! know which filter is the narrow one. Whole rows are read for the page only.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use futures_util::FutureExt as _;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::limits;
use sederunt_core::session::query::{ListCursor, Page, SessionQuery, Visibility};
use sederunt_core::session::{Session, SessionType, Status};
use sederunt_core::store::{SessionListStore, StoreFuture};

use super::{SqliteStore, search, sessions};
use crate::filtered_list::FEW;
use crate::words::SearchTerms;

/// Rows of a list that are checked for common words in one go.
const PORTION_MAX: usize = 4_096;
/// Bytes of text that are searched for common words before the index is asked for all sessions that have them: a few
/// milliseconds' work, and more than a page of ordinary sessions holds.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The cost of finding the texts of a session, in bytes of text.
const ROW_BYTES: usize = 256;

impl SessionListStore for SqliteStore {
    fn sessions<'a>(&'a self, tenant: &'a TenantId, query: SessionQuery) -> StoreFuture<'a, Page<Session>> {
        let named = tenant.clone();
        self.read_tenant(tenant, move |db, tk| page(db, &named, tk, &query)).boxed()
    }
}

fn page(
    db: &Connection,
    tenant: &TenantId,
    tk: i64,
    query: &SessionQuery,
) -> rusqlite::Result<Page<Session>> {
    let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
    let mut keys = match ListPlan::of(db, tk, query)? {
        Some(plan) => plan.page(db, limit + 1)?,
        None => Vec::new(),
    };
    let more = keys.len() > limit;
    keys.truncate(limit);
    let next = keys.last().filter(|_| more).map(|(minute, tie)| ListCursor { minute: *minute, tie: *tie });
    let mut items = Vec::with_capacity(keys.len());
    let mut rows = sessions::ByKey::of(db)?;
    for (_, sk) in keys {
        items.extend(rows.get(tenant, sk)?);
    }
    Ok(Page { items, next })
}

/// A query as a plan: the conditions of every row, and the walk that finds rows.
struct ListPlan {
    tk: i64,
    wheres: Vec<String>,
    values: Vec<Value>,
    walk: ListWalk,
    /// Words that too many sessions have to list them all: each row of the walk is checked for them.
    common_words: Option<CommonWords>,
    /// The index among the values of the cursor's minute; the tie follows it.
    cursor_at: usize,
    /// The session types that [`ListWalk::States`] walks.
    types: Vec<SessionType>,
    statuses: Option<Vec<Status>>,
    inactive: Vec<bool>,
}

/// How rows are found.
enum ListWalk {
    /// Down an index that ends with the activity and whose other columns are given.
    Index(&'static str),
    /// Down the index by type and status: one walk for each type, status and flag, merged.
    States,
    /// Through the sessions in work of a task, and down the index of its other sessions: one walk for each status and
    /// flag.
    Task(String),
    /// Through a list of few sessions.
    Few,
}

impl ListPlan {
    /// `None` when no session can match.
    fn of(db: &Connection, tk: i64, query: &SessionQuery) -> rusqlite::Result<Option<Self>> {
        let statuses: Option<Vec<Status>> = query.statuses().map(|only| only.iter().collect());
        if statuses.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let inactive = match query.inactive {
            None => vec![false],
            Some(true) => vec![true],
            Some(false) => vec![false, true],
        };
        let walk = match query {
            SessionQuery { task_id: Some(task), .. } => ListWalk::Task(task.clone()),
            SessionQuery { entity_id: Some(_), .. } => ListWalk::Index("sessions_by_entity"),
            SessionQuery { parent_id: Some(_), .. } => ListWalk::Index("sessions_by_parent"),
            SessionQuery { user_id: Some(_), .. } => ListWalk::Index("sessions_by_user"),
            _ => ListWalk::States,
        };
        let types = query.types.only().map_or(SessionType::ALL.to_vec(), |only| vec![only]);
        let mut plan = Self {
            tk,
            wheres: Vec::new(),
            values: vec![tk.into()],
            walk,
            common_words: None,
            cursor_at: 0,
            types,
            statuses,
            inactive,
        };
        plan.add_columns(query);
        if !plan.add_sets(db, query)? {
            return Ok(None);
        }
        Ok(Some(plan))
    }

    /// Binds a value and returns its placeholder.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    fn equal(&mut self, column: &str, value: impl Into<Value>) {
        let place = self.bind(value);
        self.wheres.push(format!("s.{column} = {place}"));
    }

    fn add_columns(&mut self, query: &SessionQuery) {
        let texts = [
            ("session_type", query.types.only().map(|only| only.as_str().to_owned())),
            ("source_kind", query.kind.clone()),
            ("platform", query.platform.clone()),
            ("task_id", query.task_id.clone()),
            ("entity_id", query.entity_id.clone()),
            ("agent_slug", query.agent_slug.clone()),
            ("user_id", query.user_id.as_ref().map(|user| user.as_str().to_owned())),
            ("parent_id", query.parent_id.as_ref().map(|parent| parent.as_str().to_owned())),
        ];
        for (column, text) in texts {
            if let Some(text) = text {
                self.equal(column, text);
            }
        }
        if let Some(interactive) = query.interactive {
            self.equal("interactive", i64::from(interactive));
        }
        if query.parents_only {
            self.wheres.push("s.parent_id IS NULL".to_owned());
        }
        if query.talks_only {
            // A scalar subquery, which SQLite evaluates for each row of the walk instead of making a join of it.
            self.wheres.push("(SELECT h.is_talk FROM session_heads h WHERE h.sk = s.sk) = 1".to_owned());
        }
        if query.without_bridges {
            self.wheres.push("s.source_kind <> 'human-session-bridge'".to_owned());
        }
        if let Some(cursor) = query.after {
            self.continue_after((cursor.minute, cursor.tie));
        }
    }

    /// Leaves out every row up to this one.
    fn continue_after(&mut self, (minute, tie): (i64, i64)) {
        if self.cursor_at > 0 {
            self.values[self.cursor_at] = minute.into();
            self.values[self.cursor_at + 1] = tie.into();
            return;
        }
        self.cursor_at = self.values.len();
        let (minute, tie) = (self.bind(minute), self.bind(tie));
        self.wheres.push(format!("(s.active_minute, s.sk) < ({minute}, {tie})"));
    }

    /// Adds filters of other tables. Returns `false` if one of them matches nothing.
    fn add_sets(&mut self, db: &Connection, query: &SessionQuery) -> rusqlite::Result<bool> {
        let mut sets = Vec::new();
        if !query.ids.is_empty() {
            sets.push(SetFilter::ids(self.tk, &query.ids));
        }
        for (key, value) in &query.metadata {
            sets.push(SetFilter::metadata(self.tk, key, value));
        }
        match &query.seen_by {
            None => {}
            Some(Visibility::Participant(user)) => sets.push(SetFilter::participant(self.tk, user.as_str())),
            Some(Visibility::Claims(credential)) => {
                sets.push(SetFilter::claims(self.tk, credential.as_str()))
            }
            Some(Visibility::Prefix(prefix)) if prefix.is_empty() => return Ok(false),
            Some(Visibility::Prefix(prefix)) => sets.push(SetFilter::prefix(self.tk, prefix)),
        }
        let mut few: Option<Vec<i64>> = None;
        if let Some(text) = &query.text {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let Some(terms) = SearchTerms::of(&words) else { return Ok(false) };
            let words = CommonWords::new(self.tk, terms);
            match words.few(db)? {
                Some(found) => few = Some(found),
                None => self.common_words = Some(words),
            }
        }
        let mut wide = Vec::new();
        for set in sets {
            match set.few(db)? {
                None => wide.push(set),
                Some(found) => match &mut few {
                    None => few = Some(found),
                    Some(few) => few.retain(|sk| found.binary_search(sk).is_ok()),
                },
            }
        }
        if let Some(few) = few {
            if few.is_empty() {
                return Ok(false);
            }
            let list = format!("[{}]", few.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
            let place = self.bind(list);
            self.wheres.push(format!("s.sk IN (SELECT value FROM json_each({place}))"));
            self.walk = ListWalk::Few;
        }
        for set in wide {
            let places: Vec<String> = set.values.into_iter().map(|value| self.bind(value)).collect();
            self.wheres.push((set.probe)(&places));
        }
        Ok(true)
    }

    /// The first rows by (minute, number), newest first, that also have the words.
    fn page(mut self, db: &Connection, limit: usize) -> rusqlite::Result<Vec<(i64, i64)>> {
        let Some(mut words) = self.common_words.take() else { return self.keys(db, limit) };
        let mut page = Vec::new();
        let mut portion = limit;
        loop {
            let candidates = self.keys(db, portion)?;
            for (minute, sk) in &candidates {
                if words.match_text(db, *sk)? {
                    page.push((*minute, *sk));
                    if page.len() == limit {
                        return Ok(page);
                    }
                }
            }
            match candidates.last() {
                Some(last) if candidates.len() == portion => self.continue_after(*last),
                _ => return Ok(page),
            }
            // Few rows had the words: read more rows in the next round, so that the walks start less often.
            portion = (portion * 4).min(PORTION_MAX);
        }
    }

    /// The first rows by (minute, number), newest first.
    fn keys(&self, db: &Connection, limit: usize) -> rusqlite::Result<Vec<(i64, i64)>> {
        let mut keys = Vec::new();
        let statuses = self.statuses.as_deref().unwrap_or(&Status::ALL);
        match &self.walk {
            ListWalk::States => self.walk_states(db, statuses, limit, &mut keys)?,
            ListWalk::Task(task) => self.walk_task(db, task, statuses, limit, &mut keys)?,
            ListWalk::Index(index) => {
                self.walk(db, Some(index), &self.state_conditions(), Vec::new(), limit, &mut keys)?
            }
            ListWalk::Few => self.walk(db, None, &self.state_conditions(), Vec::new(), limit, &mut keys)?,
        }
        keys.sort_unstable_by(|a, b| b.cmp(a));
        keys.truncate(limit);
        Ok(keys)
    }

    fn walk_states(
        &self,
        db: &Connection,
        statuses: &[Status],
        limit: usize,
        keys: &mut Vec<(i64, i64)>,
    ) -> rusqlite::Result<()> {
        for session_type in &self.types {
            for status in statuses {
                for inactive in &self.inactive {
                    let stretch = IndexStretch {
                        session_type: Some(*session_type),
                        status: *status,
                        inactive: *inactive,
                    };
                    let (more, values) = stretch.conditions(self.values.len());
                    self.walk(db, Some("sessions_by_state"), &more, values, limit, keys)?;
                }
            }
        }
        Ok(())
    }

    /// Sessions in work are not indexed by their activity. A few are read and sorted; if there are many, the walk by
    /// state meets them soon.
    fn walk_task(
        &self,
        db: &Connection,
        task: &str,
        statuses: &[Status],
        limit: usize,
        keys: &mut Vec<(i64, i64)>,
    ) -> rusqlite::Result<()> {
        let (in_work, others): (Vec<Status>, Vec<Status>) =
            statuses.iter().partition(|status| status.is_in_work());
        for status in others {
            for inactive in &self.inactive {
                let stretch = IndexStretch { session_type: None, status, inactive: *inactive };
                let (mut more, values) = stretch.conditions(self.values.len());
                more.push("s.in_work = 0".to_owned());
                self.walk(db, Some("sessions_by_work"), &more, values, limit, keys)?;
            }
        }
        if in_work.is_empty() {
            return Ok(());
        }
        if self.has_many_in_work(db, task)? {
            return self.walk_states(db, &in_work, limit, keys);
        }
        let mut more = self.state_conditions();
        more.push("s.in_work = 1".to_owned());
        self.walk(db, Some("sessions_in_work"), &more, Vec::new(), limit, keys)
    }

    fn has_many_in_work(&self, db: &Connection, task: &str) -> rusqlite::Result<bool> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM sessions INDEXED BY sessions_in_work \
             WHERE tk = ?1 AND task_id = ?2 AND in_work = 1 LIMIT {})",
            FEW + 1
        );
        let count: i64 = db.prepare_cached(&sql)?.query_row(params![self.tk, task], |row| row.get(0))?;
        Ok(count > FEW as i64)
    }

    /// The conditions on status and flag, for walks that are not by status and flag.
    fn state_conditions(&self) -> Vec<String> {
        let mut passing = Vec::new();
        if let [inactive] = self.inactive[..] {
            passing.push(format!("s.inactive = {}", i64::from(inactive)));
        }
        if let Some(statuses) = &self.statuses {
            let words: Vec<String> = statuses.iter().map(|status| format!("'{}'", status.as_str())).collect();
            passing.push(format!("s.status IN ({})", words.join(", ")));
        }
        passing
    }

    fn walk(
        &self,
        db: &Connection,
        index: Option<&str>,
        more: &[String],
        values: Vec<Value>,
        limit: usize,
        keys: &mut Vec<(i64, i64)>,
    ) -> rusqlite::Result<()> {
        let by = index.map_or(String::new(), |index| format!(" INDEXED BY {index}"));
        let wheres: String = self.wheres.iter().chain(more).flat_map(|one| [" AND ", one]).collect();
        let sql = format!(
            "SELECT s.active_minute, s.sk FROM sessions s{by} WHERE s.tk = ?1{wheres} \
             ORDER BY s.active_minute DESC, s.sk DESC LIMIT {limit}"
        );
        let mut statement = db.prepare_cached(&sql)?;
        let values = self.values.iter().chain(&values);
        for row in statement.query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))? {
            keys.push(row?);
        }
        Ok(())
    }
}

/// A part of an index in which sessions are in the order of their activity.
struct IndexStretch {
    session_type: Option<SessionType>,
    status: Status,
    inactive: bool,
}

impl IndexStretch {
    /// The conditions, with placeholders after so many others, and their values: one statement serves every stretch.
    fn conditions(&self, places: usize) -> (Vec<String>, Vec<Value>) {
        let mut values: Vec<Value> =
            vec![i64::from(self.inactive).into(), self.status.as_str().to_owned().into()];
        let mut more = vec![format!("s.inactive = ?{}", places + 1), format!("s.status = ?{}", places + 2)];
        if let Some(session_type) = self.session_type {
            values.push(session_type.as_str().to_owned().into());
            more.push(format!("s.session_type = ?{}", places + 3));
        }
        (more, values)
    }
}

/// A filter on another table: as a list of sessions, and as a condition on one session with placeholders for the same
/// values.
struct SetFilter {
    values: Vec<Value>,
    list: &'static str,
    probe: fn(&[String]) -> String,
}

impl SetFilter {
    fn ids(tk: i64, ids: &[SessionId]) -> Self {
        let ids: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
        Self {
            values: vec![tk.into(), serde_json::Value::from(ids).to_string().into()],
            list: "SELECT h.sk FROM json_each(?2) named CROSS JOIN session_heads h ON h.tk = ?1 AND h.id = named.value",
            probe: |at| {
                format!(
                    "EXISTS (SELECT 1 FROM session_heads h WHERE h.sk = s.sk AND h.tk = {} \
                     AND h.id IN (SELECT value FROM json_each({})))",
                    at[0], at[1]
                )
            },
        }
    }

    fn metadata(tk: i64, key: &str, value: &str) -> Self {
        Self {
            values: vec![tk.into(), key.to_owned().into(), value.to_owned().into()],
            list: "SELECT sk FROM session_metadata WHERE tk = ?1 AND key = ?2 AND value = ?3",
            probe: |at| {
                format!(
                    "EXISTS (SELECT 1 FROM session_metadata m \
                     WHERE m.tk = {} AND m.key = {} AND m.value = {} AND m.sk = s.sk)",
                    at[0], at[1], at[2]
                )
            },
        }
    }

    /// The holder participates without a row in `participants`.
    fn participant(tk: i64, user: &str) -> Self {
        Self {
            values: vec![user.to_owned().into(), tk.into()],
            list: "SELECT sk FROM participants WHERE tk = ?2 AND user_id = ?1 \
                   UNION ALL SELECT sk FROM sessions WHERE tk = ?2 AND user_id = ?1",
            probe: |at| {
                format!(
                    "s.tk = {1} AND (s.user_id = {0} \
                     OR EXISTS (SELECT 1 FROM participants p WHERE p.sk = s.sk AND p.user_id = {0}))",
                    at[0], at[1]
                )
            },
        }
    }

    fn claims(tk: i64, credential: &str) -> Self {
        Self {
            values: vec![tk.into(), credential.to_owned().into()],
            list: "SELECT h.sk FROM sessions s INDEXED BY sessions_by_state CROSS JOIN session_heads h ON h.sk = s.sk \
                   WHERE s.tk = ?1 AND s.session_type IN ('agent', 'response', 'tool', 'mixed') \
                   AND s.status = 'running' AND s.inactive IN (0, 1) AND h.claim_credential = ?2",
            probe: |at| {
                format!(
                    "EXISTS (SELECT 1 FROM session_heads h \
                     WHERE h.sk = s.sk AND h.tk = {} AND h.claim_credential = {})",
                    at[0], at[1]
                )
            },
        }
    }

    fn prefix(tk: i64, prefix: &str) -> Self {
        Self {
            values: vec![tk.into(), prefix.to_owned().into(), after_prefix(prefix).into()],
            list: "SELECT sk FROM session_heads WHERE tk = ?1 AND id >= ?2 AND id < ?3",
            probe: |at| {
                format!(
                    "EXISTS (SELECT 1 FROM session_heads h \
                     WHERE h.sk = s.sk AND h.tk = {} AND h.id >= {} AND h.id < {})",
                    at[0], at[1], at[2]
                )
            },
        }
    }

    /// The sessions of this filter in the order of their numbers, if they are few.
    fn few(&self, db: &Connection) -> rusqlite::Result<Option<Vec<i64>>> {
        few(db, self.list, params_from_iter(&self.values))
    }
}

/// The sessions of a list in the order of their numbers, if they are few.
fn few(db: &Connection, list: &str, values: impl rusqlite::Params) -> rusqlite::Result<Option<Vec<i64>>> {
    let mut statement = db.prepare_cached(&format!("{list} LIMIT {}", FEW + 1))?;
    let mut found: Vec<i64> =
        statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if found.len() > FEW {
        return Ok(None);
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

/// Checks sessions for words one by one. The full-text index cannot do that: every query would collect all documents
/// that have the words. So the texts of a session are read, which is little work where the words are common. Where
/// they are rare among the first rows of the list, the index is asked once for all sessions that have them.
struct CommonWords {
    terms: SearchTerms,
    /// The FTS5 query.
    matching: String,
    /// Bytes of text that may be read before the index is asked.
    bytes_left: usize,
    /// The sessions that the index found.
    found: Option<HashSet<i64, RandomState>>,
}

impl CommonWords {
    fn new(tk: i64, terms: SearchTerms) -> Self {
        let matching = search::within_tenant(tk, &search::matching(&terms));
        Self { terms, matching, bytes_left: TEXT_BYTES_MAX, found: None }
    }

    fn few(&self, db: &Connection) -> rusqlite::Result<Option<Vec<i64>>> {
        let list = "SELECT d.sk FROM search.words w CROSS JOIN search.docs d ON d.doc = w.rowid \
                    WHERE w.words MATCH ?1 AND said_at_once(d.cuts, d.text, ?2)";
        few(db, list, params![self.matching, self.terms.words().join(" ")])
    }

    /// Whether one text of this session has all words.
    fn match_text(&mut self, db: &Connection, sk: i64) -> rusqlite::Result<bool> {
        if let Some(found) = &self.found {
            // The index finds documents, and a document may hold several texts.
            return match found.contains(&sk) {
                true if self.terms.words().len() > 1 => self.search_texts(db, sk).map(|so| so == Some(true)),
                answer => Ok(answer),
            };
        }
        if let Some(so) = self.search_texts(db, sk)? {
            return Ok(so);
        }
        self.bytes_left = usize::MAX;
        let mut statement = db.prepare_cached(
            "SELECT d.sk FROM search.words w CROSS JOIN search.docs d ON d.doc = w.rowid WHERE w.words MATCH ?1",
        )?;
        let found = statement.query_map([&self.matching], |row| row.get(0))?;
        self.found = Some(found.collect::<rusqlite::Result<_>>()?);
        self.match_text(db, sk)
    }

    /// Searches the texts of a session. `None` if that would exceed the bytes that may be read.
    fn search_texts(&mut self, db: &Connection, sk: i64) -> rusqlite::Result<Option<bool>> {
        let mut statement =
            db.prepare_cached("SELECT cuts, text FROM search.docs WHERE sk = ?1 ORDER BY seq")?;
        let mut rows = statement.query([sk])?;
        let Some(left) = self.bytes_left.checked_sub(ROW_BYTES) else { return Ok(None) };
        self.bytes_left = left;
        while let Some(row) = rows.next()? {
            let (cuts, text) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            let Some(left) = self.bytes_left.checked_sub(text.len()) else { return Ok(None) };
            self.bytes_left = left;
            if search::cut(cuts, text).any(|(_, text)| self.terms.match_text(text)) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }
}

/// The smallest text that is greater than every text with this prefix, in the order of bytes.
fn after_prefix(prefix: &str) -> String {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            chars.push(next);
            return chars.into_iter().collect();
        }
    }
    // No text is greater than those with a prefix of the last characters.
    format!("{prefix}{}", char::MAX)
}
