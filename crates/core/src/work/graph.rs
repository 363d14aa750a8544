//! The graph of a task's steps: its faults, the steps that may start, and how it ends. All pure.

use crate::definitions::task::{OnChildFailure, TaskStep};
use crate::error::{Error, Result};
use crate::ids::check_name;
use crate::limits;
use crate::session::Status;

/// Refuses steps that could not all run: doubled or unknown keys, circles, steps without an agent or person.
pub fn check(steps: &[TaskStep]) -> Result<()> {
    if steps.len() > limits::STEPS_MAX {
        return Err(Error::invalid("steps", format!("has more than {}", limits::STEPS_MAX)));
    }
    for (n, step) in steps.iter().enumerate() {
        check_name("steps.key", &step.key)?;
        if steps[..n].iter().any(|other| other.key == step.key) {
            return Err(Error::invalid("steps.key", format!("names `{}` twice", step.key)));
        }
        match (&step.agent_slug, &step.assigned_to) {
            (Some(agent), None) => check_name("steps.agent_slug", agent)?,
            (None, Some(person)) => check_name("steps.assigned_to", person)?,
            _ => {
                let rule = format!("`{}` needs an agent or an assignee, and not both", step.key);
                return Err(Error::invalid("steps", rule));
            }
        }
        if let Some(output) = &step.output {
            output.check("steps.output")?;
        }
        if let Some(unknown) =
            step.depends_on.iter().find(|key| !steps.iter().any(|other| other.key == **key))
        {
            let rule = format!("`{}` depends on `{unknown}`, which is no step", step.key);
            return Err(Error::invalid("steps.depends_on", rule));
        }
    }
    let needs: Vec<(String, Vec<String>)> =
        steps.iter().map(|step| (step.key.clone(), step.depends_on.clone())).collect();
    match find_circle(&needs) {
        None => Ok(()),
        Some(keys) => {
            let rule = format!("goes round in a circle: {}", keys.join(" → "));
            Err(Error::invalid("steps.depends_on", rule))
        }
    }
}

/// The steps that wait for each other, if some do. A step is its key and the keys that it needs.
pub fn find_circle(steps: &[(String, Vec<String>)]) -> Option<Vec<&str>> {
    let mut left: Vec<&(String, Vec<String>)> = steps.iter().collect();
    loop {
        let before = left.len();
        let waiting: Vec<&str> = left.iter().map(|(key, _)| key.as_str()).collect();
        left.retain(|(_, needs)| needs.iter().any(|key| waiting.contains(&key.as_str())));
        if left.is_empty() {
            return None;
        }
        if left.len() == before {
            // All steps left depend on each other: following dependencies leads back to one of them.
            let mut path = vec![left[0]];
            while let Some(next) =
                path.last().and_then(|(_, needs)| left.iter().find(|(key, _)| needs.contains(key)).copied())
            {
                if let Some(from) = path.iter().position(|(seen, _)| *seen == next.0) {
                    let mut keys: Vec<&str> = path[from..].iter().map(|(key, _)| key.as_str()).collect();
                    keys.push(&next.0);
                    return Some(keys);
                }
                path.push(next);
            }
            return None;
        }
    }
}

/// A child of a running graph, as the other children see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphChild<'a> {
    pub key: &'a str,
    pub depends_on: &'a [String],
    pub status: Status,
}

/// What follows from the children's statuses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GraphEffects {
    /// Positions of drafts that may start.
    pub start: Vec<usize>,
    /// Positions of children that are not needed any more: they are cancelled.
    pub call_off: Vec<usize>,
    /// How the parent ends, if it does.
    pub parent: Option<Status>,
}

