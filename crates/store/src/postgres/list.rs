//! Lists of sessions, newest activity first. The planner knows neither the requested values nor how many sessions
//! have them. Where that decides, the store counts first and writes the statement accordingly.

use postgres_types::Type;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::limits;
use sederunt_core::session::query::{ListCursor, Page, SessionQuery, Visibility};
use sederunt_core::session::{Session, SessionType, Status};
use sederunt_core::store::{SessionListStore, StoreFuture};

use super::fault::Result;
use super::rows::{Columns, DETAILS, HEAD, Keyed};
use super::sessions::session_sql;
use super::tx::{Context, Param, Scope, int};
use super::{PostgresStore, read, search};
use crate::filtered_list::FEW;

/// Up to this many sessions are held in a hash table during the walk; looking each one up costs more.
const SOME: usize = 10_000;

/// A statement that is built from its conditions.
#[derive(Default)]
struct ListSql<'a> {
    conditions: Vec<String>,
    params: Vec<(Param<'a>, Type)>,
}

impl<'a> ListSql<'a> {
    /// Adds a condition; `$$` is its parameter.
    fn add(&mut self, condition: &str, param: Param<'a>, kind: Type) {
        self.params.push((param, kind));
        self.conditions.push(condition.replace("$$", &format!("${}", self.params.len())));
    }

    fn add_text(&mut self, condition: &str, text: &'a Option<impl AsText>) {
        if let Some(text) = text {
            self.add(condition, text.as_param(), Type::TEXT);
        }
    }

    /// The statement that reads a page: down the index of the walk, for each of its words. The limit is in the text,
    /// because the planner takes a limit in a parameter for a tenth of all rows.
    fn page(&mut self, walk: PgListWalk, words: &'a Vec<String>, limit: i64) -> String {
        const NEWEST: &str = "ORDER BY h.active_minute DESC, h.sk DESC";
        let column = match walk {
            PgListWalk::State => "state",
            PgListWalk::Task => "status",
            PgListWalk::Known => {
                let conditions = self.conditions.join(" AND ");
                return session_sql(&format!("WHERE {conditions} {NEWEST} LIMIT {limit}"));
            }
        };
        self.add(&format!("h.{column} = each.word"), words, Type::TEXT_ARRAY);
        let each = self.params.len();
        let conditions = self.conditions.join(" AND ");
        let wide = if self.conditions.iter().any(|condition| condition.starts_with("s.")) {
            "JOIN sessions s ON s.tk = h.tk AND s.sk = h.sk"
        } else {
            ""
        };
        // Each stretch of the index returns its newest rows; the newest of all of them are the page. `OFFSET 0` keeps
        // the planner from reading whole rows before the page is known.
        format!(
            "SELECT {HEAD}, h.preview, {DETAILS} FROM (
                 SELECT w.sk FROM unnest(${each}) AS each (word) CROSS JOIN LATERAL (
                     SELECT h.active_minute, h.sk FROM session_heads h {wide} WHERE {conditions} {NEWEST} LIMIT {limit}) w
                 ORDER BY w.active_minute DESC, w.sk DESC LIMIT {limit}) p
             CROSS JOIN LATERAL (SELECT * FROM session_heads WHERE tk = $1 AND sk = p.sk OFFSET 0) h
             CROSS JOIN LATERAL (SELECT * FROM sessions WHERE tk = $1 AND sk = p.sk OFFSET 0) s {NEWEST}"
        )
    }
}

/// How sessions are found.
#[derive(Clone, Copy)]
enum PgListWalk {
    /// Down the activity of every requested type and status.
    State,
    /// Down the activity of every status of a task.
    Task,
    /// Through the sessions that another condition names.
    Known,
}

trait AsText {
    fn as_param(&self) -> Param<'_>;
}

impl AsText for String {
    fn as_param(&self) -> Param<'_> {
        self
    }
}

impl AsText for &str {
    fn as_param(&self) -> Param<'_> {
        self
    }
}

impl SessionListStore for PostgresStore {
    fn sessions<'a>(&'a self, tenant: &'a TenantId, query: SessionQuery) -> StoreFuture<'a, Page<Session>> {
        read(sessions(&self.context, tenant, query))
    }
}

