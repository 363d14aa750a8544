//! The write pipeline: sends the statements of a transaction without waiting in between. `rows` builds the statements
//! that write many rows.

mod rows;

use std::borrow::Cow;

use deadpool_postgres::Object;
use futures_util::future::{join, join_all};
use postgres_types::ToSql;
use tokio_postgres::Statement;

pub(super) use self::rows::{ClaimedRows, CounterRows, DescriptionRows, EventRows, KeyRows, StateRows};
use super::fault::{Fault, Result};
use super::tx::Param;

/// Statements that are sent without waiting. With more of them the driver does not guarantee their order.
const PIPELINE_MAX: usize = 24;

/// Statements of one transaction.
#[derive(Default)]
pub(super) struct Writes<'a> {
    /// No statement reads or writes a row that another one writes, so they are combined into one.
    independent: Vec<BoundStatement<'a>>,
    /// Statements that follow, in order.
    then: Vec<BoundStatement<'a>>,
}

/// A statement and its parameters.
pub(super) type BoundStatement<'a> = (&'static str, Vec<Cell<'a>>);

/// A parameter, borrowed or owned.
pub(super) enum Cell<'a> {
    Borrowed(Param<'a>),
    Owned(Box<dyn ToSql + Sync + Send + 'a>),
}

/// Owned parameters.
macro_rules! cells {
    ($($value:expr),+ $(,)?) => { vec![$($crate::postgres::writes::Cell::Owned(Box::new($value))),+] };
}
pub(super) use cells;

/// The tenant, and an array for each column of its rows.
macro_rules! columns {
    ($tk:expr, $rows:expr, $row:ident => $($value:expr),+ $(,)?) => {
        vec![
            $crate::postgres::writes::Cell::Owned(Box::new($tk)),
            $($crate::postgres::writes::Cell::Owned(Box::new(
                $rows.iter().map(|$row| $value).collect::<Vec<_>>(),
            ))),+
        ]
    };
}
pub(super) use columns;

fn params<'s>(cells: &'s [Cell<'_>]) -> Vec<Param<'s>> {
    cells
        .iter()
        .map(|cell| match cell {
            Cell::Borrowed(param) => *param as Param<'s>,
            Cell::Owned(value) => &**value as Param<'s>,
        })
        .collect()
}

/// A commit that failed.
#[derive(Debug)]
pub(super) struct CommitFailure {
    pub(super) fault: Fault,
    /// Whether it is certain that nothing was written.
    pub(super) certain: bool,
}

impl From<Fault> for CommitFailure {
    fn from(fault: Fault) -> Self {
        Self { fault, certain: true }
    }
}

impl From<tokio_postgres::Error> for CommitFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).into()
    }
}

impl<'a> Writes<'a> {
    /// Adds a statement on rows that no other statement here touches.
    pub(super) fn add(&mut self, (sql, cells): BoundStatement<'a>) {
        self.independent.push((sql, cells));
    }

    /// Adds such a statement with borrowed parameters.
    pub(super) fn add_borrowed(&mut self, sql: &'static str, params: impl Into<Vec<Param<'a>>>) {
        self.add((sql, params.into().into_iter().map(Cell::Borrowed).collect()));
    }

    /// Adds a statement that runs after those.
    pub(super) fn add_after(&mut self, sql: &'static str, cells: Vec<Cell<'a>>) {
        self.then.push((sql, cells));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.independent.is_empty() && self.then.is_empty()
    }

    /// Sends everything and waits for all answers.
    pub(super) async fn run(self, client: &Object) -> Result<()> {
        for portion in self.into_statements().chunks(PIPELINE_MAX) {
            send(client, portion).await?;
        }
        Ok(())
    }

