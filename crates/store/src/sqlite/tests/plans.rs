//! Query plans: statements walk the index of their condition, in its order.

use sederunt_core::Timestamp;
use sederunt_core::approval::{ApprovalQuery, ApprovalState, AssigneeFilter};
use sederunt_core::definitions::{DefinitionKind, DocQuery};
use sederunt_core::work::queue::{Bucket, QueueOf};

use super::*;
use crate::filtered_list::FilteredList;

impl SqliteStore {
    async fn plan(&self, sql: &str) -> String {
        let explain = |db: &rusqlite::Connection| {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
            statement
                .query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3))?
                .collect::<rusqlite::Result<Vec<_>>>()
        };
        self.read_inline(explain).await.unwrap().join("; ")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_lists_and_sweeps_walk_their_indexes_without_sorting() {
    let store = in_memory();
    for (sql, index) in [
        (
            "SELECT priority, sk FROM session_heads WHERE status = 'pending' AND held = 0 AND tk = 1 AND session_type = 'agent' \
             ORDER BY priority DESC, sk LIMIT 5",
            "pending_by_type",
        ),
        (
            "SELECT priority, sk FROM session_heads WHERE status = 'pending' AND held = 0 AND tk = 1 AND session_type = 'agent' \
             AND agent_slug = 'a' ORDER BY priority DESC, sk LIMIT 5",
            "pending_by_agent",
        ),
        ("SELECT sk FROM session_heads WHERE deadline_at <= 5 ORDER BY deadline_at LIMIT 5", "deadlines"),
        (
            "SELECT active_minute, sk FROM sessions s INDEXED BY sessions_by_state WHERE s.tk = 1 AND \
             s.inactive = 0 AND s.status = 'idle' AND s.session_type = 'mixed' AND (s.active_minute, s.sk) < (5, 5) \
             ORDER BY s.active_minute DESC, s.sk DESC LIMIT 5",
            "sessions_by_state",
        ),
        (
            "SELECT active_minute, sk FROM sessions s INDEXED BY sessions_by_user WHERE s.tk = 1 AND \
             s.user_id = 'ann' ORDER BY s.active_minute DESC, s.sk DESC LIMIT 5",
            "sessions_by_user",
        ),
        (talk::SILENT, "talks_by_activity (noted_at<?)"),
        (memories::NEWEST, "memories_by_owner (tk=? AND owner=? AND kind=? AND n<?)"),
        (memories::COUNT, "memories_by_owner (tk=? AND owner=? AND kind=?)"),
        (vectors::NEWEST, "memories_by_vector (tk=? AND owner=? AND embedded_by=? AND embedded_n>?)"),
        (vectors::KEPT, "memories_by_vector (tk=? AND owner=? AND embedded_by=?)"),
        (vectors::BEFORE, "memories_by_model (embedded_by<?)"),
        (vectors::BEHIND, "memories_by_model (embedded_by>?)"),
        (memories::UNDER_WORD, "PRIMARY KEY (drawer=? AND word=?)"),
        (feedback::SILENT, "feedback_sessions_open (expires_at<?)"),
        (sweep::PROMOTIONS, "approvals_by_expiry (expires_at<?)"),
        (lessons::NEWEST, "lessons_by_state (tk=? AND state=? AND n<?)"),
        (lessons::OFTEN, "lessons_often (tk=? AND state=? AND n<?)"),
        (lessons::UNDER_WORD, "PRIMARY KEY (drawer=? AND word=?)"),
        (ratings::OF_SESSION, "feedback_by_session (tk=? AND session_id_opaque=?)"),
        (crises::BETWEEN, "crises_by_time (tk=? AND detected_at>? AND detected_at<?)"),
        (
            "SELECT active_minute, sk FROM sessions s INDEXED BY sessions_by_work WHERE s.tk = 1 AND \
             s.task_id = 't' AND s.inactive = 0 AND s.status = 'idle' AND s.in_work = 0 \
             AND (s.active_minute, s.sk) < (5, 5) ORDER BY s.active_minute DESC, s.sk DESC LIMIT 5",
            "sessions_by_work (tk=? AND task_id=? AND status=? AND",
        ),
    ] {
        let plan = store.plan(sql).await;
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
    }
}

