//! The value of a document, and what operations do to it. Size and nesting are checked before each operation changes
//! anything, so that a patch never makes a value that is larger than one may be. A refused operation takes back those before
//! it.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::patch::{PatchOp, place};
use super::paths::{TouchedPaths, WrittenPaths};
use super::pointer::JsonPointer;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits;

/// A document's value, with the bytes of its JSON text counted along.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentContent {
    value: Value,
    bytes: usize,
}

/// What a patch did.
#[derive(Clone, Debug, Default)]
pub struct AppliedPatch {
    /// The operations that take it back, in the order in which they are applied.
    pub inverse: Vec<PatchOp>,
    pub paths: TouchedPaths,
}

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRefusal {
    /// The operation's place in its patch.
    pub at: usize,
    /// `path`, `from` or `value`.
    member: &'static str,
    reason: String,
    /// The place whose value was not the tested one.
    pub failed_test: Option<JsonPointer>,
}

impl From<OpRefusal> for Error {
    fn from(refusal: OpRefusal) -> Self {
        Self::invalid(place(refusal.at, refusal.member), refusal.reason)
    }
}

/// A refusal before it is known which operation it is.
struct StepRefusal {
    member: &'static str,
    reason: String,
    kind: RefusalKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RefusalKind {
    /// The place is not there.
    Missing,
    /// A test failed.
    Untrue,
    Other,
}

impl StepRefusal {
    fn of(member: &'static str, reason: impl Into<String>) -> Self {
        Self { member, reason: reason.into(), kind: RefusalKind::Other }
    }
}

/// Where a value is to be put.
struct DocumentSlot {
    found: SlotKind,
    /// The bytes of the value that gives way.
    given_up: usize,
    /// The bytes around the new value: a comma, and a key.
    frame: usize,
}

enum SlotKind {
    Whole,
    Element { at: usize, is_append: bool },
    Member,
}

type Step<T> = Result<T, StepRefusal>;

/// Whether an operation is held to the limits. One that takes back another is not: it restores what was there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bounds {
    Checked,
    Restoring,
}

impl DocumentContent {
    /// A document of this value, if it is not too large or too deep.
    pub fn new(value: Value) -> Result<Self> {
        let bytes = text_bytes(&value);
        if bytes > limits::SHARED_DOCUMENT_BYTES_MAX {
            let message = format!("is larger than {} bytes", limits::SHARED_DOCUMENT_BYTES_MAX);
            return Err(Error::invalid("value", message));
        }
        if depth(&value) > limits::SHARED_DOCUMENT_DEPTH_MAX {
            let message = format!("nested deeper than {} levels", limits::SHARED_DOCUMENT_DEPTH_MAX);
            return Err(Error::invalid("value", message));
        }
        Ok(Self { value, bytes })
    }

