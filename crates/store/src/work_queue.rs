//! The SQL of a person's work queue, for both stores. `$1` is the tenant's number and `$2` the user. Rows are
//! identified by a number `n`: of the session, or of the task in the bucket of tasks.

use sederunt_core::definitions::{ASSIGNED_TO, MADE_BY};
use sederunt_core::ids::SessionId;
use sederunt_core::session::query::Page;
use sederunt_core::work::queue::{Bucket, QueueItem, QueueOf};

/// The names of a store's tables.
pub(crate) struct QueueTables {
    /// The table with status, type, task and minute of activity of a session.
    pub hot: &'static str,
    /// The table with the time of completion.
    pub wide: &'static str,
    /// Conditions on a session `s`, where sessions in work are indexed apart from the others.
    pub in_work: &'static str,
    pub not_in_work: &'static str,
    /// The condition that a session `s` is no human bridge.
    pub not_a_bridge: &'static str,
}

/// Rows beyond this are not counted: no person reads more.
const COUNTED: usize = 10_000;

/// The statement that counts the rows of every bucket, as columns of one row.
pub(crate) fn counts(of: &QueueOf, tables: &QueueTables) -> String {
    let columns = Bucket::ALL.map(|bucket| {
        format!("(SELECT count(*) FROM (SELECT 1 FROM ({}) b LIMIT {COUNTED}) c)", lines(of, bucket, tables))
    });
    format!("SELECT {}", columns.join(", "))
}

/// The statement that reads a page of a bucket, and one row more if there is a next page: number, session, approval,
/// task.
pub(crate) fn page(
    of: &QueueOf,
    bucket: Bucket,
    tables: &QueueTables,
    after: Option<i64>,
    limit: usize,
) -> String {
    let before = after.map_or(String::new(), |after| format!(" WHERE b.n < {after}"));
    let lines = lines(of, bucket, tables);
    let session = match bucket {
        Bucket::Delegatable => "CAST(NULL AS text)",
        _ => "(SELECT h.id FROM session_heads h WHERE h.tk = $1 AND h.sk = q.n)",
    };
    format!(
        "SELECT q.n, {session}, q.approval, q.task FROM \
         (SELECT b.n, b.approval, b.task FROM ({lines}) b{before} ORDER BY b.n DESC LIMIT {}) q ORDER BY q.n DESC",
        limit + 1
    )
}

/// A row as it was read.
pub(crate) type QueueRow = (i64, Option<String>, Option<String>, Option<String>);

pub(crate) fn items(mut lines: Vec<QueueRow>, limit: usize) -> Page<QueueItem, i64> {
    let more = lines.len() > limit;
    lines.truncate(limit);
    let next = lines.last().filter(|_| more).map(|line| line.0);
    let items = lines.into_iter().filter_map(|line| match line {
        (_, _, _, Some(task)) => Some(QueueItem::Task(task.into())),
        (_, Some(session), Some(approval), None) => {
            Some(QueueItem::Approval { id: approval.into(), session: SessionId::stored(session) })
        }
        (_, Some(session), None, None) => Some(QueueItem::Session(SessionId::stored(session))),
        (_, None, _, None) => None,
    });
    Page { items: items.collect(), next }
}

/// Work is done in sessions of these types; responses and tools are in no bucket.
const OF_WORK: &str = " AND s.session_type IN ('agent', 'mixed')";

fn lines(of: &QueueOf, bucket: Bucket, tables: &QueueTables) -> String {
    let QueueTables { hot, in_work, not_in_work, not_a_bridge, .. } = tables;
    let mine = mine(of);
    let on_mine = |statuses: &str, listed: &str, more: &str| {
        format!(
            "SELECT s.sk AS n, CAST(NULL AS text) AS approval, CAST(NULL AS text) AS task FROM ({mine}) m \
             CROSS JOIN {hot} s WHERE s.tk = $1 AND s.task_id = m.id{listed} AND s.status IN ({statuses}){more}"
        )
    };
    match bucket {
        Bucket::NeedsMe => {
            let asked = match of.user {
                Some(_) => " AND a.assigned_to = $2",
                None => "",
            };
            let waiting = on_mine(
                "'waiting_human', 'awaiting_tool'",
                not_in_work,
                &format!(
                    "{OF_WORK} AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.tk = $1 AND a.sk = s.sk \
                     AND a.state = 'pending'{asked})"
                ),
            );
            let asks = |of_whom: &str| {
                format!(
                    "SELECT a.sk AS n, a.id AS approval, CAST(NULL AS text) AS task FROM approvals a \
                     WHERE a.tk = $1 AND a.state = 'pending'{of_whom} UNION ALL "
                )
            };
            // No session of a task waits for a promotion, so one without an assignee is found by itself.
            let unassigned = match of.user {
                Some(_) if of.is_owner => asks(" AND a.assigned_to IS NULL AND a.kind = 'promotion'"),
                _ => String::new(),
            };
            format!("{}{unassigned}{waiting}", asks(asked))
        }
        Bucket::Running => on_mine("'running', 'pending'", in_work, OF_WORK),
        Bucket::Failed => {
            let minute = of.failed_since.minute();
            let since = format!("{OF_WORK}{not_a_bridge} AND s.active_minute >= {minute}");
            on_mine("'failed', 'expired', 'abandoned'", not_in_work, &since)
        }
        Bucket::DoneToday => {
            let (from, minute, wide) = (of.day_start.as_micros(), of.day_start.minute(), tables.wide);
            let today = format!(
                "{OF_WORK}{not_a_bridge} AND s.active_minute >= {minute} AND EXISTS (SELECT 1 FROM {wide} w WHERE w.sk = s.sk \
                 AND w.completed_at >= {from})"
            );
            on_mine("'completed'", not_in_work, &today)
        }
        Bucket::Delegatable => format!(
            "SELECT m.n, CAST(NULL AS text) AS approval, m.id AS task FROM ({mine}) m WHERE \
             EXISTS (SELECT 1 FROM doc_facets f WHERE f.tk = $1 AND f.kind = 'task' AND f.key = 'status' \
                 AND f.value = 'active' AND f.n = m.n) \
             AND EXISTS (SELECT 1 FROM doc_facets f WHERE f.tk = $1 AND f.n = m.n AND f.key = 'agent_slug') \
             AND NOT EXISTS (SELECT 1 FROM {hot} s WHERE s.tk = $1 AND s.task_id = m.id{in_work} \
                 AND s.status IN ('running', 'pending'){OF_WORK}{not_a_bridge})"
        ),
    }
}

/// The tasks that a user made or is assigned to; all tasks without a user.
fn mine(of: &QueueOf) -> String {
    match of.user {
        Some(_) => format!(
            "SELECT DISTINCT d.n, d.id FROM doc_facets f CROSS JOIN docs d WHERE f.tk = $1 AND f.kind = 'task' \
             AND f.key IN ('{MADE_BY}', '{ASSIGNED_TO}') AND f.value = $2 AND d.tk = $1 AND d.n = f.n"
        ),
        None => "SELECT d.n, d.id FROM docs d WHERE d.tk = $1 AND d.kind = 'task'".to_owned(),
    }
}