/// A person's queue finds what is in work, and what is not, by task.
#[tokio::test(flavor = "multi_thread")]
async fn a_persons_queue_walks_the_lists_of_their_tasks() {
    let of = QueueOf {
        user: Some(UserId::stored("ann")),
        is_owner: true,
        failed_since: Timestamp::default(),
        day_start: Timestamp::default(),
    };
    let by_work = "INDEX sessions_by_work (tk=? AND task_id=? AND status=?";
    let in_work = "INDEX sessions_in_work (tk=? AND task_id=?)";
    for (bucket, walks) in [
        (Bucket::NeedsMe, by_work),
        (Bucket::Running, in_work),
        (Bucket::Delegatable, in_work),
        (Bucket::Failed, by_work),
        (Bucket::DoneToday, by_work),
    ] {
        let sql = filtered_list::sqlite_placeholders(&crate::work_queue::page(
            &of,
            bucket,
            &work_queue::TABLES,
            None,
            10,
        ));
        let plan = in_memory().plan(&sql).await;
        assert!(plan.contains(walks), "{bucket:?}: {plan}");
    }
}

/// Leases are found by an index of nothing else than what runs, so reading that one through is reading what runs.
#[tokio::test(flavor = "multi_thread")]
async fn leases_that_ran_out_are_found_among_what_runs() {
    let plan = in_memory().plan(sweep::LEASES).await;
    assert!(
        plan.contains("sessions_by_state (tk=? AND session_type=? AND status=? AND inactive=?)"),
        "{plan}"
    );
}

/// What waits is found by an index of nothing else, so reading that one through is reading what waits.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_turns_are_found_among_those_that_wait() {
    let plan = in_memory().plan(talk::WAITING).await;
    assert!(plan.starts_with("SCAN k USING INDEX talks_waiting; SEARCH h"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_documents_and_approvals_walk_the_index_of_the_filter_that_they_are_given() {
    let store = in_memory();
    let plan = async |list: &FilteredList, walked: usize| {
        let sql = filtered_list::sqlite_placeholders(&list.numbers_sql(walked));
        let values: Vec<rusqlite::types::Value> =
            std::iter::once(1.into()).chain(list.texts.iter().map(|text| text.clone().into())).collect();
        let read = |db: &rusqlite::Connection| {
            db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?
                .query_map(rusqlite::params_from_iter(&values), |row| row.get::<_, String>(3))?
                .collect::<rusqlite::Result<Vec<_>>>()
        };
        store.read_inline(read).await.unwrap().join("; ")
    };
    let docs = |facets: &[(&'static str, &str)], of_user: bool| {
        FilteredList::docs(&DocQuery {
            kind: DefinitionKind::Task,
            facets: facets.iter().map(|&(key, value)| (key, value.to_owned())).collect(),
            text: None,
            of_user: of_user.then(|| UserId::stored("ann")),
            after: Some(5),
            limit: 10,
        })
    };
    let approvals = |session: bool, task: bool, assigned_to: Option<AssigneeFilter>| {
        let query = ApprovalQuery {
            state: Some(ApprovalState::Pending),
            session: session.then(|| id("s")),
            task_id: task.then(|| "t".to_owned()),
            assigned_to,
            after: Some(5),
            limit: 10,
        };
        FilteredList::approvals(&query, "session_heads")
    };
    let mine = || Some(AssigneeFilter::To(UserId::stored("ann")));
    let open = || Some(AssigneeFilter::ToOrNobody(UserId::stored("ann")));
    let by_facet = "SEARCH w USING PRIMARY KEY (tk=? AND kind=? AND key=? AND value=? AND n<?)";
    for (list, walked, way) in [
        (docs(&[], false), 0, "docs_by_kind (tk=? AND kind=? AND n<?)"),
        (docs(&[("status", "x")], false), 0, by_facet),
        (docs(&[("status", "x"), ("agent_slug", "y")], true), 0, by_facet),
        (docs(&[("status", "x"), ("agent_slug", "y")], true), 2, by_facet),
        (approvals(false, false, None), 0, "approvals_by_state (tk=? AND state=? AND n<?)"),
        (approvals(true, true, mine()), 0, "approvals_by_session (sk=? AND n<?)"),
        (approvals(true, true, mine()), 1, "approvals_by_task (tk=? AND task_id=? AND state=? AND n<?)"),
        (
            approvals(true, true, mine()),
            2,
            "approvals_by_assignee (tk=? AND assigned_to=? AND state=? AND n<?)",
        ),
        (
            approvals(false, true, open()),
            1,
            "approvals_by_assignee (tk=? AND assigned_to=? AND state=? AND n<?)",
        ),
    ] {
        let plan = plan(&list, walked).await;
        assert!(plan.contains(way) && !plan.contains("SCAN w"), "{way}: {plan}");
        let walks: Vec<&str> =
            plan.split("CO-ROUTINE v").skip(1).filter_map(|walk| walk.split("SCAN v").next()).collect();
        assert!(walks.iter().all(|walk| !walk.contains("TEMP B-TREE")), "{plan}");
    }
}