    /// A document as a store has it.
    pub fn stored(text: &Json) -> Self {
        let value = text.value();
        Self { bytes: text_bytes(&value), value }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The bytes of the JSON text.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The JSON text, with the keys of every object in the order of their bytes.
    pub fn sorted_text(&self) -> Json {
        let mut text = String::with_capacity(self.bytes);
        write_sorted(&self.value, &mut text);
        Json::stored(text)
    }

    /// What the value takes in memory, about.
    pub fn memory_bytes(&self) -> usize {
        memory_bytes(&self.value)
    }

    /// Applies operations, all or none.
    pub fn apply(&mut self, ops: &[PatchOp]) -> Result<AppliedPatch, OpRefusal> {
        let mut applied = AppliedPatch::default();
        for (at, op) in ops.iter().enumerate() {
            match self.step(op.clone(), Bounds::Checked, &mut applied.paths) {
                // The last operation is taken back first.
                Ok(undo) => drop(applied.inverse.splice(0..0, undo)),
                Err(StepRefusal { member, reason, kind }) => {
                    let failed_test = (kind == RefusalKind::Untrue).then(|| op.path().clone());
                    self.take_back(applied.inverse);
                    return Err(OpRefusal { at, member, reason, failed_test });
                }
            }
        }
        Ok(applied)
    }

    /// The places that operations of an earlier patch wrote, as far as this later state tells: whether something holds
    /// elements or members has not changed since, unless another patch wrote it, which collides by itself.
    pub fn written_by(&self, ops: &[PatchOp]) -> WrittenPaths {
        let mut paths = TouchedPaths::default();
        for op in ops {
            match op {
                PatchOp::Test { .. } => {}
                PatchOp::Replace { path, .. } => paths.write(path),
                PatchOp::Remove { path } => self.note_shift(path, false, &mut paths),
                PatchOp::Add { path, .. } | PatchOp::Copy { path, .. } => {
                    self.note_shift(path, true, &mut paths)
                }
                PatchOp::Move { from, path } => {
                    self.note_shift(from, false, &mut paths);
                    self.note_shift(path, true, &mut paths);
                }
            }
        }
        paths.written
    }

    /// Notes that something was added or removed at a place.
    fn note_shift(&self, path: &JsonPointer, is_added: bool, paths: &mut TouchedPaths) {
        match path.split_last() {
            Some((holder, last)) if !matches!(self.get(&holder, "path"), Ok(Value::Object(_))) => {
                if is_added && last == "-" { paths.append(path) } else { paths.write(&holder) }
            }
            _ => paths.write(path),
        }
    }

    /// Takes a patch back that was applied last.
    pub fn take_back(&mut self, inverse: Vec<PatchOp>) {
        for op in inverse {
            let mut unused = TouchedPaths::default();
            // The inverse of what was just applied fits.
            let _ = self.step(op, Bounds::Restoring, &mut unused);
        }
    }

    /// Carries out one operation and returns its inverse.
    fn step(&mut self, op: PatchOp, bounds: Bounds, paths: &mut TouchedPaths) -> Step<Vec<PatchOp>> {
        match op {
            PatchOp::Add { path, value } => self.add(path, value, bounds, paths),
            PatchOp::Remove { path } => {
                let (place, value) = self.remove(&path, "path", paths)?;
                Ok(vec![PatchOp::Add { path: place, value }])
            }
            PatchOp::Replace { path, value } => {
                let given_up = text_bytes(self.get(&path, "path")?);
                let added = text_bytes(&value);
                self.check_size(&path, depth(&value), (self.bytes + added).saturating_sub(given_up), bounds)?;
                paths.write(&path);
                let slot = get_mut(&mut self.value, &path).ok_or_else(|| missing("path"))?;
                let old = std::mem::replace(slot, value);
                self.bytes = (self.bytes + added).saturating_sub(given_up);
                Ok(vec![PatchOp::Replace { path, value: old }])
            }
            PatchOp::Copy { from, path } => {
                let copied = self.get(&from, "from")?;
                let DocumentSlot { given_up, frame, .. } = self.slot(&path)?;
                let bytes = (self.bytes + frame + text_bytes(copied)).saturating_sub(given_up);
                self.check_size(&path, depth(copied), bytes, bounds)?;
                let value = copied.clone();
                paths.read(&from);
                self.add(path, value, bounds, paths)
            }
            PatchOp::Move { from, path } => {
                if from == path {
                    self.get(&from, "from")?;
                    paths.write(&path);
                    return Ok(Vec::new());
                }
                paths.read(&from);
                let (place, value) = self.remove(&from, "from", paths)?;
                let kept = value.clone();
                match self.add(path, value, bounds, paths) {
                    Ok(undo) => Ok(undo_of_move(undo, place, kept)),
                    Err(refused) => {
                        self.take_back(vec![PatchOp::Add { path: place, value: kept }]);
                        Err(refused)
                    }
                }
            }
            PatchOp::Test { path, value } => {
                paths.read(&path);
                match self.get(&path, "path") {
                    Ok(found) if is_equal(found, &value) => Ok(Vec::new()),
                    Err(refused) if refused.kind != RefusalKind::Missing => Err(refused),
                    _ => Err(StepRefusal {
                        member: "value",
                        reason: "is not what the document has there".into(),
                        kind: RefusalKind::Untrue,
                    }),
                }
            }
        }
    }

    fn add(
        &mut self,
        path: JsonPointer,
        value: Value,
        bounds: Bounds,
        paths: &mut TouchedPaths,
    ) -> Step<Vec<PatchOp>> {
        let DocumentSlot { found, given_up, frame } = self.slot(&path)?;
        let bytes = (self.bytes + frame + text_bytes(&value)).saturating_sub(given_up);
        self.check_size(&path, depth(&value), bytes, bounds)?;
        self.bytes = bytes;
        let Some((holder, last)) = path.split_last() else {
            paths.write(&path);
            let old = std::mem::replace(&mut self.value, value);
            return Ok(vec![PatchOp::Replace { path, value: old }]);
        };
        match (get_mut(&mut self.value, &holder), found) {
            (Some(Value::Array(list)), SlotKind::Element { at, is_append }) => {
                list.insert(at, value);
                if is_append {
                    paths.append(&path);
                } else {
                    paths.write(&holder);
                }
                Ok(vec![PatchOp::Remove { path: holder.element(at) }])
            }
            (Some(Value::Object(members)), SlotKind::Member) => {
                paths.write(&path);
                let old = members.insert(last.into_owned(), value);
                Ok(vec![match old {
                    Some(old) => PatchOp::Replace { path, value: old },
                    None => PatchOp::Remove { path },
                }])
            }
            _ => Err(missing("path")),
        }
    }

    /// Finds the place that a value is added at.
    fn slot(&self, path: &JsonPointer) -> Step<DocumentSlot> {
        let Some((holder, last)) = path.split_last() else {
            return Ok(DocumentSlot { found: SlotKind::Whole, given_up: self.bytes, frame: 0 });
        };
        let element = |at: usize, is_append: bool, list: &[Value]| DocumentSlot {
            found: SlotKind::Element { at, is_append },
            given_up: 0,
            frame: usize::from(!list.is_empty()),
        };
        match self.get(&holder, "path")? {
            Value::Array(list) if last == "-" => Ok(element(list.len(), true, list)),
            Value::Array(list) => Ok(element(index(&last, list.len(), "path")?, false, list)),
            Value::Object(members) => Ok(match members.get(&*last) {
                Some(old) => DocumentSlot { found: SlotKind::Member, given_up: text_bytes(old), frame: 0 },
                None => {
                    let frame = usize::from(!members.is_empty()) + key_bytes(&last) + 1;
                    DocumentSlot { found: SlotKind::Member, given_up: 0, frame }
                }
            }),
            _ => Err(StepRefusal::of("path", "is inside a value that is neither a list nor an object")),
        }
    }

    /// Takes a value out. Returns where it was, as the operation that puts it back names it.
    fn remove(
        &mut self,
        path: &JsonPointer,
        member: &'static str,
        paths: &mut TouchedPaths,
    ) -> Step<(JsonPointer, Value)> {
        let Some((holder, last)) = path.split_last() else {
            return Err(StepRefusal::of(member, "must not be the whole document"));
        };
        let removed = match get_mut(&mut self.value, &holder) {
            Some(Value::Array(list)) => {
                let at = index(&last, list.len(), member)?;
                if at == list.len() {
                    return Err(missing(member));
                }
                paths.write(&holder);
                let value = list.remove(at);
                (value, usize::from(!list.is_empty()))
            }
            Some(Value::Object(members)) => {
                let value = members.swap_remove(&*last).ok_or_else(|| missing(member))?;
                paths.write(path);
                (value, usize::from(!members.is_empty()) + key_bytes(&last) + 1)
            }
            _ => return Err(missing(member)),
        };
        let (value, frame) = removed;
        self.bytes = self.bytes.saturating_sub(text_bytes(&value) + frame);
        Ok((path.clone(), value))
    }

    fn get(&self, path: &JsonPointer, member: &'static str) -> Step<&Value> {
        let mut at = &self.value;
        for token in path.tokens() {
            at = match at {
                Value::Array(list) => {
                    list.get(index(&token, list.len(), member)?).ok_or_else(|| missing(member))?
                }
                Value::Object(members) => members.get(&*token).ok_or_else(|| missing(member))?,
                _ => return Err(missing(member)),
            };
        }
        Ok(at)
    }

    /// Checks that the document may have so many bytes, with so many levels at this place.
    fn check_size(&self, path: &JsonPointer, levels: usize, bytes: usize, bounds: Bounds) -> Step<()> {
        if bounds == Bounds::Restoring {
            return Ok(());
        }
        if bytes > limits::SHARED_DOCUMENT_BYTES_MAX {
            let most = limits::SHARED_DOCUMENT_BYTES_MAX;
            return Err(StepRefusal::of("path", format!("the document would be larger than {most} bytes")));
        }
        if path.tokens().count() + levels > limits::SHARED_DOCUMENT_DEPTH_MAX {
            let most = limits::SHARED_DOCUMENT_DEPTH_MAX;
            return Err(StepRefusal::of(
                "path",
                format!("the document would be nested deeper than {most} levels"),
            ));
        }
        Ok(())
    }
}

/// The inverse of a move: what takes back the adding, then what takes back the removing.
fn undo_of_move(undo: Vec<PatchOp>, place: JsonPointer, kept: Value) -> Vec<PatchOp> {
    match undo.as_slice() {
        [PatchOp::Remove { path }] => vec![PatchOp::Move { from: path.clone(), path: place }],
        _ => undo.into_iter().chain([PatchOp::Add { path: place, value: kept }]).collect(),
    }
}

fn missing(member: &'static str) -> StepRefusal {
    let reason = "names nothing in the document".into();
    StepRefusal { member, reason, kind: RefusalKind::Missing }
}

/// Reads the index of an element, or the place after the last one.
fn index(token: &str, len: usize, member: &'static str) -> Step<usize> {
    let is_number = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || (token.len() > 1 && token.starts_with('0')) {
        let reason = if token == "-" {
            "`-` is the place after the last element, which only `add`, `move` and `copy` write to"
        } else {
            "names an element of a list by something that is no index"
        };
        return Err(StepRefusal::of(member, reason));
    }
    match token.parse::<usize>() {
        Ok(at) if at <= len => Ok(at),
        _ => {
            let reason = "is past the end of the list".into();
            Err(StepRefusal { member, reason, kind: RefusalKind::Missing })
        }
    }
}

fn get_mut<'v>(value: &'v mut Value, path: &JsonPointer) -> Option<&'v mut Value> {
    let mut at = value;
    for token in path.tokens() {
        at = match at {
            Value::Array(list) => list.get_mut(token.parse::<usize>().ok()?)?,
            Value::Object(members) => members.get_mut(&*token)?,
            _ => return None,
        };
    }
    Some(at)
}