    /// Sends everything with the commit behind it, as a rule in one round trip.
    pub(super) async fn run_and_commit(self, client: &Object) -> Result<(), CommitFailure> {
        let mut list = self.into_statements();
        let rest = list.split_off(list.len().saturating_sub(PIPELINE_MAX));
        for portion in list.chunks(PIPELINE_MAX) {
            send(client, portion).await?;
        }
        let statements = prepare(client, &rest).await?;
        let params: Vec<_> = rest.iter().map(|(_, cells)| params(cells)).collect();
        let sent =
            params.iter().zip(&statements).map(|(params, statement)| client.execute(statement, params));
        let (answers, ended) = join(join_all(sent), client.batch_execute("COMMIT")).await;
        for answer in answers {
            if let Err(error) = answer {
                let fault = Fault::from(error);
                // A refused statement voids the commit behind it. A lost connection proves nothing.
                return Err(CommitFailure { certain: fault.is_verdict(), fault });
            }
        }
        ended.map_err(|error| CommitFailure { fault: error.into(), certain: false })
    }

    fn into_statements(self) -> Vec<(Cow<'static, str>, Vec<Cell<'a>>)> {
        let then = self.then.into_iter().map(|(sql, cells)| (Cow::Borrowed(sql), cells));
        combined(self.independent).into_iter().chain(then).collect()
    }
}

/// Combines statements into one with common table expressions: every answer of the server is a message that wakes a
/// task.
fn combined(mut list: Vec<BoundStatement<'_>>) -> Option<(Cow<'static, str>, Vec<Cell<'_>>)> {
    let (last, mut cells) = list.pop()?;
    if list.is_empty() {
        return Some((last.into(), cells));
    }
    let mut sql = String::new();
    let mut all = Vec::new();
    for (nth, (one, mut cells)) in list.into_iter().enumerate() {
        sql.push_str(if nth == 0 { "WITH w" } else { "), w" });
        sql.push_str(&nth.to_string());
        sql.push_str(" AS (");
        push_shifted(&mut sql, one, all.len());
        all.append(&mut cells);
    }
    sql.push_str(") ");
    push_shifted(&mut sql, last, all.len());
    all.append(&mut cells);
    Some((sql.into(), all))
}

/// Adds a statement whose parameters are numbered after so many others.
pub(super) fn push_shifted(sql: &mut String, one: &str, by: usize) {
    for (nth, piece) in one.split('$').enumerate() {
        if nth == 0 {
            sql.push_str(piece);
            continue;
        }
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = piece.split_at(digits);
        sql.push('$');
        sql.push_str(&(number.parse::<usize>().unwrap_or(0) + by).to_string());
        sql.push_str(rest);
    }
}

async fn prepare(client: &Object, list: &[(Cow<'static, str>, Vec<Cell<'_>>)]) -> Result<Vec<Statement>> {
    let mut statements = Vec::with_capacity(list.len());
    for (sql, _) in list {
        statements.push(client.prepare_cached(sql).await?);
    }
    Ok(statements)
}

async fn send(client: &Object, list: &[(Cow<'static, str>, Vec<Cell<'_>>)]) -> Result<()> {
    let statements = prepare(client, list).await?;
    let params: Vec<_> = list.iter().map(|(_, cells)| params(cells)).collect();
    let sent = params.iter().zip(&statements).map(|(params, statement)| client.execute(statement, params));
    for answer in join_all(sent).await {
        answer?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_are_sent_as_one_keep_their_parameters_apart() {
        let mut writes = Writes::default();
        writes.add_after("UPDATE a SET f = $1", cells![4]);
        writes.add(("INSERT INTO a SELECT $1, unnest($2::text[])", cells![1, vec!["x"]]));
        writes.add(("UPDATE b SET c = $2 WHERE d = $1", cells![2, 3]));
        writes.add(("DELETE FROM e", vec![]));
        let list = writes.into_statements();
        let texts: Vec<(&str, usize)> = list.iter().map(|(sql, cells)| (&**sql, cells.len())).collect();
        let one = "WITH w0 AS (INSERT INTO a SELECT $1, unnest($2::text[])), w1 AS (UPDATE b SET c = $4 WHERE d = $3) \
                   DELETE FROM e";
        assert_eq!(texts, [(one, 4), ("UPDATE a SET f = $1", 1)]);
    }

    #[test]
    fn a_single_statement_is_sent_as_it_is() {
        let mut writes = Writes::default();
        writes.add(("DELETE FROM a WHERE b = $1", cells![1]));
        assert_eq!(writes.into_statements()[0].0, "DELETE FROM a WHERE b = $1");
        assert!(Writes::default().into_statements().is_empty());
    }
}