/// What the children's statuses lead to. A draft starts when all its dependencies have completed; one that depends on
/// a failed step never starts.
pub fn follows(children: &[GraphChild<'_>], policy: OnChildFailure) -> GraphEffects {
    let failed = children.iter().any(|child| child.status.is_failing());
    if failed && policy == OnChildFailure::FailParent {
        let call_off = (0..children.len()).filter(|n| !children[*n].status.is_terminal()).collect();
        return GraphEffects { start: Vec::new(), call_off, parent: Some(Status::Failed) };
    }
    let mut now: Vec<Status> = children.iter().map(|child| child.status).collect();
    let of =
        |now: &[Status], key: &String| children.iter().position(|child| child.key == key).map(|n| now[n]);
    let mut call_off = Vec::new();
    // Cancelling a step cancels those that depend on it.
    loop {
        let lost = (0..children.len()).find(|n| {
            now[*n] == Status::Draft
                && children[*n].depends_on.iter().any(|key| of(&now, key).is_some_and(Status::is_failing))
        });
        let Some(lost) = lost else { break };
        now[lost] = Status::Abandoned;
        call_off.push(lost);
    }
    let start: Vec<usize> = (0..children.len())
        .filter(|n| {
            now[*n] == Status::Draft
                && children[*n].depends_on.iter().all(|key| of(&now, key) == Some(Status::Completed))
        })
        .collect();
    let parent = now
        .iter()
        .all(|status| status.is_terminal())
        .then(|| if now.contains(&Status::Completed) { Status::Completed } else { Status::Failed });
    call_off.sort_unstable();
    GraphEffects { start, call_off, parent }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(key: &str, depends_on: &[&str]) -> TaskStep {
        TaskStep {
            key: key.into(),
            name: None,
            agent_slug: Some("eliza".into()),
            assigned_to: None,
            input: None,
            depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
            output: None,
        }
    }

    #[test]
    fn a_graph_that_cannot_run_is_refused_with_the_reason() {
        let nobody = TaskStep { agent_slug: None, ..step("a", &[]) };
        let both = TaskStep { assigned_to: Some("ada".into()), ..step("a", &[]) };
        let table: [(Vec<TaskStep>, &str); 7] = [
            (vec![step("a", &["b"]), step("b", &["a"])], "a → b → a"),
            (vec![step("a", &["a"])], "a → a"),
            (vec![step("x", &[]), step("a", &["x", "c"]), step("b", &["a"]), step("c", &["b"])], "circle"),
            (vec![step("a", &["z"])], "`z`, which is no step"),
            (vec![step("a", &[]), step("a", &[])], "twice"),
            (vec![nobody], "needs an agent or an assignee"),
            (vec![both], "not both"),
        ];
        for (steps, reason) in table {
            let refused = check(&steps).unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused} does not say {reason}");
        }
        assert!(check(&[step("a", &[]), step("b", &["a"]), step("c", &["a", "b"])]).is_ok());
        let many: Vec<TaskStep> = (0..=limits::STEPS_MAX).map(|n| step(&n.to_string(), &[])).collect();
        assert!(check(&many).is_err() && check(&many[1..]).is_ok());
    }

    #[test]
    fn children_start_when_their_dependencies_completed() {
        use Status::{Abandoned, Completed, Draft, Failed, Pending, Running};
        let none: &[String] = &[];
        let on_a = ["a".to_owned()];
        let on_both = ["a".to_owned(), "b".to_owned()];
        let family = |a, b, c| {
            vec![
                GraphChild { key: "a", depends_on: none, status: a },
                GraphChild { key: "b", depends_on: &on_a, status: b },
                GraphChild { key: "c", depends_on: &on_both, status: c },
            ]
        };
        type GraphRow<'a> =
            (Status, Status, Status, OnChildFailure, &'a [usize], &'a [usize], Option<Status>);
        let table: [GraphRow<'_>; 8] = [
            (Pending, Draft, Draft, OnChildFailure::FailParent, &[], &[], None),
            (Completed, Draft, Draft, OnChildFailure::FailParent, &[1], &[], None),
            (Completed, Running, Draft, OnChildFailure::FailParent, &[], &[], None),
            (Completed, Completed, Draft, OnChildFailure::FailParent, &[2], &[], None),
            (Completed, Completed, Completed, OnChildFailure::FailParent, &[], &[], Some(Completed)),
            (Completed, Failed, Draft, OnChildFailure::FailParent, &[], &[2], Some(Failed)),
            (Failed, Draft, Draft, OnChildFailure::Continue, &[], &[1, 2], Some(Failed)),
            (Completed, Abandoned, Draft, OnChildFailure::Continue, &[], &[2], Some(Completed)),
        ];
        for (a, b, c, policy, start, call_off, parent) in table {
            let follows = follows(&family(a, b, c), policy);
            assert_eq!(
                (&follows.start[..], &follows.call_off[..], follows.parent),
                (start, call_off, parent),
                "{a} {b} {c} {policy:?}"
            );
        }
    }
}
