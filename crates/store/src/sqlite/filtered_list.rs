//! Pages of lists with several filters: the numbers of their rows.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::filtered_list::FilteredList;

/// The row numbers of a page, and one more if there is a next page.
pub(super) fn page_numbers(db: &Connection, tk: i64, list: &FilteredList) -> rusqlite::Result<Vec<i64>> {
    let values: Vec<Value> =
        std::iter::once(tk.into()).chain(list.texts.iter().map(|text| text.clone().into())).collect();
    let mut walked = None;
    for attempt in 0.. {
        let Some(sql) = list.counts_sql(attempt).filter(|_| walked.is_none()) else { break };
        let mut statement = db.prepare(&sqlite_placeholders(&sql))?;
        let ways = statement.column_count();
        let counts: Vec<i64> = statement
            .query_row(params_from_iter(&values), |row| (0..ways).map(|at| row.get(at)).collect())?;
        walked = FilteredList::narrowest(&counts, attempt);
    }
    let mut statement = db.prepare(&sqlite_placeholders(&list.numbers_sql(walked.unwrap_or(0))))?;
    statement.query_map(params_from_iter(&values), |row| row.get(0))?.collect()
}

/// Writes PostgreSQL's `$1` as SQLite's `?1`.
pub(super) fn sqlite_placeholders(sql: &str) -> String {
    sql.replace('$', "?")
}
