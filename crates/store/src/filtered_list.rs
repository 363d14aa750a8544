//! Lists with several filters, newest first. Every filter can be walked by an index, and can be checked on the rows
//! of another filter's walk. The filter with the fewest rows is walked.
//!
//! For both stores, `$1` is the tenant's number, the texts follow from `$2` on, and rows are identified by their
//! number `n`.

use sederunt_core::approval::{ApprovalQuery, ApprovalState, AssigneeFilter};
use sederunt_core::definitions::{ASSIGNED_TO, DefinitionKind, DocQuery, MADE_BY};
use sederunt_core::limits;
use sederunt_core::session::query::Page;

/// A filter with at most this many sessions is read whole and sorted; a wider one is checked while walking down the
/// activity.
pub(crate) const FEW: usize = 2_000;

/// Rows up to which filters are counted, in attempts: an attempt counts further only if all filters have so many, so
/// that the cost of choosing follows the narrowest one. If all are wider, the first filter is walked.
const COUNTED: [i64; 3] = [50, 500, 5_000];

/// The facets that name a user, as a condition that the index of facets answers.
pub(crate) fn facets_of_people() -> String {
    let kinds = DefinitionKind::ALL.map(|kind| format!("'{}'", kind.as_str())).join(", ");
    format!("kind IN ({kinds}) AND key IN ('{MADE_BY}', '{ASSIGNED_TO}')")
}

/// One filter.
struct Filter {
    /// The texts behind `FROM`: the table as `w`, and equalities that an index begins with. Every matching row is in
    /// at least one of them.
    walks: Vec<String>,
    /// The same as a condition on a row `w` of another walk, written so that no index matches it.
    holds: String,
}

/// A list with its filters.
pub(crate) struct FilteredList {
    filters: Vec<Filter>,
    /// The parameters from `$2` on.
    pub(crate) texts: Vec<String>,
    after: Option<i64>,
    limit: usize,
}

impl FilteredList {
    fn new(after: Option<i64>, limit: usize) -> Self {
        Self { filters: Vec::new(), texts: Vec::new(), after, limit: limit.clamp(1, limits::PAGE_ROWS_MAX) }
    }

    pub(crate) fn docs(query: &DocQuery) -> Self {
        let mut list = Self::new(query.after, query.limit);
        let kind = list.text(query.kind.as_str());
        let walk = |key: &str, value: &str| {
            format!(
                "doc_facets w WHERE w.tk = $1 AND w.kind = {kind} AND w.key = {key} AND w.value = {value}"
            )
        };
        // With an offset, or the planner would make a join of it and choose its own walk.
        let holds = |key: &str, value: &str| {
            format!(
                "EXISTS (SELECT 1 FROM doc_facets f WHERE f.tk = $1 AND f.kind = {kind} AND f.key = {key} \
                 AND f.value = {value} AND f.n = w.n LIMIT 1 OFFSET 0)"
            )
        };
        if let Some(user) = &query.of_user {
            let user = list.text(user.as_str());
            let keys = [MADE_BY, ASSIGNED_TO].map(|key| format!("'{key}'"));
            let held = keys.each_ref().map(|key| holds(key, &user)).join(" OR ");
            list.filters.push(Filter {
                walks: keys.iter().map(|key| walk(key, &user)).collect(),
                holds: format!("({held})"),
            });
        }
        for (key, value) in &query.facets {
            let (key, value) = (list.text(key), list.text(value));
            list.filters.push(Filter { walks: vec![walk(&key, &value)], holds: holds(&key, &value) });
        }
        if list.filters.is_empty() {
            let all = format!("docs w WHERE w.tk = $1 AND w.kind = {kind}");
            list.filters.push(Filter { walks: vec![all], holds: String::new() });
        }
        list
    }