/// Equality of RFC 6902 §4.6: numbers are equal if their values are, and objects whatever the order of their members.
pub fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a == b,
            // An integer that a double does not hold exactly equals no double.
            (Some(whole), None) => is_whole_of(b.as_f64(), whole),
            (None, Some(whole)) => is_whole_of(a.as_f64(), whole),
            (None, None) => a.as_f64() == b.as_f64(),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        _ => a == b,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the double is whole and within the range that is compared"
)]
fn is_whole_of(double: Option<f64>, whole: i128) -> bool {
    // Beyond this, no integer of 64 bits is reached.
    const RANGE: f64 = 3.7e19;
    double.is_some_and(|double| double.fract() == 0.0 && double.abs() < RANGE && double as i128 == whole)
}

/// The SHA-256 of a text, in hexadecimal digits.
pub fn digest(text: &Json) -> String {
    Sha256::digest(text.as_str().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How many containers are nested in a value, itself included.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The bytes of a value's JSON text.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number_bytes(number),
        Value::String(text) => key_bytes(text),
        Value::Array(list) => 2 + list.len().saturating_sub(1) + list.iter().map(text_bytes).sum::<usize>(),
        Value::Object(members) => {
            let inner: usize =
                members.iter().map(|(key, value)| key_bytes(key) + 1 + text_bytes(value)).sum();
            2 + members.len().saturating_sub(1) + inner
        }
    }
}

