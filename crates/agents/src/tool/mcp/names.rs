//! Makes names that every provider accepts from names that servers choose freely.

use sha2::{Digest, Sha256};

use crate::limits;

/// The name under which a server's tool is offered: `server__tool`. Where letters had to be replaced or cut,
/// a piece of a hash keeps different names different.
pub fn offered(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let whole = format!("{server}__{tool}");
    let name: String = whole.chars().map(plain).collect();
    // With `__` inside a name the pair could be split in two ways; such names get a hash too.
    let is_clear = !server.contains("__") && !server.ends_with('_') && !tool.starts_with('_');
    if name == whole && is_clear && name.len() <= limits::TOOL_NAME_CHARS_MAX && !tool.is_empty() {
        return name;
    }
    let digest = hex::encode(&Sha256::digest(format!("{}:{server}{tool}", server.len()))[..4]);
    let kept = name.len().min(limits::TOOL_NAME_CHARS_MAX - digest.len() - 1);
    format!("{}_{digest}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(offered("files", "read_file"), "files__read_file");
        assert!(offered("files", "read.file").starts_with("files__read_file_"));
        assert_ne!(offered("files", "read.file"), offered("files", "read file"));
        assert_ne!(offered("a", "_b"), offered("a_", "b"));
        assert_ne!(offered("a__b", "c"), offered("a", "b__c"));
    }

    proptest! {
        #[test]
        fn any_name_becomes_one_that_providers_accept(server in "\\PC{0,80}", tool in "\\PC{0,80}") {
            let name = offered(&server, &tool);
            prop_assert!((1..=limits::TOOL_NAME_CHARS_MAX).contains(&name.len()));
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
        }

        #[test]
        fn different_tools_have_different_names(
            one in ("[ab_.]{1,4}", "[ab_.]{1,4}"),
            other in ("[ab_.]{1,4}", "[ab_.]{1,4}"),
        ) {
            prop_assume!(one != other);
            prop_assert_ne!(offered(&one.0, &one.1), offered(&other.0, &other.1));
        }
    }
}
