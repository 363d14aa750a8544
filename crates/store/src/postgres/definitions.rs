//! Documents and their facets: the definitions of a tenant.

use futures_util::FutureExt as _;
use postgres_types::Type;
use sederunt_core::definitions::{self, DefinitionDoc, DefinitionKind, DocQuery, DocTitle};
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::session::query::Page;
use sederunt_core::store::{DocStore, StoreFuture};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{AS_STORE, Context, Param, Scope, Tx, int};
use super::{PostgresStore, read};
use crate::filtered_list::{FilteredList, facets_of_people};
use crate::title_search::TitlePage;

const DOC: &str = "d.n, d.kind, d.id, d.slug, d.body, d.version, d.created_by, d.created_at, d.updated_at,
     ARRAY(SELECT f.key FROM doc_facets f WHERE f.tk = d.tk AND f.n = d.n ORDER BY f.key, f.value),
     ARRAY(SELECT f.value FROM doc_facets f WHERE f.tk = d.tk AND f.n = d.n ORDER BY f.key, f.value)";

pub(super) fn doc_of(row: &Row) -> Result<(i64, DefinitionDoc)> {
    let mut columns = Columns::of(row);
    let n = columns.take()?;
    let mut doc = DefinitionDoc {
        kind: columns.word(DefinitionKind::parse)?,
        id: columns.take::<&str>()?.into(),
        slug: columns.text()?,
        body: Json::stored(columns.take::<&str>()?),
        facets: Vec::new(),
        version: columns.number()?,
        created_by: columns.user()?,
        created_at: columns.time()?,
        updated_at: columns.time()?,
    };
    let (keys, values): (Vec<&str>, Vec<&str>) = (columns.take()?, columns.take()?);
    let known = |(key, value): (&str, &str)| definitions::facet(key).map(|key| (key, value.into()));
    doc.facets = keys.into_iter().zip(values).filter_map(known).collect();
    Ok((n, doc))
}

/// Documents by their ids or slugs; the requested name is the last column.
pub(super) fn by_name_sql() -> String {
    format!(
        "SELECT {DOC}, w.name FROM unnest($2::text[], $3::text[]) AS w (kind, name)
         CROSS JOIN LATERAL (SELECT n FROM (
             SELECT 1 AS turn, i.n FROM docs i WHERE i.tk = $1 AND i.kind = w.kind AND i.id = w.name
             UNION ALL SELECT 2, s.n FROM docs s WHERE s.tk = $1 AND s.kind = w.kind AND s.slug = w.name
         ) named ORDER BY turn LIMIT 1) f
         JOIN docs d ON d.tk = $1 AND d.n = f.n"
    )
}

impl DocStore for PostgresStore {
    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: DefinitionKind,
        name: &'a str,
    ) -> StoreFuture<'a, Option<DefinitionDoc>> {
        self.read_batches.doc(tenant, kind, name).boxed()
    }

    fn docs<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: DocQuery,
    ) -> StoreFuture<'a, Page<DefinitionDoc, i64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Page::default()) };
            if let Some(text) = &query.text {
                let Some(page) = TitlePage::new(&query, text) else { return Ok(Page::default()) };
                return docs_with_words(&self.context, tk, page).await;
            }
            let list = FilteredList::docs(&query);
            let read = |numbers: &str| {
                format!(
                    "SELECT {DOC} FROM ({numbers}) p CROSS JOIN docs d WHERE d.tk = $1 AND d.n = p.n ORDER BY p.n DESC"
                )
            };
            let rows = rows(&self.context, tk, &list, read).await?;
            Ok(list.page(rows.iter().map(doc_of).collect::<Result<_>>()?))
        })
    }

    fn doc_titles<'a>(
        &'a self,
        tenant: &'a TenantId,
        ids: &'a [(DefinitionKind, Box<str>)],
    ) -> StoreFuture<'a, Vec<DocTitle>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let (kinds, ids): (Vec<&str>, Vec<&str>) =
                ids.iter().map(|(kind, id)| (kind.as_str(), &**id)).unzip();
            let sql =
                "SELECT d.kind, d.id, d.body::json ->> CASE d.kind WHEN 'task' THEN 'name' ELSE 'title' END,
                     d.body::json ->> 'type_slug'
                 FROM unnest($2::text[], $3::text[]) AS w (kind, id)
                 JOIN docs d ON d.tk = $1 AND d.kind = w.kind AND d.id = w.id";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &kinds, &ids]).await?;
            rows.iter().map(title_of).collect()
        })
    }
}

