//! Which entities a run may write. The one rule for every write-back: a caller needs the right to change what a task
//! writes in order to define, change, import or start it, and a run writes only what it was granted when it was
//! started. Pure.
//!
//! The right is an owner's. An owner lends it to a task as a [`WriteGrant`] (`writes` in the task's document), and
//! starting the task freezes the grant into the run; retries and the steps of a graph inherit it.

use serde::{Deserialize, Serialize};

use super::output::{OutputContract, OutputType};
use crate::access::{Actor, Role};
use crate::definitions::Task;
use crate::error::{Error, Result};
use crate::ids::check_name;
use crate::json::Json;
use crate::limits;

/// The entities that a task, or a run of it, may write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteGrant {
    /// Types of which it may make new entities.
    #[serde(default)]
    pub types: Vec<String>,
    /// Entities that it may change.
    #[serde(default)]
    pub ids: Vec<String>,
}

/// One entity that a run is about to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityWrite<'a> {
    /// An existing entity.
    Change { id: &'a str },
    /// A new entity.
    Make { type_slug: &'a str },
}

impl WriteGrant {
    /// The grant that a task's outputs need: its own entity, and the types that it makes. `None` for a task that
    /// writes no entity.
    pub fn needed_by(task: &Task) -> Option<Self> {
        let outputs = task.output.iter().chain(task.steps.iter().filter_map(|step| step.output.as_ref()));
        Self::needed(outputs, task.entity_id.as_deref())
    }

    /// The grant that these outputs need in sessions about this entity.
    pub fn needed<'a>(
        outputs: impl Iterator<Item = &'a OutputContract>,
        about: Option<&str>,
    ) -> Option<Self> {
        let mut needed: Option<Self> = None;
        for output in outputs.filter(|output| output.kind.writes_entities()) {
            let needed = needed.get_or_insert_default();
            add(&mut needed.ids, about);
            add(&mut needed.types, output.entity_type.as_deref());
        }
        needed
    }

    /// Refuses a grant with unusable names, or too many.
    pub fn check(&self) -> Result<()> {
        for (field, names) in [("writes.types", &self.types), ("writes.ids", &self.ids)] {
            if names.len() > limits::WRITE_GRANT_NAMES_MAX {
                let limit = limits::WRITE_GRANT_NAMES_MAX;
                return Err(Error::invalid(field, format!("names more than {limit}")));
            }
            names.iter().try_for_each(|name| check_name(field, name))?;
        }
        Ok(())
    }

    /// What another grant names beyond this one, as a sentence's object. `None`: this one covers it.
    pub fn lacks(&self, other: &Self) -> Option<String> {
        let missing =
            |have: &[String], want: &[String]| want.iter().find(|name| !have.contains(name)).cloned();
        missing(&self.ids, &other.ids)
            .map(|id| format!("the entity `{id}`"))
            .or_else(|| missing(&self.types, &other.types).map(|name| format!("entities of type `{name}`")))
    }

    /// Why a run with this grant may not write this entity. `None`: it may.
    pub fn complaint(&self, write: EntityWrite<'_>) -> Option<String> {
        match write {
            EntityWrite::Change { id } => (!self.ids.iter().any(|given| given == id)).then(|| {
                format!("the entity `{id}` was not given to this run, so the run may not change it")
            }),
            EntityWrite::Make { type_slug } => (!self.types.iter().any(|granted| granted == type_slug))
                .then(|| format!("this run was not granted to make entities of type `{type_slug}`")),
        }
    }

    fn and(mut self, other: Self) -> Self {
        other.types.iter().for_each(|name| add(&mut self.types, Some(name)));
        other.ids.iter().for_each(|id| add(&mut self.ids, Some(id)));
        self
    }
}

fn add(names: &mut Vec<String>, name: Option<&str>) {
    if let Some(name) = name.filter(|name| !names.iter().any(|known| known == name)) {
        names.push(name.to_owned());
    }
}

impl OutputType {
    /// Whether results of this type are written to entities.
    pub const fn writes_entities(self) -> bool {
        matches!(self, Self::Entity | Self::Entities | Self::RelationEntity)
    }
}

