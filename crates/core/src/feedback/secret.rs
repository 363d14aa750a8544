//! Whether a text carries a secret: keys by the prefixes that their makers gave them, values that the text itself
//! calls a password, a PIN or a token, and numbers of payment cards. Feedback with a secret is refused before
//! anything of it is kept; the refusal names the kind of secret and quotes nothing.

use crate::safety::codes::codes;

codes!(
    /// The kind of secret that was found.
    SecretKind {
        PrivateKey = "private_key",
        ApiKey = "api_key",
        WebToken = "web_token",
        Credential = "credential",
        UrlCredential = "url_credential",
        CardNumber = "card_number",
    }
);

/// The first secret of a text.
pub fn found(text: &str) -> Option<SecretKind> {
    if text.contains("-----BEGIN") && text.contains("PRIVATE KEY") {
        return Some(SecretKind::PrivateKey);
    }
    let pieces = || text.split(is_border).filter(|piece| !piece.is_empty());
    if pieces().any(is_marked) {
        return Some(SecretKind::ApiKey);
    }
    if pieces().any(is_web_token) {
        return Some(SecretKind::WebToken);
    }
    if has_url_credential(text) {
        return Some(SecretKind::UrlCredential);
    }
    if names_a_secret(text) || tells_a_secret(text) {
        return Some(SecretKind::Credential);
    }
    has_card_number(text).then_some(SecretKind::CardNumber)
}

/// Characters that no key contains.
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
    // A key may follow a name and a colon, or be part of an address.
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

/// Names that announce a secret value.
const NAMES: &[&str] = &[
    "password", "passwd", "passphrase", "secret", "api_key", "apikey", "api-key", "access_key", "access-key",
    "secret_key", "secret-key", "client_secret", "access_token", "auth_token", "refresh_token", "bearer",
    "private_key", "passwort", "kennwort", "contraseña",
];
/// A value after a name is taken for a secret from this length on.
const VALUE_CHARS_MIN: usize = 8;
/// The same for a value with a digit: people's passwords are short, and words of a sentence have no digits.
const VALUE_WITH_DIGIT_CHARS_MIN: usize = 4;

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
            let least = if *name == "bearer" { VALUE_CHARS_MIN } else { VALUE_WITH_DIGIT_CHARS_MIN };
            whole && assigned && looks_secret(value, least)
        })
    })
}

/// Whether a value looks like a secret; one with a digit needs only `least` characters.
fn looks_secret(value: &str, least: usize) -> bool {
    let chars = value.chars().count();
    let long_and_odd = chars >= VALUE_CHARS_MIN && value.chars().any(|c| !c.is_alphanumeric());
    let has_digit = chars >= least && value.chars().any(|c| c.is_ascii_digit());
    (long_and_odd || has_digit) && !is_placeholder(value)
}

/// Names of secrets as people say them in a sentence.
const SPOKEN_NAMES: &[&str] = &[
    "password", "passwords", "passwd", "passphrase", "passcode", "pin", "passwort", "kennwort", "contraseña",
    "passe", "senha", "wachtwoord",
];
/// Words between the name and the value.
const LINKS: &[&str] = &["is", "was", "ist", "war", "lautet", "est", "es", "era", "é", "è"];
const MOVES: &[&str] = &["to", "auf"];
/// Words after a name in which its value may be told: "my password for the old server is hunter2".
const TOLD_WITHIN: usize = 8;
/// Digits of a PIN.
const PIN_DIGITS: std::ops::RangeInclusive<usize> = 4..=8;

/// `my password is hunter2`, `the password hunter2 was shown`, `PIN is 4821`. A value has a digit: "the password is
/// wrong" tells nothing.
fn tells_a_secret(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.split(['\n', ';', '!', '?']).flat_map(|line| line.split(". ")).any(|sentence| {
        let words: Vec<&str> =
            sentence.split(is_border).map(plain_word).filter(|word| !word.is_empty()).collect();
        let mut names = words.iter().enumerate().filter(|(_, word)| SPOKEN_NAMES.contains(word));
        names.any(|(at, name)| {
            let after = &words[at + 1..words.len().min(at + 1 + TOLD_WITHIN)];
            let told = |value: &str| match *name {
                "pin" => PIN_DIGITS.contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit()),
                _ => {
                    value.chars().any(|c| c.is_ascii_digit())
                        && looks_secret(value, VALUE_WITH_DIGIT_CHARS_MIN)
                }
            };
            let beside = after.first().is_some_and(|value| {
                told(value) && (*name == "pin" || value.chars().any(char::is_alphabetic))
            });
            // After such a verb a bare number is not taken for a secret: many things are set to a number.
            let links = |link: &str, value: &str| {
                LINKS.contains(&link) || (MOVES.contains(&link) && value.chars().any(char::is_alphabetic))
            };
            beside || after.windows(2).any(|pair| links(pair[0], pair[1]) && told(pair[1]))
        })
    })
}