    /// `names` is the table that finds a session by its id.
    pub(crate) fn approvals(query: &ApprovalQuery, names: &str) -> Self {
        let mut list = Self::new(query.after, query.limit);
        let states = query.state.map_or(ApprovalState::ALL.to_vec(), |state| vec![state]);
        let in_each_state = |wheres: &[String]| {
            let walk = |state: &ApprovalState, more: &String| {
                format!("approvals w WHERE w.tk = $1{more} AND w.state = '{}'", state.as_str())
            };
            states.iter().flat_map(|state| wheres.iter().map(move |more| walk(state, more))).collect()
        };
        if let Some(session) = &query.session {
            let id = list.text(session.as_str());
            let key = format!("(SELECT i.sk FROM {names} i WHERE i.tk = $1 AND i.id = {id})");
            let state = query.state.map(|state| format!(" AND w.state || '' = '{}'", state.as_str()));
            let walk = format!("approvals w WHERE w.tk = $1 AND w.sk = {key}{}", state.unwrap_or_default());
            list.filters.push(Filter { walks: vec![walk], holds: format!("w.sk + 0 = {key}") });
        }
        if let Some(task) = &query.task_id {
            let task = list.text(task);
            let walks = in_each_state(&[format!(" AND w.task_id = {task}")]);
            list.filters.push(Filter { walks, holds: format!("w.task_id || '' = {task}") });
        }
        if let Some(assigned) = &query.assigned_to {
            let (AssigneeFilter::To(user) | AssigneeFilter::ToOrNobody(user)) = assigned;
            let user = list.text(user.as_str());
            let mut wheres = vec![format!(" AND w.assigned_to = {user}")];
            let mut holds = format!("w.assigned_to || '' = {user}");
            if matches!(assigned, AssigneeFilter::ToOrNobody(_)) {
                wheres.push(" AND w.assigned_to IS NULL".to_owned());
                holds = format!("coalesce(w.assigned_to, {user}) = {user}");
            }
            list.filters.push(Filter { walks: in_each_state(&wheres), holds });
        }
        if list.filters.is_empty() {
            let walks = in_each_state(&[String::new()]);
            list.filters.push(Filter { walks, holds: String::new() });
        }
        list
    }

    /// Whether the statement is worth caching: the first page without filters.
    pub(crate) fn is_common(&self) -> bool {
        self.after.is_none() && self.texts.len() == 1 && self.limit == limits::PAGE_ROWS_MAX
    }

    /// Adds a text and returns its placeholder.
    fn text(&mut self, text: &str) -> String {
        self.texts.push(text.to_owned());
        format!("${}", self.texts.len() + 1)
    }

    fn before(&self) -> String {
        self.after.map_or(String::new(), |after| format!(" AND w.n < {after}"))
    }

    /// The statement that counts the rows of every filter, as columns of one row, up to the bound of this attempt.
    /// `None` if there is nothing to choose or no further attempt.
    pub(crate) fn counts_sql(&self, attempt: usize) -> Option<String> {
        let most = COUNTED.get(attempt).filter(|_| self.filters.len() > 1)?;
        let before = self.before();
        let filters = self.filters.iter().map(|filter| {
            let walks = filter
                .walks
                .iter()
                .map(|walk| format!("(SELECT count(*) FROM (SELECT 1 FROM {walk}{before} LIMIT {most}) c)"));
            walks.collect::<Vec<_>>().join(" + ")
        });
        Some(format!("SELECT {}", filters.collect::<Vec<_>>().join(", ")))
    }

    /// The filter to walk, by the counts of [`FilteredList::counts_sql`]; `None` if all are wider than was counted.
    pub(crate) fn narrowest(counts: &[i64], attempt: usize) -> Option<usize> {
        let (filter, rows) = counts.iter().enumerate().min_by_key(|(_, rows)| **rows)?;
        COUNTED.get(attempt).is_some_and(|most| rows < most).then_some(filter)
    }

    /// The statement that selects the numbers of a page, and one more if there is a next page.
    pub(crate) fn numbers_sql(&self, walked: usize) -> String {
        let one_more = self.limit + 1;
        let mut wheres = self.before();
        for (at, filter) in self.filters.iter().enumerate() {
            if at != walked {
                wheres.push_str(&format!(" AND {}", filter.holds));
            }
        }
        let walks = self.filters.get(walked).map_or(&[][..], |filter| &filter.walks);
        let walks = walks.iter().map(|walk| {
            let walk = format!("SELECT w.n FROM {walk}{wheres} ORDER BY w.n DESC LIMIT {one_more}");
            format!("SELECT n FROM ({walk}) v")
        });
        let all = walks.collect::<Vec<_>>().join(" UNION ");
        format!("{all} ORDER BY n DESC LIMIT {one_more}")
    }

    /// A page of rows, each with its number.
    pub(crate) fn page<T>(&self, mut found: Vec<(i64, T)>) -> Page<T, i64> {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| more).map(|(n, _)| *n);
        Page { items: found.into_iter().map(|(_, item)| item).collect(), next }
    }
}
