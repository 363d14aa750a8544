//! The operations of a patch (RFC 6902) as a caller gave them: read once, bounded in number and size.

use serde_json::Value;

use super::pointer::JsonPointer;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits;

/// One operation on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchOp {
    Add { path: JsonPointer, value: Value },
    Remove { path: JsonPointer },
    Replace { path: JsonPointer, value: Value },
    Move { from: JsonPointer, path: JsonPointer },
    Copy { from: JsonPointer, path: JsonPointer },
    Test { path: JsonPointer, value: Value },
}

/// A patch that waits to be judged: the operations, and the newest patch of the document that its author has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentPatch {
    /// 0: none.
    pub base_sequence: u64,
    pub ops: Vec<PatchOp>,
    /// The operations as they are written to the log.
    pub text: Json,
}

impl DocumentPatch {
    pub fn read(base_sequence: u64, ops: &Json) -> Result<Self> {
        Ok(Self { base_sequence, ops: read_ops(ops)?, text: ops.clone() })
    }
}

impl PatchOp {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Replace { .. } => "replace",
            Self::Move { .. } => "move",
            Self::Copy { .. } => "copy",
            Self::Test { .. } => "test",
        }
    }

    pub const fn path(&self) -> &JsonPointer {
        match self {
            Self::Add { path, .. }
            | Self::Remove { path }
            | Self::Replace { path, .. }
            | Self::Move { path, .. }
            | Self::Copy { path, .. }
            | Self::Test { path, .. } => path,
        }
    }

    pub const fn from(&self) -> Option<&JsonPointer> {
        match self {
            Self::Move { from, .. } | Self::Copy { from, .. } => Some(from),
            Self::Add { .. } | Self::Remove { .. } | Self::Replace { .. } | Self::Test { .. } => None,
        }
    }

    /// The operation as it is sent.
    pub fn to_value(&self) -> Value {
        let mut op = serde_json::Map::new();
        op.insert("op".into(), self.name().into());
        if let Some(from) = self.from() {
            op.insert("from".into(), from.as_str().into());
        }
        op.insert("path".into(), self.path().as_str().into());
        if let Self::Add { value, .. } | Self::Replace { value, .. } | Self::Test { value, .. } = self {
            op.insert("value".into(), value.clone());
        }
        Value::Object(op)
    }
}

/// Reads the operations of a patch. Members that an operation does not define are ignored, as RFC 6902 says.
pub fn read_ops(ops: &Json) -> Result<Vec<PatchOp>> {
    if !ops.is_array() {
        return Err(Error::invalid("ops", "must be a list of operations"));
    }
    if ops.len() > limits::PATCH_BYTES_MAX {
        return Err(Error::invalid("ops", format!("are larger than {} bytes", limits::PATCH_BYTES_MAX)));
    }
    read_stored_ops(ops)
}

/// Reads operations that the log has; they were bounded when they came in.
pub fn read_stored_ops(ops: &Json) -> Result<Vec<PatchOp>> {
    let Value::Array(list) = ops.value() else {
        return Err(Error::invalid("ops", "must be a list of operations"));
    };
    if list.is_empty() {
        return Err(Error::invalid("ops", "must name at least one operation"));
    }
    if list.len() > limits::PATCH_OPS_MAX {
        return Err(Error::invalid("ops", format!("has more than {} operations", limits::PATCH_OPS_MAX)));
    }
    list.into_iter().enumerate().map(|(at, op)| read_op(at, op)).collect()
}

/// The name of a member of an operation in a refusal.
pub(super) fn place(at: usize, member: &str) -> String {
    format!("ops[{at}].{member}")
}

