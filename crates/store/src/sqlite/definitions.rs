//! Documents and their facets: the definitions of a tenant.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::Timestamp;
use sederunt_core::definitions::agent::CONCURRENCY;
use sederunt_core::definitions::{self, DefinitionDoc, DefinitionKind, DocQuery, DocTitle};
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::session::query::Page;
use sederunt_core::store::{DocStore, StoreFuture, next_version};

use super::SqliteStore;
use super::fault::unknown_word;
use super::filtered_list::page_numbers;
use super::heads::text;
use super::tenants::key_of;
use crate::filtered_list::{FilteredList, facets_of_people};
use crate::title_search::TitlePage;

const DOCS: &str = "SELECT d.n, d.kind, d.id, d.slug, d.body, d.version, d.created_by, d.created_at, d.updated_at \
     FROM docs d";

impl DocStore for SqliteStore {
    fn doc<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: DefinitionKind,
        name: &'a str,
    ) -> StoreFuture<'a, Option<DefinitionDoc>> {
        self.read_inline(move |db| {
            for column in ["id", "slug"] {
                let found = db
                    .prepare_cached(&format!(
                        "{DOCS} JOIN tenants t ON t.tk = d.tk \
                         WHERE t.id = ?1 AND d.kind = ?2 AND d.{column} = ?3"
                    ))?
                    .query_row([tenant.as_str(), kind.as_str(), name], read)
                    .optional()?;
                if let Some(found) = found {
                    return with_facets(db, found).map(|(_, doc)| Some(doc));
                }
            }
            Ok(None)
        })
        .boxed()
    }

    fn docs<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: DocQuery,
    ) -> StoreFuture<'a, Page<DefinitionDoc, i64>> {
        self.read_tenant(tenant, move |db, tk| docs(db, tk, &query)).boxed()
    }

    fn doc_titles<'a>(
        &'a self,
        tenant: &'a TenantId,
        ids: &'a [(DefinitionKind, Box<str>)],
    ) -> StoreFuture<'a, Vec<DocTitle>> {
        self.read_inline(move |db| titles(db, tenant, ids)).boxed()
    }
}

/// The titles of these documents. Each is found by its key: the database's own reading of JSON would cost more than
/// all look-ups together.
fn titles(
    db: &Connection,
    tenant: &TenantId,
    ids: &[(DefinitionKind, Box<str>)],
) -> rusqlite::Result<Vec<DocTitle>> {
    let Some(tk) = key_of(db, tenant)? else { return Ok(Vec::new()) };
    let mut body = db.prepare_cached("SELECT body FROM docs WHERE tk = ?1 AND kind = ?2 AND id = ?3")?;
    let mut found = Vec::with_capacity(ids.len());
    for (kind, id) in ids {
        let title = |row: &Row<'_>| Ok(DocTitle::of(*kind, id, row.get_ref(0)?.as_str()?));
        found.extend(body.query_row(params![tk, kind.as_str(), id], title).optional()?);
    }
    Ok(found)
}

fn docs(db: &Connection, tk: i64, query: &DocQuery) -> rusqlite::Result<Page<DefinitionDoc, i64>> {
    if let Some(text) = &query.text {
        return TitlePage::new(query, text).map_or(Ok(Page::default()), |page| docs_with_words(db, tk, page));
    }
    let list = FilteredList::docs(query);
    let mut by_number = db.prepare_cached(&format!("{DOCS} WHERE d.n = ?1"))?;
    let mut found = Vec::new();
    for n in page_numbers(db, tk, &list)? {
        found.push(with_facets(db, by_number.query_row([n], read)?)?);
    }
    Ok(list.page(found))
}

fn docs_with_words(
    db: &Connection,
    tk: i64,
    mut page: TitlePage,
) -> rusqlite::Result<Page<DefinitionDoc, i64>> {
    let mut by_number = db.prepare_cached(&format!("{DOCS} WHERE d.n = ?1"))?;
    loop {
        let list = FilteredList::docs(&page.list);
        let numbers = list.page(page_numbers(db, tk, &list)?.into_iter().map(|n| (n, n)).collect());
        for n in &numbers.items {
            let mut rows = by_number.query([n])?;
            let Some(row) = rows.next()? else { continue };
            let (id, slug) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str_or_null()?);
            if page.matches_body(page.list.kind, id, slug, row.get_ref(4)?.as_str()?) {
                let (n, doc) = with_facets(db, read(row)?)?;
                page.push(n, doc);
                if page.is_full() {
                    break;
                }
            }
        }
        if !page.read_on(numbers.items.len(), numbers.next) {
            return Ok(page.into_page());
        }
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, DefinitionDoc)> {
    let kind = row.get_ref(1)?.as_str()?;
    let doc = DefinitionDoc {
        kind: DefinitionKind::parse(kind).ok_or_else(|| unknown_word(kind))?,
        id: row.get(2)?,
        slug: row.get(3)?,
        body: Json::stored(row.get_ref(4)?.as_str()?),
        facets: Vec::new(),
        version: row.get::<_, i64>(5)?.cast_unsigned(),
        created_by: text(row, 6)?.map(UserId::stored),
        created_at: Timestamp::from_micros(row.get(7)?),
        updated_at: Timestamp::from_micros(row.get(8)?),
    };
    Ok((row.get(0)?, doc))
}

fn with_facets(
    db: &Connection,
    (n, mut doc): (i64, DefinitionDoc),
) -> rusqlite::Result<(i64, DefinitionDoc)> {
    let mut statement =
        db.prepare_cached("SELECT key, value FROM doc_facets WHERE n = ?1 ORDER BY key, value")?;
    let mut rows = statement.query([n])?;
    while let Some(row) = rows.next()? {
        if let Some(key) = definitions::facet(row.get_ref(0)?.as_str()?) {
            doc.facets.push((key, row.get(1)?));
        }
    }
    Ok((n, doc))
}