pub(super) async fn sessions(
    context: &Context,
    tenant: &TenantId,
    query: SessionQuery,
) -> Result<Page<Session>> {
    let empty = Page::default();
    let Some(tk) = context.tk(tenant).await? else { return Ok(empty) };
    let with_words = match &query.text {
        Some(text) => match search::sessions_with(context, tk, text).await? {
            Some(found) => Some(found),
            None => return Ok(empty),
        },
        None => None,
    };
    let statuses: Vec<&str> = Status::ALL
        .into_iter()
        .filter(|status| query.statuses().is_none_or(|only| only.contains(*status)))
        .map(Status::as_str)
        .collect();
    let types: Vec<&str> = SessionType::ALL
        .into_iter()
        .filter(|kind| query.types.only().is_none_or(|only| only == *kind))
        .map(SessionType::as_str)
        .collect();
    let user = query.user_id.as_ref().map(|user| user.as_str());
    let parent = query.parent_id.as_ref().map(|parent| parent.as_str());
    let ids: Vec<&str> = query.ids.iter().map(SessionId::as_str).collect();
    let limit = int(query.limit.clamp(1, limits::PAGE_ROWS_MAX) as u64);
    let one_more = limit + 1;

    let mut asked = ListSql::default();
    asked.add("h.tk = $$", &tk, Type::INT4);
    if !ids.is_empty() {
        asked.add("h.id = ANY ($$)", &ids, Type::TEXT_ARRAY);
    }
    asked.add_text("s.source_kind = $$", &query.kind);
    asked.add_text("s.source_platform = $$", &query.platform);
    if let Some(interactive) = &query.interactive {
        asked.add("s.source_interactive = $$", interactive, Type::BOOL);
    }
    asked.add_text("h.task_id = $$", &query.task_id);
    asked.add_text("h.entity_id = $$", &query.entity_id);
    asked.add_text("h.agent_slug = $$", &query.agent_slug);
    asked.add_text("h.holder = $$", &user);
    asked.add_text("s.parent_id = $$", &parent);
    let counted = metadata_counts(context, tk, &query.metadata).await?;
    let few = counted.iter().any(|count| *count <= FEW);
    for ((key, value), count) in query.metadata.iter().zip(counted) {
        asked.params.push((key, Type::TEXT));
        let key_at = asked.params.len();
        let condition = if count <= FEW {
            format!(
                "EXISTS (SELECT 1 FROM session_metadata m WHERE m.tk = h.tk AND m.sk = h.sk AND m.key = ${key_at}
                     AND m.value = $$)"
            )
        } else if count <= SOME {
            // Read once into a hash table, and then checked for each session of the walk. `IS TRUE` keeps the planner
            // from making a join of it.
            format!(
                "(h.sk IN (SELECT m.sk FROM session_metadata m WHERE m.tk = $1 AND m.key = ${key_at}
                     AND m.value = $$)) IS TRUE"
            )
        } else {
            // Most sessions of the walk have it. `OFFSET 0` keeps the planner from making a join of it.
            format!(
                "EXISTS (SELECT 1 FROM session_metadata m WHERE m.tk = $1 AND m.key = ${key_at} AND m.value = $$
                     AND m.sk = h.sk OFFSET 0)"
            )
        };
        asked.add(&condition, value, Type::TEXT);
    }
    if let Some(found) = &with_words {
        asked.add("h.sk = ANY ($$)", found, Type::INT8_ARRAY);
    }
    // In the text, so that the generic plan can use the index that begins with it.
    match query.inactive {
        None => asked.conditions.push("NOT h.inactive".into()),
        Some(true) => asked.conditions.push("h.inactive".into()),
        Some(false) => {}
    }
    if query.parents_only {
        asked.conditions.push("s.parent_id IS NULL".into());
    }
    if query.talks_only {
        asked.conditions.push("h.is_talk".into());
    }
    if query.without_bridges {
        asked.conditions.push("NOT h.is_bridge".into());
    }
    let seen = VisibleTo::of(query.seen_by.as_ref());
    seen.add_to(&mut asked);
    if let Some(after) = &query.after {
        asked.params.push((&after.minute, Type::INT8));
        let minute_at = asked.params.len();
        asked.add(&format!("(h.active_minute, h.sk) < (${minute_at}, $$)"), &after.tie, Type::INT8);
    }
    let known = few
        || !ids.is_empty()
        || with_words.is_some()
        || query.seen_by.is_some()
        || query.entity_id.is_some()
        || query.user_id.is_some()
        || query.parent_id.is_some();
    let walk = match &query.task_id {
        _ if known => PgListWalk::Known,
        Some(_) => PgListWalk::Task,
        None => PgListWalk::State,
    };
    if types.len() < SessionType::ALL.len() && !matches!(walk, PgListWalk::State) {
        asked.add("h.session_type = ANY ($$)", &types, Type::TEXT_ARRAY);
    }
    if statuses.len() < Status::ALL.len() && matches!(walk, PgListWalk::Known) {
        asked.add("h.status = ANY ($$)", &statuses, Type::TEXT_ARRAY);
    }
    let words = match walk {
        PgListWalk::State => {
            let states = |kind| statuses.iter().map(move |status| format!("{kind}/{status}"));
            types.iter().flat_map(states).collect()
        }
        PgListWalk::Task | PgListWalk::Known => statuses.iter().map(|status| (*status).to_owned()).collect(),
    };
    let sql = asked.page(walk, &words, one_more);
    let rows = context.read_uncached(Scope::Tenant(tk), &sql, &asked.params).await?;

    let mut items = Vec::with_capacity(rows.len());
    let mut last = None;
    let more = rows.len() as i64 > limit;
    for row in rows.iter().take(query.limit.clamp(1, limits::PAGE_ROWS_MAX)) {
        let Keyed { sk, value, .. } = Columns::of(row).whole(tenant)?;
        last = Some(ListCursor { minute: value.head.last_at.minute(), tie: sk });
        items.push(value);
    }
    Ok(Page { items, next: last.filter(|_| more) })
}

