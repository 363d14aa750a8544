//! The cookie of a browser session: its name, how it is read and set, and which requests may use it.
//!
//! A browser adds the cookie to every request to this server, also to one that another site made it send. So a request
//! that changes something, or opens a socket, counts only if the browser says that a page of this server made it.

use http::{HeaderMap, HeaderValue, Method, header};
use sederunt_core::{Error, Timestamp};

use super::origin;

/// The name over HTTPS: with this prefix a browser takes the cookie only from this host, for all its paths, by TLS.
const SECURE_NAME: &str = "__Host-sederunt";
/// The name on plain loopback.
const PLAIN_NAME: &str = "sederunt";

/// The name of the cookie, by the server's address.
fn name(base_url: &str) -> &'static str {
    if base_url.starts_with("https://") { SECURE_NAME } else { PLAIN_NAME }
}

/// The cookie's value, if the request carries it once.
pub fn read<'a>(headers: &'a HeaderMap, base_url: &str) -> Option<&'a str> {
    let name = name(base_url);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(given, value)| *given == name && !value.is_empty());
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

/// The header that sets the cookie until then.
pub fn set(base_url: &str, secret: &str, now: Timestamp, until: Timestamp) -> Option<HeaderValue> {
    let seconds = (until.as_micros() - now.as_micros()).max(0) / 1_000_000;
    line(base_url, secret, seconds)
}

/// The header that removes the cookie.
pub fn remove(base_url: &str) -> Option<HeaderValue> {
    line(base_url, "", 0)
}

fn line(base_url: &str, value: &str, seconds: i64) -> Option<HeaderValue> {
    let name = name(base_url);
    let secure = if name == SECURE_NAME { "; Secure" } else { "" };
    let line = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&line).ok()
}

/// Refuses a request with the cookie that changes something or opens a socket, unless a page of this server made it.
pub fn check_own_page(method: &Method, headers: &HeaderMap, base_url: &str) -> Result<(), Error> {
    let only_reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
        && !headers.contains_key(header::UPGRADE);
    if only_reads || is_own_page(headers, base_url) {
        return Ok(());
    }
    Err(Error::denied(
        "a page of another site made the browser send this; this server takes it from its own pages",
    ))
}

/// Refuses a sign-in that a page of another site made: it would sign people in as somebody else. A program, which says
/// nothing of pages, may sign in.
pub fn check_sign_in(headers: &HeaderMap, base_url: &str) -> Result<(), Error> {
    if says_same_origin(headers) == Some(false) {
        return Err(origin::another_site());
    }
    origin::check_own_page(headers, base_url)
}

/// Whether the browser says that a page of this server made the request: by `Sec-Fetch-Site` or, in a browser without
/// it, by `Origin`.
fn is_own_page(headers: &HeaderMap, base_url: &str) -> bool {
    match says_same_origin(headers) {
        Some(is_own) => is_own,
        None => headers.contains_key(header::ORIGIN) && origin::check_own_page(headers, base_url).is_ok(),
    }
}

/// Whether a browser says that a page of the same origin made the request; `None` if it says nothing.
pub fn says_same_origin(headers: &HeaderMap) -> Option<bool> {
    let mut sites = headers.get_all("sec-fetch-site").iter().peekable();
    sites.peek()?;
    Some(sites.all(|site| site == "same-origin"))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const PLAIN: &str = "http://127.0.0.1:7070";
    const SECURE: &str = "https://sessions.example";

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_cookie_is_read_by_the_name_of_its_transport_and_only_once() {
        let table = [
            (PLAIN, "sederunt=s", Some("s")),
            (PLAIN, "a=1; sederunt=s ;b=2", Some("s")),
            (PLAIN, "__Host-sederunt=s", None),
            (SECURE, "__Host-sederunt=s; sederunt=x", Some("s")),
            (SECURE, "sederunt=s", None),
            (PLAIN, "sederunt=", None),
            (PLAIN, "sederunt=a; sederunt=b", None),
            (PLAIN, "xsederunt=a", None),
        ];
        for (url, line, value) in table {
            assert_eq!(read(&headers(&[("cookie", line)]), url), value, "{line}");
        }
    }

    #[test]
    fn no_script_and_no_other_site_gets_the_cookie() {
        let now = Timestamp::from_micros(0);
        let until = Timestamp::from_micros(90_000_000);
        let plain = set(PLAIN, "s", now, until).unwrap();
        assert_eq!(plain, "sederunt=s; Path=/; Max-Age=90; HttpOnly; SameSite=Strict");
        let secure = set(SECURE, "s", now, until).unwrap();
        assert_eq!(secure, "__Host-sederunt=s; Path=/; Max-Age=90; HttpOnly; SameSite=Strict; Secure");
        assert_eq!(remove(PLAIN).unwrap(), "sederunt=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn a_request_that_changes_something_comes_from_a_page_of_this_server() {
        type Fields<'a> = &'a [(&'static str, &'static str)];
        let site = |value| ("sec-fetch-site", value);
        let table: [(Method, Fields<'_>, bool); 12] = [
            (Method::GET, &[], true),
            (Method::GET, &[site("cross-site")], true),
            (Method::GET, &[site("cross-site"), ("upgrade", "websocket")], false),
            (Method::GET, &[site("same-origin"), ("upgrade", "websocket")], true),
            (Method::POST, &[site("same-origin")], true),
            (Method::POST, &[site("same-site")], false),
            (Method::POST, &[site("none")], false),
            (Method::DELETE, &[site("cross-site"), ("origin", SECURE)], false),
            (Method::POST, &[], false),
            (Method::POST, &[("origin", SECURE)], true),
            (Method::PATCH, &[("origin", "https://evil.example")], false),
            (Method::POST, &[("origin", "null")], false),
        ];
        for (method, fields, is_taken) in table {
            assert_eq!(
                check_own_page(&method, &headers(fields), SECURE).is_ok(),
                is_taken,
                "{method} {fields:?}"
            );
        }
    }
}