fn number_bytes(number: &serde_json::Number) -> usize {
    match number.as_u64() {
        Some(whole) => whole.checked_ilog10().unwrap_or(0) as usize + 1,
        None => number.to_string().len(),
    }
}

/// The bytes of a string in JSON text, with its quotes and escapes.
fn key_bytes(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | 0x08 | 0x0c | b'\n' | b'\r' | b'\t' => 1,
        0x00..0x20 => 5,
        _ => 0,
    });
    2 + text.len() + escapes.sum::<usize>()
}

fn memory_bytes(value: &Value) -> usize {
    const ENTRY: usize = 72;
    size_of::<Value>()
        + match value {
            Value::String(text) => text.capacity(),
            Value::Array(list) => list.iter().map(memory_bytes).sum(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| ENTRY + key.capacity() + memory_bytes(value)).sum()
            }
            _ => 0,
        }
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Array(list) => {
            text.push('[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_sorted(element, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_scalar(key, text);
                text.push(':');
                write_sorted(value, text);
            }
            text.push('}');
        }
        scalar => write_scalar(scalar, text),
    }
}

fn write_scalar(scalar: &impl serde::Serialize, text: &mut String) {
    // A string, a number or a literal has a JSON text.
    text.push_str(&serde_json::to_string(scalar).unwrap_or_default());
}

#[cfg(test)]
mod tests;