fn read_op(at: usize, op: Value) -> Result<PatchOp> {
    let Value::Object(mut members) = op else {
        return Err(Error::invalid(format!("ops[{at}]"), "must be an object"));
    };
    let name = members.get("op").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !["add", "remove", "replace", "move", "copy", "test"].contains(&&*name) {
        return Err(Error::invalid(place(at, "op"), "must be add, remove, replace, move, copy or test"));
    }
    let pointer = |member: &'static str| {
        let text = members.get(member).and_then(Value::as_str);
        let text =
            text.ok_or_else(|| Error::invalid(place(at, member), "must be a JSON Pointer in a string"))?;
        JsonPointer::parse(text).map_err(|wrong| Error::invalid(place(at, member), wrong))
    };
    let path = pointer("path")?;
    let from = match &*name {
        "move" | "copy" => pointer("from")?,
        _ => JsonPointer::root(),
    };
    let mut value = || {
        members
            .swap_remove("value")
            .ok_or_else(|| Error::invalid(place(at, "value"), format!("is missing: `{name}` needs one")))
    };
    Ok(match &*name {
        "add" => PatchOp::Add { path, value: value()? },
        "replace" => PatchOp::Replace { path, value: value()? },
        "test" => PatchOp::Test { path, value: value()? },
        "remove" if path.is_root() => {
            return Err(Error::invalid(
                place(at, "path"),
                "must not be the whole document; replace it instead",
            ));
        }
        "remove" => PatchOp::Remove { path },
        "move" if from != path && from.holds(&path) => {
            return Err(Error::invalid(place(at, "path"), "must not be inside `from`, which is moved"));
        }
        "move" => PatchOp::Move { from, path },
        _ => PatchOp::Copy { from, path },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<PatchOp>> {
        read_ops(&Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_malformed_operation_is_refused_by_its_place() {
        let table = [
            ("{}", "ops"),
            ("[]", "ops"),
            ("[1]", "ops[0]"),
            (r#"[{"op":"frob","path":"/a"}]"#, "ops[0].op"),
            (r#"[{"path":"/a"}]"#, "ops[0].op"),
            (r#"[{"op":"remove"}]"#, "ops[0].path"),
            (r#"[{"op":"remove","path":1}]"#, "ops[0].path"),
            (r#"[{"op":"remove","path":"a"}]"#, "ops[0].path"),
            (r#"[{"op":"remove","path":"/~2"}]"#, "ops[0].path"),
            (r#"[{"op":"remove","path":""}]"#, "ops[0].path"),
            (r#"[{"op":"add","path":"/a"}]"#, "ops[0].value"),
            (r#"[{"op":"replace","path":"/a"}]"#, "ops[0].value"),
            (r#"[{"op":"test","path":"/a"}]"#, "ops[0].value"),
            (r#"[{"op":"move","path":"/a"}]"#, "ops[0].from"),
            (r#"[{"op":"copy","path":"/a"}]"#, "ops[0].from"),
            (r#"[{"op":"move","from":"/a","path":"/a/b"}]"#, "ops[0].path"),
            (r#"[{"op":"move","from":"","path":"/a"}]"#, "ops[0].path"),
            (r#"[{"op":"copy","from":"x","path":"/a"}]"#, "ops[0].from"),
            (
                r#"[{"op":"test","path":"/a","value":1},{"op":"add","path":"/__proto__","value":1}]"#,
                "ops[1].path",
            ),
        ];
        for (text, field) in table {
            match read(text) {
                Err(Error::Invalid { field: found, .. }) => assert_eq!(found, field, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_an_operation_does_not_define_is_ignored_and_null_is_a_value() {
        let ops = read(
            r#"[{"op":"add","path":"/a","value":null,"from":5,"x":1},{"op":"move","from":"/a","path":"/a"}]"#,
        );
        let ops = ops.unwrap();
        assert_eq!(ops[0], PatchOp::Add { path: JsonPointer::parse("/a").unwrap(), value: Value::Null });
        assert_eq!(ops[1].to_value().to_string(), r#"{"op":"move","from":"/a","path":"/a"}"#);
    }

    #[test]
    fn a_patch_meets_its_limits_and_is_refused_one_past() {
        let many = |count: usize| format!("[{}]", vec![r#"{"op":"remove","path":"/a"}"#; count].join(","));
        assert!(read(&many(limits::PATCH_OPS_MAX)).is_ok());
        assert!(read(&many(limits::PATCH_OPS_MAX + 1)).is_err());
        let frame = r#"[{"op":"add","path":"/a","value":""}]"#.len();
        let sized =
            |bytes: usize| format!(r#"[{{"op":"add","path":"/a","value":"{}"}}]"#, "x".repeat(bytes - frame));
        assert!(read(&sized(limits::PATCH_BYTES_MAX)).is_ok());
        assert!(read(&sized(limits::PATCH_BYTES_MAX + 1)).is_err());
    }
}