/// A word without the marks around it.
fn plain_word(word: &str) -> &str {
    word.trim_matches(|c: char| matches!(c, '.' | ':' | '!' | '?' | '“' | '”' | '„' | '’' | '‘' | '*' | '_'))
}

/// Digits of a payment card.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// A number of a payment card, in one piece or in groups: as many digits as cards have, a first one that issuers use,
/// and a check digit that fits. Digits that letters touch are part of something else, such as an id.
fn has_card_number(text: &str) -> bool {
    let mut digits: Vec<u32> = Vec::new();
    let (mut before, mut gap, mut touched) = (' ', 0, false);
    for c in text.chars().chain(['.']) {
        match c.to_digit(10) {
            Some(digit) => {
                if digits.is_empty() {
                    touched = before.is_alphanumeric();
                }
                digits.push(digit);
                gap = 0;
            }
            None if matches!(c, ' ' | '-') && gap == 0 && !digits.is_empty() => gap = 1,
            None => {
                let ends_alone = gap > 0 || !c.is_alphanumeric();
                if !touched && ends_alone && is_card(&digits) {
                    return true;
                }
                digits.clear();
                gap = 0;
            }
        }
        before = c;
    }
    false
}

fn is_card(digits: &[u32]) -> bool {
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| if place % 2 == 1 { doubled(*digit) } else { *digit })
        .sum();
    CARD_DIGITS.contains(&digits.len())
        && digits.first().is_some_and(|first| (2..=6).contains(first))
        && sum.is_multiple_of(10)
}

/// A placeholder to be filled in, not a secret.
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
            (format!("you printed {key} to the log"), SecretKind::ApiKey),
            (format!("OPENAI={key}"), SecretKind::ApiKey),
            (format!("(\"{github}\")"), SecretKind::ApiKey),
            (format!("key:{github}."), SecretKind::ApiKey),
            (format!("AKIA{}", "ABCD1234ABCD1234"), SecretKind::ApiKey),
            (format!("-----BEGIN RSA {} KEY-----\nMII", "PRIVATE"), SecretKind::PrivateKey),
            (format!("it sent {token} along"), SecretKind::WebToken),
            ("postgres://me:hunter2@127.0.0.1/x".to_owned(), SecretKind::UrlCredential),
            ("password: hunter2hunter2".to_owned(), SecretKind::Credential),
            ("DB_PASSWORD='c0rrect-horse'".to_owned(), SecretKind::Credential),
            ("Authorization: Bearer abcdef0123456789".to_owned(), SecretKind::Credential),
            ("\"client_secret\": \"a8f5f167f44f4964\"".to_owned(), SecretKind::Credential),
            ("my password is hunter2 and it was printed in the log".to_owned(), SecretKind::Credential),
            ("my password is hunter2hunter2".to_owned(), SecretKind::Credential),
            ("password: hunter2".to_owned(), SecretKind::Credential),
            ("password=hunter2".to_owned(), SecretKind::Credential),
            ("it showed the password “hunter2” to everybody".to_owned(), SecretKind::Credential),
            ("the password hunter2hunter2 was shown".to_owned(), SecretKind::Credential),
            ("My password for the old server is hunter2.".to_owned(), SecretKind::Credential),
            ("Das Passwort lautet hunter2".to_owned(), SecretKind::Credential),
            ("mon mot de passe est hunter2".to_owned(), SecretKind::Credential),
            ("PIN is 4821".to_owned(), SecretKind::Credential),
            ("the PIN 4821 was read out".to_owned(), SecretKind::Credential),
            ("card 4111 1111 1111 1111".to_owned(), SecretKind::CardNumber),
            ("card 4111-1111-1111-1111, valid".to_owned(), SecretKind::CardNumber),
            ("it printed 378282246310005".to_owned(), SecretKind::CardNumber),
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
            "the password is wrong",
            "the password was reset 2 times",
            "it asked for the password 3 times",
            "a password is at least 8 characters",
            "the password field of page 12 is broken",
            "password: wrong again",
            "pin the version to 1.2.3",
            "pin 12 is high",
            "order 4111 1111 1111 1112 was late",
            "at 1763424000000 it stopped",
            "session ab4111111111111111 and 4111111111111111ab failed",
            "call 0800 1110111 or 0800 1110222",
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