async fn docs_with_words(
    context: &Context,
    tk: i32,
    mut page: TitlePage,
) -> Result<Page<DefinitionDoc, i64>> {
    let title = if page.list.kind == DefinitionKind::Task { "name" } else { "title" };
    loop {
        let list = FilteredList::docs(&page.list);
        let names = |numbers: &str| {
            format!(
                "SELECT d.n, d.id, d.slug, d.body::json ->> '{title}'
                 FROM ({numbers}) p CROSS JOIN docs d WHERE d.tk = $1 AND d.n = p.n ORDER BY p.n DESC"
            )
        };
        let rows = rows(context, tk, &list, names).await?;
        let named = list.page(rows.iter().map(|row| Ok((row.try_get(0)?, row))).collect::<Result<_>>()?);
        let mut matching: Vec<i64> = Vec::new();
        for row in &named.items {
            if page.matches(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?) {
                matching.push(row.try_get(0)?);
            }
        }
        if !matching.is_empty() {
            matching.truncate(page.room());
            let sql =
                format!("SELECT {DOC} FROM docs d WHERE d.tk = $1 AND d.n = ANY ($2) ORDER BY d.n DESC");
            for row in &context.read(Scope::Tenant(tk), &sql, &[&tk, &matching]).await? {
                let (n, doc) = doc_of(row)?;
                page.push(n, doc);
            }
        }
        if !page.read_on(named.items.len(), named.next) {
            return Ok(page.into_page());
        }
    }
}

fn title_of(row: &Row) -> Result<DocTitle> {
    let mut columns = Columns::of(row);
    Ok(DocTitle {
        kind: columns.word(DefinitionKind::parse)?,
        id: columns.take::<&str>()?.into(),
        title: columns.text()?,
        type_slug: columns.text()?,
    })
}