/// The task as this caller may define it, or change it from what it was before.
///
/// An owner's definition is a grant: where an owner names no `writes`, the task is granted what its outputs need,
/// when it is made and whenever an owner changes what it writes. Every other caller needs a grant that an owner has
/// set, must leave it unchanged and stay within it, and may not hand a granted task to another agent or person.
pub fn authorized(mut task: Task, actor: &Actor, before: Option<&Task>) -> Result<Task> {
    let needed = WriteGrant::needed_by(&task);
    let granted = before.and_then(|before| before.writes.as_ref());
    if actor.role == Role::Owner {
        let needed_before = before.and_then(WriteGrant::needed_by);
        let left_alone = task.writes.as_ref() == granted;
        let implied = granted.is_none() || granted == needed_before.as_ref();
        if left_alone && implied && (before.is_none() || needed != needed_before) {
            task.writes = needed;
        }
        return Ok(task);
    }
    if task.writes.as_ref() != granted {
        return Err(Error::denied("only an owner sets `writes`, the entities that a task may write"));
    }
    if let (Some(before), Some(_)) = (before, granted)
        && !same_doers(before, &task)
    {
        return Err(Error::denied(
            "an owner has granted this task to write entities, so only an owner changes who does it",
        ));
    }
    match (needed, granted) {
        (None, _) => Ok(task),
        (Some(_), None) => Err(Error::denied(
            "a task that writes entities needs an owner's grant: ask an owner to set `writes` on it",
        )),
        (Some(needed), Some(granted)) => match granted.lacks(&needed) {
            None => Ok(task),
            Some(what) => {
                Err(Error::denied(format!("this task was not granted to write {what}: ask an owner")))
            }
        },
    }
}

fn same_doers(before: &Task, after: &Task) -> bool {
    before.agent_slug == after.agent_slug
        && before.assigned_to == after.assigned_to
        && before.steps == after.steps
}

/// The grant of a run that this caller starts now. `None` for a task that writes no entity.
///
/// An owner starts with its own right: the run may write what the task needs, what the task was granted, and the
/// entities that the owner names in the input as `entity_id` or `entity_ids`. Every other caller starts with the
/// task's grant; a task from before grants existed has the right of its maker, as long as the maker is an owner.
pub fn frozen(
    actor: &Actor,
    task: &Task,
    made_by_owner: bool,
    input: Option<&Json>,
) -> Result<Option<WriteGrant>> {
    let Some(needed) = WriteGrant::needed_by(task) else { return Ok(None) };
    if actor.role == Role::Owner {
        let named = WriteGrant { ids: named_in(input)?, ..WriteGrant::default() };
        return Ok(Some(needed.and(task.writes.clone().unwrap_or_default()).and(named)));
    }
    match &task.writes {
        Some(granted) => match granted.lacks(&needed) {
            None => Ok(Some(granted.clone())),
            Some(what) => {
                Err(Error::denied(format!("this task was not granted to write {what}: ask an owner")))
            }
        },
        None if made_by_owner => Ok(Some(needed)),
        None => Err(Error::denied(
            "this task writes entities and no owner has granted it that: ask an owner to set `writes` on it",
        )),
    }
}

