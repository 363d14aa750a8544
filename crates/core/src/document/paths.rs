//! The places that a patch reads and writes, and when those of two patches collide.
//!
//! Two places are disjoint if neither holds the other, token by token. Adding to a list or removing from it writes the
//! list itself, because the indices of its elements shift. An append (`LIST/-`) shifts none and writes only that place;
//! two appends to one list do not collide.

use smallvec::SmallVec;

use super::patch::PatchOp;
use super::pointer::JsonPointer;

/// A place that a patch wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPath {
    pub path: JsonPointer,
    pub is_append: bool,
}

/// The places that a patch wrote.
pub type WrittenPaths = SmallVec<[WrittenPath; 2]>;

/// The places that a patch reads and writes in the document that it is applied to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPaths {
    pub read: SmallVec<[JsonPointer; 2]>,
    pub written: WrittenPaths,
}

impl TouchedPaths {
    pub(super) fn read(&mut self, path: &JsonPointer) {
        self.read.push(path.clone());
    }

    pub(super) fn write(&mut self, path: &JsonPointer) {
        self.written.push(WrittenPath { path: path.clone(), is_append: false });
    }

    pub(super) fn append(&mut self, path: &JsonPointer) {
        self.written.push(WrittenPath { path: path.clone(), is_append: true });
    }

    /// The places as the operations name them. In the document they may be wider: a list instead of its element.
    pub fn named(ops: &[PatchOp]) -> Self {
        let mut paths = Self::default();
        for op in ops {
            op.from().into_iter().for_each(|from| paths.read(from));
            match op {
                PatchOp::Test { path, .. } => paths.read(path),
                // Whether this is an append or a member called `-` is known in the document alone.
                PatchOp::Add { path, .. } | PatchOp::Move { path, .. } | PatchOp::Copy { path, .. }
                    if path.as_str().ends_with("/-") =>
                {
                    paths.append(path);
                }
                _ => paths.write(op.path()),
            }
        }
        paths
    }

    /// Whether a place that another patch wrote collides with one of these.
    pub fn collide(&self, other: &WrittenPath) -> bool {
        self.read.iter().any(|path| overlap(path, &other.path))
            || self.written.iter().any(|own| {
                let both_append = own.is_append && other.is_append && own.path == other.path;
                !both_append && overlap(&own.path, &other.path)
            })
    }
}

fn overlap(a: &JsonPointer, b: &JsonPointer) -> bool {
    a.holds(b) || b.holds(a)
}

/// What the places of a patch take in memory, about.
pub fn memory_bytes(written: &WrittenPaths) -> usize {
    size_of::<WrittenPaths>()
        + written.iter().map(|one| size_of::<WrittenPath>() + one.path.as_str().len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::content::DocumentContent;
    use super::super::patch::read_ops;
    use super::*;
    use crate::json::Json;

    /// The places of a patch in a document with a list, an object and a member that is called `-`.
    fn paths(ops: &serde_json::Value) -> TouchedPaths {
        let start = json!({"list": [{"x": 1}, {"x": 2}, {"x": 3}], "object": {"a": 1, "-": 2}, "other": [1]});
        let mut content = DocumentContent::new(start).unwrap();
        content.apply(&read_ops(&Json::of(ops).unwrap()).unwrap()).unwrap().paths
    }

    #[test]
    fn what_shifts_indices_writes_the_list_and_an_append_its_own_place() {
        let table = [
            (json!([{"op": "add", "path": "/list/1", "value": 0}]), &["/list"][..], &[][..]),
            (json!([{"op": "add", "path": "/list/3", "value": 0}]), &["/list"], &[]),
            (json!([{"op": "add", "path": "/list/-", "value": 0}]), &["/list/- +"], &[]),
            (json!([{"op": "add", "path": "/object/-", "value": 0}]), &["/object/-"], &[]),
            (json!([{"op": "add", "path": "/object/b", "value": 0}]), &["/object/b"], &[]),
            (json!([{"op": "add", "path": "", "value": 0}]), &[""], &[]),
            (json!([{"op": "remove", "path": "/list/0"}]), &["/list"], &[]),
            (json!([{"op": "remove", "path": "/object/a"}]), &["/object/a"], &[]),
            (json!([{"op": "replace", "path": "/list/0/x", "value": 0}]), &["/list/0/x"], &[]),
            (json!([{"op": "replace", "path": "/list/0", "value": 0}]), &["/list/0"], &[]),
            (
                json!([{"op": "move", "from": "/list/0", "path": "/object/b"}]),
                &["/list", "/object/b"],
                &["/list/0"],
            ),
            (
                json!([{"op": "move", "from": "/object/a", "path": "/list/-"}]),
                &["/object/a", "/list/- +"],
                &["/object/a"],
            ),
            (json!([{"op": "copy", "from": "/object/a", "path": "/other/0"}]), &["/other"], &["/object/a"]),
            (json!([{"op": "test", "path": "/object/a", "value": 1}]), &[], &["/object/a"]),
        ];
        for (ops, written, read) in table {
            let found = paths(&ops);
            let spelled: Vec<String> = found
                .written
                .iter()
                .map(|one| format!("{}{}", one.path.as_str(), if one.is_append { " +" } else { "" }))
                .collect();
            assert_eq!(spelled, written, "{ops}");
            assert_eq!(found.read.iter().map(JsonPointer::as_str).collect::<Vec<_>>(), read, "{ops}");
        }
    }

    #[test]
    fn two_patches_collide_where_one_place_holds_the_other() {
        let set = |path: &str| json!([{"op": "add", "path": path, "value": 0}]);
        let put = |path: &str| json!([{"op": "replace", "path": path, "value": 0}]);
        let test = |path: &str, value: i32| json!([{"op": "test", "path": path, "value": value}]);
        let table = [
            (set("/list/-"), set("/list/-"), false),
            (set("/list/-"), set("/list/0"), true),
            (set("/list/-"), put("/list/0/x"), false),
            (set("/list/-"), put("/list"), true),
            (set("/object/-"), set("/object/-"), true),
            (set("/object/b"), set("/object/c"), false),
            (set("/object/b"), set("/object/b"), true),
            (set("/object/b"), set("/object/bc"), false),
            (set("/object/b"), put("/object"), true),
            (put("/list/0/x"), put("/list/1/x"), false),
            (put("/list/0/x"), json!([{"op": "remove", "path": "/list/2"}]), true),
            (put("/list/0/x"), set("/other/0"), false),
            (put("/list/0/x"), put(""), true),
            (test("/object/a", 1), put("/object/a"), true),
            (test("/object/a", 1), put("/object/-"), false),
            (json!([{"op": "copy", "from": "/object/a", "path": "/b"}]), put("/object/a"), true),
            (json!([{"op": "copy", "from": "/list/0/x", "path": "/b"}]), set("/list/-"), false),
            (json!([{"op": "move", "from": "/list/0/x", "path": "/b"}]), set("/list/0"), true),
        ];
        for (late, earlier, collides) in table {
            let (mine, theirs) = (paths(&late), paths(&earlier));
            assert_eq!(
                theirs.written.iter().any(|one| mine.collide(one)),
                collides,
                "{late} after {earlier}"
            );
        }
        let read = paths(&test("/object/a", 1));
        assert!(read.written.is_empty(), "a patch that only reads collides with none");
    }
}
