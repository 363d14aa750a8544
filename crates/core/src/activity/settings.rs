//! What the operator sets about recorded activity.

use crate::error::{Error, Result};
use crate::limits;

/// The settings of recorded activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivitySettings {
    /// Owners read the logs of other people's bridges.
    pub owners_read: bool,
    /// Paths that start like one of these are never recorded.
    pub exclude: Vec<String>,
    /// The installation has no authentication: its operator is the same person as a caller without a credential.
    pub one_person: bool,
}

impl ActivitySettings {
    /// Refuses prefixes that no path can start with.
    pub fn checked(self) -> Result<Self> {
        if self.exclude.len() > limits::ACTIVITY_EXCLUDE_MAX {
            let message = format!("names more than {} prefixes", limits::ACTIVITY_EXCLUDE_MAX);
            return Err(Error::invalid("activity.exclude", message));
        }
        let fits = |prefix: &String| {
            prefix.starts_with('/')
                && prefix.chars().nth(limits::PATHNAME_CHARS_MAX).is_none()
                && !prefix.chars().any(|c| c.is_control() || c == '?' || c == '#')
        };
        match self.exclude.iter().find(|prefix| !fits(prefix)) {
            None => Ok(self),
            Some(_) => Err(Error::invalid(
                "activity.exclude",
                format!(
                    "must be paths that start with `/`, at most {} characters, without `?` and `#`",
                    limits::PATHNAME_CHARS_MAX
                ),
            )),
        }
    }

    /// Whether a path must not be recorded.
    pub fn excludes(&self, pathname: &str) -> bool {
        self.exclude.iter().any(|prefix| pathname.starts_with(&**prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluding(prefixes: &[&str]) -> ActivitySettings {
        ActivitySettings {
            exclude: prefixes.iter().map(|one| (*one).to_owned()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn prefixes_must_be_the_beginning_of_a_path() {
        assert!(excluding(&["/admin", "/"]).checked().is_ok());
        let long = format!("/{}", "x".repeat(limits::PATHNAME_CHARS_MAX - 1));
        assert!(excluding(&[&long]).checked().is_ok());
        let longer = format!("{long}x");
        for bad in ["admin", "", "/a?b", "/a#b", "/a\nb", longer.as_str()] {
            assert_eq!(excluding(&[bad]).checked().unwrap_err().code(), "invalid", "{bad}");
        }
        assert!(excluding(&["/a"; limits::ACTIVITY_EXCLUDE_MAX]).checked().is_ok());
        assert!(excluding(&["/a"; limits::ACTIVITY_EXCLUDE_MAX + 1]).checked().is_err());
    }
}