/// The entities that an input names for the run to write.
fn named_in(input: Option<&Json>) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for (key, value) in input.map(Json::fields).unwrap_or_default() {
        match key.as_str() {
            "entity_id" => ids.extend(value.read::<String>()),
            "entity_ids" => ids.extend(value.read::<Vec<String>>().unwrap_or_default()),
            _ => {}
        }
    }
    if ids.len() > limits::WRITE_GRANT_NAMES_MAX {
        let limit = limits::WRITE_GRANT_NAMES_MAX;
        return Err(Error::invalid("input.entity_ids", format!("names more than {limit}")));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CredentialId, TenantId, UserId};
    use crate::session::SourceKind;

    fn actor(role: Role) -> Actor {
        Actor {
            tenant: TenantId::stored("t"),
            credential: CredentialId::stored("c"),
            user: Some(UserId::stored("u")),
            role,
            ..Actor::local(SourceKind::Api)
        }
    }

    fn task(more: &str) -> Task {
        crate::strict::read(&format!(r#"{{"slug":"t","name":"T"{more}}}"#)).unwrap()
    }

    fn grant(types: &[&str], ids: &[&str]) -> WriteGrant {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WriteGrant { types: owned(types), ids: owned(ids) }
    }

    const ENTITY: &str = r#","entity_id":"e","output":{"type":"entity"}"#;
    const ENTITIES: &str = r#","output":{"type":"entities","entity_type":"note"}"#;
    const RELATION: &str =
        r#","entity_id":"e","output":{"type":"relation-entity","entity_type":"link","relation":"r"}"#;
    const STEPS: &str = r#","entity_id":"e","steps":[{"key":"a","agent_slug":"x","output":{"type":"entity"}},
        {"key":"b","agent_slug":"x","output":{"type":"entities","entity_type":"note"}}]"#;

    #[test]
    fn a_task_needs_the_right_to_what_its_outputs_write() {
        for (more, needed) in [
            ("", None),
            (r#","entity_id":"e","output":{"type":"text"}"#, None),
            (r#","entity_id":"e","output":{"type":"none"}"#, None),
            (ENTITY, Some(grant(&[], &["e"]))),
            (r#","output":{"type":"entity","entity_type":"note"}"#, Some(grant(&["note"], &[]))),
            (ENTITIES, Some(grant(&["note"], &[]))),
            (RELATION, Some(grant(&["link"], &["e"]))),
            (STEPS, Some(grant(&["note"], &["e"]))),
        ] {
            assert_eq!(WriteGrant::needed_by(&task(more)), needed, "{more}");
        }
    }

    #[test]
    fn an_owners_definition_is_a_grant_and_follows_what_the_owner_changes() {
        let owner = actor(Role::Owner);
        let made = authorized(task(ENTITY), &owner, None).unwrap();
        assert_eq!(made.writes, Some(grant(&[], &["e"])));
        assert_eq!(authorized(task(""), &owner, None).unwrap().writes, None);
        let moved = Task { entity_id: Some("f".into()), ..made.clone() };
        let moved = authorized(moved, &owner, Some(&made)).unwrap();
        assert_eq!(moved.writes, Some(grant(&[], &["f"])), "the implied grant follows the entity");
        let wide = Task { writes: Some(grant(&["note"], &["e", "f"])), ..made.clone() };
        assert_eq!(authorized(wide.clone(), &owner, Some(&made)).unwrap().writes, wide.writes);
        let moved = Task { entity_id: Some("f".into()), ..wide.clone() };
        assert_eq!(authorized(moved, &owner, Some(&wide)).unwrap().writes, wide.writes, "a named one stays");
        // An unrelated change of a task from before grants existed grants nothing.
        let old = task(ENTITY);
        let renamed = Task { name: "N".into(), ..old.clone() };
        assert_eq!(authorized(renamed, &owner, Some(&old)).unwrap().writes, None);
    }

    #[test]
    fn a_member_defines_and_changes_a_writing_task_only_within_an_owners_grant() {
        let member = actor(Role::Member);
        for more in [ENTITY, ENTITIES, RELATION, STEPS] {
            assert_eq!(authorized(task(more), &member, None).unwrap_err().code(), "denied", "{more}");
            let plain = task("");
            assert_eq!(authorized(task(more), &member, Some(&plain)).unwrap_err().code(), "denied", "{more}");
            let old = task(more);
            let renamed = Task { name: "N".into(), ..old.clone() };
            assert_eq!(authorized(renamed, &member, Some(&old)).unwrap_err().code(), "denied", "{more}");
        }
        assert!(authorized(task(""), &member, None).is_ok());
        assert!(authorized(task(r#","writes":{"types":["note"]}"#), &member, None).is_err());
        let granted =
            task(r#","entity_id":"e","assigned_to":"u","writes":{"types":["note"],"ids":["e","f"]}"#);
        let with = |change: fn(&mut Task)| {
            let mut task = granted.clone();
            change(&mut task);
            authorized(task, &member, Some(&granted))
        };
        assert!(with(|task| task.name = "N".into()).is_ok());
        assert!(with(|task| task.output = task_output(ENTITIES)).is_ok(), "the grant covers it");
        assert!(with(|task| task.entity_id = Some("f".into())).is_ok());
        let refused: [fn(&mut Task); 8] = [
            |task| task.writes = None,
            |task| task.writes = Some(WriteGrant { ids: vec!["g".into()], types: Vec::new() }),
            |task| task.output = task_output(RELATION),
            |task| {
                task.output = task_output(ENTITIES);
                task.entity_id = Some("g".into());
            },
            |task| task.assigned_to = Some("x".into()),
            |task| task.assigned_to = None,
            |task| task.agent_slug = Some("x".into()),
            |task| task.steps = self::task(STEPS).steps,
        ];
        for (n, change) in refused.into_iter().enumerate() {
            assert_eq!(with(change).unwrap_err().code(), "denied", "change {n}");
        }
    }

    fn task_output(more: &str) -> Option<OutputContract> {
        task(more).output
    }

    #[test]
    fn a_run_is_granted_by_the_right_of_whoever_starts_it() {
        let (owner, member) = (actor(Role::Owner), actor(Role::Member));
        let input = Json::stored(r#"{"entity_id":"x","entity_ids":["y","x"],"other":["z"]}"#);
        let named = task(&format!(r#"{ENTITIES},"writes":{{"types":["note"],"ids":["e"]}}"#));
        assert_eq!(frozen(&member, &task(""), false, Some(&input)).unwrap(), None);
        let table = [
            (&owner, task(ENTITY), false, None, Some(grant(&[], &["e"]))),
            (&owner, task(ENTITIES), false, Some(&input), Some(grant(&["note"], &["x", "y"]))),
            (&owner, named.clone(), false, Some(&input), Some(grant(&["note"], &["e", "x", "y"]))),
            (&member, named.clone(), false, Some(&input), Some(grant(&["note"], &["e"]))),
            (&member, task(ENTITY), true, Some(&input), Some(grant(&[], &["e"]))),
        ];
        for (who, task, made_by_owner, input, granted) in table {
            assert_eq!(frozen(who, &task, made_by_owner, input).unwrap(), granted, "{:?} {task:?}", who.role);
        }
        let narrow = task(&format!(r#"{ENTITY},"writes":{{"ids":["f"]}}"#));
        for task in [task(ENTITY), narrow] {
            assert_eq!(frozen(&member, &task, false, None).unwrap_err().code(), "denied");
        }
    }

    #[test]
    fn a_run_changes_what_it_was_given_and_makes_what_it_was_granted() {
        let run = grant(&["note"], &["e"]);
        for (write, may) in [
            (EntityWrite::Change { id: "e" }, true),
            (EntityWrite::Change { id: "f" }, false),
            (EntityWrite::Make { type_slug: "note" }, true),
            (EntityWrite::Make { type_slug: "price" }, false),
        ] {
            assert_eq!(run.complaint(write).is_none(), may, "{write:?}");
            assert!(WriteGrant::default().complaint(write).is_some());
        }
    }

    #[test]
    fn a_grant_names_so_many_and_no_more() {
        let names = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
        let max = limits::WRITE_GRANT_NAMES_MAX;
        for (n, fits) in [(max, true), (max + 1, false)] {
            assert_eq!(WriteGrant { ids: names(n), types: Vec::new() }.check().is_ok(), fits);
            assert_eq!(WriteGrant { types: names(n), ids: Vec::new() }.check().is_ok(), fits);
            let input = Json::of(&serde_json::json!({"entity_ids": names(n)})).unwrap();
            assert_eq!(frozen(&actor(Role::Owner), &task(ENTITIES), false, Some(&input)).is_ok(), fits);
        }
        assert!(grant(&[""], &[]).check().is_err());
    }
}
