//! Reads what a caller defines: the id is given beside the fields of the definition, older field names are accepted,
//! and a misfit is named with its path.

use super::bundle::{NamedDefinition, VERSION};
use super::{Agent, Bundle, Definition, DefinitionKind, Task, ToolDefinition, View};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::strict;
use crate::view::SESSION_FACET;

/// A definition as a caller wrote it, with the requested id.
pub fn read<T: Definition>(body: &Json) -> Result<(Option<String>, T)> {
    if !body.is_object() {
        return Err(Error::invalid("body", "must be an object"));
    }
    let mut fields = body.fields();
    let id = match T::KIND {
        // The slug of an agent or a tool is its id.
        DefinitionKind::Agent | DefinitionKind::Tool => None,
        DefinitionKind::Task
        | DefinitionKind::Entity
        | DefinitionKind::CriteriaSet
        | DefinitionKind::View => take(&mut fields, "id").map(|id| text("id", &id)).transpose()?.flatten(),
    };
    if T::KIND == DefinitionKind::View
        && fields.iter().any(|(key, value)| key == SESSION_FACET && value.as_str() != "null")
    {
        return Err(Error::invalid(SESSION_FACET, "is set by publishing, which needs the claim's `epoch`"));
    }
    Ok((id, read_fields(fields)?))
}

pub(super) fn read_fields<T: Definition>(fields: Vec<(String, Json)>) -> Result<T> {
    let fields = renamed(T::KIND, fields)?;
    strict::read(Json::object(fields.iter().map(|(key, value)| (key.as_str(), value))).as_str())
}

/// `criteria_set_id` is read as a list of one.
pub(super) fn renamed(kind: DefinitionKind, mut fields: Vec<(String, Json)>) -> Result<Vec<(String, Json)>> {
    if kind == DefinitionKind::Task
        && let Some(one) = take(&mut fields, "criteria_set_id")
    {
        if fields.iter().any(|(key, _)| key == "criteria_set_ids") {
            return Err(Error::invalid("criteria_set_id", strict::GIVEN_TWICE));
        }
        let list: Vec<String> = text("criteria_set_id", &one)?.into_iter().collect();
        fields.push(("criteria_set_ids".to_owned(), Json::of(&list)?));
    }
    Ok(fields)
}

fn take(fields: &mut Vec<(String, Json)>, name: &str) -> Option<Json> {
    let at = fields.iter().position(|(key, _)| key == name)?;
    Some(fields.remove(at).1)
}

fn text(field: &'static str, value: &Json) -> Result<Option<String>> {
    value.read().map_err(|_| Error::invalid(field, "must be text"))
}

impl Bundle {
    /// Reads a bundle. Every definition but an agent or a tool needs its id.
    pub fn read(body: &Json) -> Result<Self> {
        if !body.is_object() {
            return Err(Error::invalid("body", "must be an object"));
        }
        let mut bundle = Self { version: VERSION, ..Self::default() };
        for (name, value) in body.fields() {
            match name.as_str() {
                "version" => {
                    bundle.version =
                        value.read().map_err(|_| Error::invalid("version", "must be a whole number"))?;
                }
                "agents" => {
                    bundle.agents = each(&name, &value, |one| Ok(read::<Agent>(one)?.1))?;
                }
                "criteria_sets" => bundle.criteria_sets = each(&name, &value, named)?,
                "entities" => bundle.entities = each(&name, &value, named)?,
                "tasks" => bundle.tasks = each(&name, &value, named::<Task>)?,
                "tools" => bundle.tools = each(&name, &value, |one| Ok(read::<ToolDefinition>(one)?.1))?,
                "views" => bundle.views = each(&name, &value, named::<View>)?,
                _ => return Err(Error::invalid(name, "is not a field of this request")),
            }
        }
        Ok(bundle)
    }
}

impl TryFrom<Json> for Bundle {
    type Error = Error;

    fn try_from(body: Json) -> Result<Self> {
        Self::read(&body)
    }
}

fn named<T: Definition>(body: &Json) -> Result<NamedDefinition<T>> {
    let (id, value) = read(body)?;
    let id = id.ok_or_else(|| Error::invalid("id", "is required"))?;
    Ok(NamedDefinition { id, value })
}