/// The rows of a page, by the narrowest filter. `read` gets the statement that selects their numbers.
pub(super) async fn rows(
    context: &Context,
    tk: i32,
    list: &FilteredList,
    read: impl Fn(&str) -> String,
) -> Result<Vec<Row>> {
    let mut params: Vec<(Param<'_>, Type)> = vec![(&tk, Type::INT4)];
    params.extend(list.texts.iter().map(|text| (text as Param<'_>, Type::TEXT)));
    let mut walked = None;
    for attempt in 0.. {
        let Some(sql) = list.counts_sql(attempt).filter(|_| walked.is_none()) else { break };
        let rows = context.read_uncached(Scope::Tenant(tk), &sql, &params).await?;
        if let Some(row) = rows.first() {
            let counts: Vec<i64> = (0..row.len()).map(|at| row.try_get(at)).collect::<Result<_, _>>()?;
            walked = FilteredList::narrowest(&counts, attempt);
        }
    }
    let sql = read(&list.numbers_sql(walked.unwrap_or(0)));
    if list.is_common() {
        let params: Vec<Param<'_>> = params.iter().map(|(param, _)| *param).collect();
        return context.read(Scope::Tenant(tk), &sql, &params).await;
    }
    context.read_uncached(Scope::Tenant(tk), &sql, &params).await
}

/// Writes a document if it has the expected version; a taken id or slug violates its index.
pub(super) async fn put(
    tx: &Tx,
    tk: i32,
    doc: &DefinitionDoc,
    expects: Option<u64>,
    now: Timestamp,
) -> Result<bool> {
    let (kind, body, maker) =
        (doc.kind.as_str(), doc.body.as_str(), doc.created_by.as_ref().map(UserId::as_str));
    let (id, slug, now) = (&*doc.id, doc.slug.as_deref(), now.as_micros());
    let written = match expects.map(int) {
        Some(version) => {
            let sql = "UPDATE docs SET slug = $4, body = $5, created_by = $6, updated_at = $7, version = version + 1
                 WHERE tk = $1 AND kind = $2 AND id = $3 AND version = $8 RETURNING n";
            tx.query(sql, &[&tk, &kind, &id, &slug, &body, &maker, &now, &version]).await?
        }
        None => {
            let sql =
                "INSERT INTO docs (tk, kind, id, slug, body, created_by, created_at, updated_at, version)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 1) RETURNING n";
            tx.query(sql, &[&tk, &kind, &id, &slug, &body, &maker, &now]).await?
        }
    };
    let Some(row) = written.first() else { return Ok(false) };
    let n: i64 = row.try_get(0)?;
    if expects.is_some() {
        tx.execute("DELETE FROM doc_facets WHERE tk = $1 AND n = $2", &[&tk, &n]).await?;
    }
    let (keys, values): (Vec<&str>, Vec<&str>) =
        doc.facets.iter().map(|(key, value)| (*key, &**value)).unzip();
    let sql = "INSERT INTO doc_facets (tk, kind, key, value, n)
         SELECT $1, $2, u.key, u.value, $5 FROM unnest($3::text[], $4::text[]) AS u (key, value) ON CONFLICT DO NOTHING";
    tx.execute(sql, &[&tk, &kind, &keys, &values, &n]).await?;
    if doc.kind == DefinitionKind::Task
        && expects.is_some()
        && doc.facets.contains(&("status", "active".into()))
    {
        // Sessions that were held for this task may be handed out again.
        let sql = "UPDATE session_heads SET held = false WHERE tk = $1 AND task_id = $2 AND held";
        tx.execute(sql, &[&tk, &id]).await?;
    }
    Ok(true)
}

pub(super) async fn remove(tx: &Tx, tk: i32, kind: DefinitionKind, id: &str) -> Result<()> {
    for sql in [
        "DELETE FROM doc_facets WHERE tk = $1 AND n IN (SELECT n FROM docs WHERE tk = $1 AND kind = $2 AND id = $3)",
        "DELETE FROM docs WHERE tk = $1 AND kind = $2 AND id = $3",
    ] {
        tx.execute(sql, &[&tk, &kind.as_str(), &id]).await?;
    }
    if kind == DefinitionKind::View {
        tx.client()?.batch_execute(AS_STORE).await?;
        tx.execute("DELETE FROM shares WHERE tk = $1 AND view_id = $2 AND sk IS NULL", &[&tk, &id]).await?;
    }
    Ok(())
}

/// Hands the documents that one user made or is assigned to over to another. The version moves, so that a caller that
/// loaded a document before does not write the first user back.
pub(super) async fn merge(tx: &Tx, tk: i32, from: &str, into: &str) -> Result<()> {
    let of_people = facets_of_people();
    let moved = format!(
        "UPDATE docs SET version = version + 1,
             created_by = CASE WHEN created_by = $2 THEN $3 ELSE created_by END
         WHERE tk = $1 AND (created_by = $2
             OR n IN (SELECT n FROM doc_facets WHERE tk = $1 AND {of_people} AND value = $2))"
    );
    let named = format!(
        "INSERT INTO doc_facets (tk, kind, key, value, n)
         SELECT tk, kind, key, $3, n FROM doc_facets WHERE tk = $1 AND {of_people} AND value = $2
         ON CONFLICT DO NOTHING"
    );
    for sql in [moved, named] {
        tx.execute(&sql, &[&tk, &from, &into]).await?;
    }
    let forgotten = format!("DELETE FROM doc_facets WHERE tk = $1 AND {of_people} AND value = $2");
    tx.execute(&forgotten, &[&tk, &from]).await?;
    Ok(())
}

/// What definitions say about sessions that are handed out.
#[derive(Default)]
pub(super) struct ClaimRules {
    /// Tasks whose sessions may not run. An undefined task forbids nothing.
    pub(super) inactive: Vec<String>,
    /// How many more runs agents may have, for agents with a limit.
    pub(super) rooms: Vec<(String, i64)>,
}

/// The statement that reads the rules of the tasks and agents that these settings name. It locks the rows of limited
/// agents, so that of two claims for the same agent the second counts the first.
pub(super) fn rules_sql(tasks: &str, agents: &str) -> String {
    format!(
        "SELECT limited.id, limited.value FROM (
             SELECT d.id, f.value FROM docs d JOIN doc_facets f ON f.tk = d.tk AND f.n = d.n
             WHERE d.tk = $1 AND d.kind = 'agent' AND d.id = ANY (current_setting('{agents}')::text[])
                 AND f.key = 'concurrency'
             ORDER BY d.n FOR NO KEY UPDATE OF d) limited
         UNION ALL SELECT d.id, NULL FROM docs d JOIN doc_facets f ON f.tk = d.tk AND f.n = d.n
         WHERE d.tk = $1 AND d.kind = 'task' AND d.id = ANY (current_setting('{tasks}')::text[])
             AND f.key = 'status' AND f.value <> 'active'"
    )
}

/// Reads the rows of [`rules_sql`], and counts the running sessions of limited agents under the locks that those took.
pub(super) async fn read_rules(tx: &Tx, tk: i32, rows: &[Row]) -> Result<ClaimRules> {
    let mut ruled = ClaimRules::default();
    for row in rows {
        let (id, most): (String, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
        match most {
            Some(most) => ruled.rooms.push((id, most.parse().unwrap_or(i64::MAX))),
            None => ruled.inactive.push(id),
        }
    }
    let ClaimRules { rooms, .. } = &mut ruled;
    if rooms.is_empty() {
        return Ok(ruled);
    }
    let limited: Vec<&str> = rooms.iter().map(|(agent, _)| agent.as_str()).collect();
    let sql = "SELECT agent_slug, count(*) FROM session_heads
         WHERE tk = $1 AND status = 'running' AND agent_slug = ANY ($2) GROUP BY agent_slug";
    let running = tx.query(sql, &[&tk, &limited]).await?;
    for row in running {
        let (agent, count): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        if let Some((_, left)) = rooms.iter_mut().find(|(limited, _)| limited == agent) {
            *left -= count;
        }
    }
    Ok(ruled)
}