pub(super) fn put(
    db: &Connection,
    tk: i64,
    doc: &DefinitionDoc,
    expects: Option<u64>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let n: i64 = db
        .prepare_cached(
            "INSERT INTO docs (tk, kind, id, slug, body, version, created_by, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8) ON CONFLICT (tk, kind, id) DO UPDATE SET \
             slug = excluded.slug, body = excluded.body, version = excluded.version, \
             created_by = excluded.created_by, updated_at = excluded.updated_at RETURNING n",
        )?
        .query_row(
            params![
                tk,
                doc.kind.as_str(),
                doc.id,
                doc.slug,
                doc.body.as_str(),
                next_version(expects).cast_signed(),
                doc.created_by.as_ref().map(UserId::as_str),
                now.as_micros(),
            ],
            |row| row.get(0),
        )?;
    db.prepare_cached("DELETE FROM doc_facets WHERE n = ?1")?.execute([n])?;
    for (key, value) in &doc.facets {
        db.prepare_cached(
            "INSERT OR IGNORE INTO doc_facets (tk, kind, key, value, n) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![tk, doc.kind.as_str(), key, value, n])?;
    }
    if doc.kind == DefinitionKind::Task && expects.is_some() && is_active(db, tk, &doc.id)? {
        // Sessions that were held for this task may be handed out again.
        db.prepare_cached(
            "UPDATE session_heads SET held = 0 WHERE held = 1 AND sk IN \
             (SELECT sk FROM sessions WHERE tk = ?1 AND task_id = ?2 AND in_work = 1 AND status = 'pending')",
        )?
        .execute(params![tk, doc.id])?;
    }
    if doc.kind == DefinitionKind::Agent && doc.facets.iter().any(|(key, _)| *key == CONCURRENCY) {
        // The runs that the agent has already count from now on.
        db.prepare_cached(
            "UPDATE session_heads SET counted = 1 WHERE counted = 0 AND sk IN \
             (SELECT s.sk FROM sessions s INDEXED BY sessions_by_state WHERE s.tk = ?1 \
             AND s.session_type IN ('agent', 'response', 'tool', 'mixed') AND s.status = 'running' \
             AND s.inactive IN (0, 1) AND s.agent_slug = ?2)",
        )?
        .execute(params![tk, doc.id])?;
    }
    Ok(())
}

pub(super) fn remove(db: &Connection, tk: i64, kind: DefinitionKind, id: &str) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM doc_facets WHERE n IN (SELECT n FROM docs WHERE tk = ?1 AND kind = ?2 AND id = ?3)",
        "DELETE FROM docs WHERE tk = ?1 AND kind = ?2 AND id = ?3",
    ] {
        db.prepare_cached(sql)?.execute(params![tk, kind.as_str(), id])?;
    }
    if kind == DefinitionKind::View {
        db.prepare_cached("DELETE FROM shares WHERE tk = ?1 AND view_id = ?2 AND sk IS NULL")?
            .execute(params![tk, id])?;
    }
    Ok(())
}

/// Finds a row if the sessions of a task may not run. An undefined task forbids nothing.
pub(super) const INACTIVE: &str = "SELECT 1 FROM docs d JOIN doc_facets f ON f.n = d.n WHERE d.tk = ?1 AND d.kind = 'task' AND d.id = ?2 \
     AND f.key = 'status' AND f.value <> 'active'";

fn is_active(db: &Connection, tk: i64, task: &str) -> rusqlite::Result<bool> {
    db.prepare_cached(INACTIVE)?.exists(params![tk, task]).map(|inactive| !inactive)
}

/// How many more runs an agent may have at once; `None` without a limit.
pub(super) fn room_of(db: &Connection, tk: i64, agent: &str) -> rusqlite::Result<Option<i64>> {
    let most: Option<String> = db
        .prepare_cached(
            "SELECT f.value FROM docs d JOIN doc_facets f ON f.n = d.n WHERE d.tk = ?1 AND d.kind = 'agent' \
             AND d.id = ?2 AND f.key = 'concurrency'",
        )?
        .query_row(params![tk, agent], |row| row.get(0))
        .optional()?;
    let Some(most) = most.and_then(|most| most.parse::<i64>().ok()) else { return Ok(None) };
    let running: i64 = db
        .prepare_cached(
            "SELECT count(*) FROM session_heads INDEXED BY running \
             WHERE tk = ?1 AND agent_slug = ?2 AND counted = 1",
        )?
        .query_row(params![tk, agent], |row| row.get(0))?;
    Ok(Some(most - running))
}

/// Hands the documents that one user made or is assigned to over to another. The version moves, so that a caller that
/// loaded a document before does not write the first user back.
pub(super) fn merge(db: &Connection, tk: i64, from: &UserId, into: &UserId) -> rusqlite::Result<()> {
    let (both, of_people) = (params![tk, from.as_str(), into.as_str()], facets_of_people());
    for sql in [
        format!(
            "UPDATE docs SET version = version + 1, \
             created_by = CASE created_by WHEN ?2 THEN ?3 ELSE created_by END WHERE tk = ?1 AND (created_by = ?2 \
             OR n IN (SELECT n FROM doc_facets WHERE tk = ?1 AND {of_people} AND value = ?2))"
        ),
        format!("UPDATE OR REPLACE doc_facets SET value = ?3 WHERE tk = ?1 AND {of_people} AND value = ?2"),
    ] {
        db.prepare_cached(&sql)?.execute(both)?;
    }
    Ok(())
}
