//! The sentence of a 404: for a thing that a path names and that does not exist, or that the caller may not see. It
//! is made of the request alone, so both are answered with the same bytes.

use sederunt_core::Error;

use crate::metrics::NO_ROUTE;
use sederunt_api::query::unescaped;

/// The noun for each segment of a path.
const NOUNS: [(&str, &str); 21] = [
    ("sessions", "session"),
    ("documents/{kind}", "document"),
    ("feedback/sessions", "feedback session"),
    ("threads", "conversation"),
    ("tasks", "task"),
    ("actions", "task"),
    ("agents", "agent"),
    ("entities", "entity"),
    ("tools", "tool"),
    ("tool-sessions", "tool session"),
    ("criteria-sets", "criteria set"),
    ("views", "view"),
    ("approvals", "approval"),
    ("lessons", "lesson"),
    ("facts", "fact"),
    ("arcs", "arc"),
    ("rules", "rule"),
    ("keys", "key"),
    ("shares", "share link"),
    ("users", "user"),
    ("tenants", "tenant"),
];

/// The sentence for the last name in a path, by the template of its route. `None`: the route names nothing with a
/// noun.
pub fn sentence(route: &str, path: &str) -> Option<String> {
    if route == NO_ROUTE {
        return Some("this server has no such path; /openapi.json lists those that it has".to_owned());
    }
    let segments: Vec<&str> = route.split('/').collect();
    let at = segments.iter().rposition(|segment| segment.starts_with('{'))?;
    let before = segments.get(at.checked_sub(1)?)?;
    let wider = at.checked_sub(2).and_then(|at| segments.get(at)).map(|wider| format!("{wider}/{before}"));
    let noun_of = |segment: &str| NOUNS.iter().find(|(known, _)| *known == segment).map(|(_, noun)| *noun);
    let noun = wider.and_then(|wider| noun_of(&wider)).or_else(|| noun_of(before))?;
    let name = unescaped(path.split('/').nth(at)?)?;
    Some(Error::missing(noun, &name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_path_is_told() {
        let table = [
            ("/api/sessions/{id}", "/api/sessions/nope", Some(("session", "nope"))),
            ("/api/sessions/{id}/retry", "/api/sessions/a%20b/retry", Some(("session", "a b"))),
            ("/api/feedback/sessions/{id}", "/api/feedback/sessions/f", Some(("feedback session", "f"))),
            ("/api/tenants/{id}/keys/{key_id}", "/api/tenants/t/keys/k", Some(("key", "k"))),
            ("/api/today/{bucket}", "/api/today/never", None),
            ("/api/sessions", "/api/sessions", None),
            (
                "/api/sessions/{id}/documents/{kind}/{doc}/patch",
                "/api/sessions/s/documents/scratch/notes/patch",
                Some(("document", "notes")),
            ),
            ("/api/sessions/{id}", "/api/sessions/%zz", None),
        ];
        for (route, path, named) in table {
            let said = named.map(|(noun, name)| Error::missing(noun, name));
            assert_eq!(sentence(route, path), said, "{route}");
        }
        assert!(sentence(NO_ROUTE, "/api/sesions").unwrap().contains("no such path"));
    }
}