/// How many sessions have each of these values, up to a bound, now or a moment ago: it decides how to search, not
/// what is found.
async fn metadata_counts(context: &Context, tk: i32, metadata: &[(String, String)]) -> Result<Vec<usize>> {
    let mut counts = Vec::with_capacity(metadata.len());
    for (key, value) in metadata {
        let at = (tk, key.clone(), value.clone());
        let count = match context.metadata_counts.get(&at) {
            Some(count) => count,
            None => {
                let count = metadata_count(context, tk, key, value).await?;
                context.metadata_counts.insert(at, count);
                count
            }
        };
        counts.push(count);
    }
    Ok(counts)
}

async fn metadata_count(context: &Context, tk: i32, key: &str, value: &str) -> Result<usize> {
    let sql = "SELECT count(*) FROM (SELECT FROM session_metadata m
         WHERE m.tk = $1 AND m.key = $2 AND m.value = $3 LIMIT $4) counted";
    let one_more = int(SOME as u64 + 1);
    let rows = context.read(Scope::Tenant(tk), sql, &[&tk, &key, &value, &one_more]).await?;
    let count = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The sessions that the caller may see, as parameters.
pub(super) struct VisibleTo {
    pub(super) user: Option<String>,
    pub(super) credential: Option<String>,
    pub(super) prefix: Option<(String, String)>,
}

impl VisibleTo {
    pub(super) fn of(eyes: Option<&Visibility>) -> Self {
        let mut seen = Self { user: None, credential: None, prefix: None };
        match eyes {
            None => {}
            Some(Visibility::Participant(user)) => seen.user = Some(user.as_str().to_owned()),
            Some(Visibility::Claims(credential)) => seen.credential = Some(credential.as_str().to_owned()),
            // An empty prefix would show everything; no channel has one.
            Some(Visibility::Prefix(prefix)) => seen.prefix = Some(prefix_range(prefix)),
        }
        seen
    }

    fn add_to<'a>(&'a self, asked: &mut ListSql<'a>) {
        if let Some(user) = &self.user {
            asked.params.push((user, Type::TEXT));
            let at = asked.params.len();
            asked.conditions.push(format!(
                "h.sk IN (SELECT p.sk FROM participants p WHERE p.tk = $1 AND p.user_id = ${at}
                     UNION ALL SELECT o.sk FROM session_heads o WHERE o.tk = $1 AND o.holder = ${at})"
            ));
        }
        if let Some(credential) = &self.credential {
            asked.add("h.status = 'running' AND h.claim_credential = $$", credential, Type::TEXT);
        }
        if let Some((from, to)) = &self.prefix {
            asked.params.extend([(from as Param<'a>, Type::TEXT), (to, Type::TEXT)]);
            let at = asked.params.len();
            asked.conditions.push(format!(
                "h.sk IN (SELECT i.sk FROM sessions i WHERE i.tk = $1 AND i.id >= ${} AND i.id < ${at})",
                at - 1
            ));
        }
    }
}

/// The ids that start with a prefix, as a half-open range in the order of bytes.
fn prefix_range(prefix: &str) -> (String, String) {
    let next = prefix.char_indices().rev().find_map(|(at, last)| {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32)?;
        Some(format!("{}{next}", &prefix[..at]))
    });
    match next {
        Some(next) => (prefix.to_owned(), next),
        None => (String::new(), String::new()),
    }
}
