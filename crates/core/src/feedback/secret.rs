//! Whether a text carries a secret: keys by the marks that their makers gave them, and values that a text itself calls
//! a password or a token. Feedback that does is refused before anything of it is kept; the refusal names the kind of
//! secret and quotes nothing.

use crate::safety::codes::codes;

codes!(
    /// What was found.
    Kind {
        PrivateKey = "private_key",
        ApiKey = "api_key",
        WebToken = "web_token",
        Credential = "credential",
        UrlCredential = "url_credential",
    }
);

/// The first secret of a text.
pub fn found(text: &str) -> Option<Kind> {
    if text.contains("-----BEGIN") && text.contains("PRIVATE KEY") {
        return Some(Kind::PrivateKey);
    }
    let pieces = || text.split(is_border).filter(|piece| !piece.is_empty());
    if pieces().any(is_marked) {
        return Some(Kind::ApiKey);
    }
    if pieces().any(is_web_token) {
        return Some(Kind::WebToken);
    }
    if has_url_credential(text) {
        return Some(Kind::UrlCredential);
    }
    names_a_secret(text).then_some(Kind::Credential)
}

/// What cannot stand inside a key.
fn is_border(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '<' | '>' | '[' | ']' | '{' | '}' | '=' | '|'
        )
}

/// How keys of known makers begin, and how many characters follow at least.
const MARKS: &[(&str, usize)] = &[
    ("sk-", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("pk_live_", 16),
    ("whsec_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("npm_", 30),
    ("pypi-", 30),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("SG.", 30),
    ("hf_", 20),
    ("dop_v1_", 30),
    ("sdr_", 20),
];

fn is_marked(piece: &str) -> bool {
    // A key may stand behind a name and a colon, or in an address.
    let parts = piece.split([':', '/', '@', '?', '&', '#']);
    parts.into_iter().chain([piece]).any(|part| {
        MARKS.iter().any(|(mark, more)| {
            part.strip_prefix(mark).is_some_and(|rest| {
                rest.len() >= *more
                    && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                    && rest.bytes().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
            })
        })
    })
}

/// Three parts of base64, the first of which is a JSON object.
fn is_web_token(piece: &str) -> bool {
    let piece = piece.rsplit(':').next().unwrap_or(piece);
    let mut parts = piece.split('.');
    let is_part = |part: Option<&str>, least: usize| {
        part.is_some_and(|part| {
            part.len() >= least && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        })
    };
    piece.starts_with("eyJ")
        && is_part(parts.next(), 10)
        && is_part(parts.next(), 10)
        && is_part(parts.next(), 10)
}

/// `https://user:password@host`.
fn has_url_credential(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let rest = &text[at + 3..];
        let authority =
            rest.split(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'')).next();
        let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
        user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !is_placeholder(password))
    })
}

/// What a text calls a secret.
const NAMES: &[&str] = &[
    "password", "passwd", "passphrase", "secret", "api_key", "apikey", "api-key", "access_key", "access-key",
    "secret_key", "secret-key", "client_secret", "access_token", "auth_token", "refresh_token", "bearer",
    "private_key", "passwort", "kennwort", "contraseña",
];
/// A value after a name is taken for a secret from this length on, or sooner if it looks like one.
const VALUE_CHARS_MIN: usize = 8;

/// `password: hunter2222`, `API_KEY=…`, `Authorization: Bearer …`.
fn names_a_secret(text: &str) -> bool {
    let lower = text.to_lowercase();
    // Lower-casing may change how long a text is; only the folded one is looked at.
    NAMES.iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let after = &lower[at + name.len()..];
            let whole = !after.starts_with(|c: char| c.is_alphanumeric());
            let after = after.trim_start_matches(['"', '\'', '`', '_']);
            let mut rest = after.trim_start();
            let assigned = match rest.strip_prefix(":=").or_else(|| rest.strip_prefix([':', '='])) {
                Some(value) => {
                    rest = value.trim_start();
                    true
                }
                None => *name == "bearer" && rest.len() < after.len(),
            };
            let value = rest.trim_start_matches(['"', '\'', '`']).split(is_border).next().unwrap_or_default();
            let value = value.trim_end_matches(['.', '!', '?', ':']);
            whole && assigned && looks_secret(value)
        })
    })
}

fn looks_secret(value: &str) -> bool {
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let odd = value.chars().filter(|c| !c.is_alphanumeric()).count();
    value.chars().count() >= VALUE_CHARS_MIN && (digits > 0 || odd > 0) && !is_placeholder(value)
}

/// A hole that somebody is to fill, not a secret.
fn is_placeholder(value: &str) -> bool {
    let value =
        value.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '*' | '$' | '<' | '{' | '%' | '.'));
    value.is_empty()
        || value.starts_with(['$', '<', '{', '%'])
        || value.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '•'))
        || ["redacted", "example", "placeholder", "changeme", "your_", "your-", "env.", "process.", "os."]
            .iter()
            .any(|hole| value.to_lowercase().contains(hole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        // Put together here, so that no scanner takes this file for a leak.
        let key = format!("sk-{}", "aB3".repeat(10));
        let github = format!("ghp_{}", "a1B2".repeat(9));
        let token = format!("eyJ{}.{}.{}", "a1".repeat(10), "b2".repeat(10), "c3".repeat(10));
        let table = [
            (format!("you printed {key} to the log"), Kind::ApiKey),
            (format!("OPENAI={key}"), Kind::ApiKey),
            (format!("(\"{github}\")"), Kind::ApiKey),
            (format!("key:{github}."), Kind::ApiKey),
            (format!("AKIA{}", "ABCD1234ABCD1234"), Kind::ApiKey),
            (format!("-----BEGIN RSA {} KEY-----\nMII", "PRIVATE"), Kind::PrivateKey),
            (format!("it sent {token} along"), Kind::WebToken),
            ("postgres://me:hunter2@127.0.0.1/x".to_owned(), Kind::UrlCredential),
            ("password: hunter2hunter2".to_owned(), Kind::Credential),
            ("DB_PASSWORD='c0rrect-horse'".to_owned(), Kind::Credential),
            ("Authorization: Bearer abcdef0123456789".to_owned(), Kind::Credential),
            ("\"client_secret\": \"a8f5f167f44f4964\"".to_owned(), Kind::Credential),
        ];
        for (text, kind) in table {
            assert_eq!(found(&text), Some(kind), "{text}");
        }
    }

    #[test]
    fn talk_about_secrets_is_not_one() {
        for text in [
            "never print the password",
            "the api_key should come from the environment",
            "password: ********",
            "API_KEY=$KEY, or api_key: <your key>",
            "use https://example.org/a:b@c instead",
            "the token bucket is wrong",
            "secret: ",
            "sk-short",
            "task-list-of-things-to-do-tomorrow-morning",
            "ask-me-about-anything-you-like-today",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