/// Reads each item of a list; a misfit is named with its index.
fn each<T>(list: &str, value: &Json, read: impl Fn(&Json) -> Result<T>) -> Result<Vec<T>> {
    let items: Vec<Json> = value.read().map_err(|_| Error::invalid(list.to_owned(), "must be a list"))?;
    let placed = |n: usize, error| match error {
        Error::Invalid { field, message } if field == "body" => {
            Error::invalid(format!("{list}[{n}]"), message)
        }
        Error::Invalid { field, message } => Error::invalid(format!("{list}[{n}].{field}"), message),
        other => other,
    };
    items.iter().enumerate().map(|(n, item)| read(item).map_err(|error| placed(n, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::agent::{HttpTool, Tool};
    use crate::definitions::{Entity, patched};

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn field_of(refused: Error) -> String {
        match refused {
            Error::Invalid { field, .. } => field.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_id_stands_beside_the_fields() {
        let (id, entity) =
            read::<Entity>(&json(r#"{"id":"e1","type_slug":"city","fields":{"n":1.50}}"#)).unwrap();
        assert_eq!((id.as_deref(), entity.fields.as_str()), (Some("e1"), r#"{"n":1.50}"#));
        assert_eq!(read::<Entity>(&json(r#"{"id":null,"type_slug":"city"}"#)).unwrap().0, None);
        for (text, field) in [
            (r#"{"type_slug":"city","x":1}"#, "x"),
            (r#"{"id":5,"type_slug":"city"}"#, "id"),
            (r#"{"id":"e1"}"#, "type_slug"),
            (r#"[]"#, "body"),
        ] {
            assert_eq!(field_of(read::<Entity>(&json(text)).unwrap_err()), field, "{text}");
        }
        assert_eq!(field_of(read::<Agent>(&json(r#"{"id":"a","slug":"a","name":"A"}"#)).unwrap_err()), "id");
    }

    #[test]
    fn one_criteria_set_stands_for_a_list_of_one() {
        let (_, task) = read::<Task>(&json(r#"{"slug":"t","name":"T","criteria_set_id":"c"}"#)).unwrap();
        assert_eq!(task.criteria_set_ids, ["c"]);
        assert!(patched(&task, &json(r#"{"criteria_set_id":null}"#)).unwrap().criteria_set_ids.is_empty());
        let twice = json(r#"{"slug":"t","name":"T","criteria_set_id":"c","criteria_set_ids":[]}"#);
        assert_eq!(field_of(read::<Task>(&twice).unwrap_err()), "criteria_set_id");
    }

    #[test]
    fn a_tool_keeps_its_schema() {
        let text = r#"{"slug":"a","name":"A","tools":[{"type":"http","name":"t","url":"https://x","schema":{"type":"object"}}]}"#;
        let (_, agent) = read::<Agent>(&json(text)).unwrap();
        let Tool::Http(HttpTool { schema, .. }) = &agent.tools[0] else { panic!("{agent:?}") };
        assert_eq!(schema.as_ref().map(Json::as_str), Some(r#"{"type":"object"}"#));
        assert_eq!(Json::of(&agent).unwrap().read::<Agent>().unwrap(), agent);
    }

    #[test]
    fn a_bundle_is_read_with_every_field_and_a_misfit_has_its_place() {
        let text = r#"{"version":1,"agents":[{"slug":"a","name":"A"}],
            "criteria_sets":[{"id":"c","name":"C","dimensions":[{"slug":"d","options":[{"value":"v"}],
                "option_styles":{"v":{"hard_block":true,"color":"red"}}}]}],
            "entities":[{"id":"e","type_slug":"city","fields":{"n":1}}],
            "tasks":[{"id":"t","slug":"t","name":"T","input":{"k":[1]}}],
            "views":[{"id":"v","title":"V","description":"d","questions":[{"key":"a","label":"A","type":"choice",
                "required":true,"help":"h","options":[{"value":"x","label":"X"}]},
                {"key":"b","label":"B","type":"number","min":1,"max":2.5}],
                "publish_config":{"gate":"lead","expires_at":"2030-01-01T00:00:00Z"}}]}"#;
        let bundle = Bundle::read(&json(text)).unwrap();
        assert_eq!(bundle.len(), 5);
        assert_eq!(Bundle::read(&Json::of(&bundle).unwrap()).unwrap(), bundle);
        for (text, field) in [
            (
                r#"{"tasks":[{"id":"t","slug":"t","name":"T"},{"id":"u","slug":"u","nam":"U"}]}"#,
                "tasks[1].nam",
            ),
            (r#"{"tasks":[{"slug":"t","name":"T"}]}"#, "tasks[0].id"),
            (r#"{"tasks":[5]}"#, "tasks[0]"),
            (r#"{"tasks":{}}"#, "tasks"),
            (r#"{"schedules":[]}"#, "schedules"),
            (r#"{"views":[{"id":"v","title":"T","session_id":"s"}]}"#, "views[0].session_id"),
            (r#"{"version":"1"}"#, "version"),
        ] {
            assert_eq!(field_of(Bundle::read(&json(text)).unwrap_err()), field, "{text}");
        }
    }
}
