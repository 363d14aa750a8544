//! Web origins: which pages are this server's own.

use http::{HeaderMap, header};
use sederunt_core::Error;

/// Refuses a request that a page of another site made. A page of this server has the origin of the server's address,
/// or the one that the request itself names by `Host`. No answer has a CORS header, so no other page could read it.
pub fn check_own_page(headers: &HeaderMap, base_url: &str) -> Result<(), Error> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_own = |origin: &str| {
        let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        origin == origin_of(base_url)
            || authority.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
    };
    if headers.get_all(header::ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(is_own)) {
        return Ok(());
    }
    Err(another_site())
}

pub fn another_site() -> Error {
    Error::denied("`Origin` is another site; this server takes calls from its own pages")
}

/// The scheme and authority of a base URL.
pub fn origin_of(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    url[authority..].find('/').map_or(url, |path| &url[..authority + path])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_and_authority() {
        let table = [
            ("https://sessions.example", "https://sessions.example"),
            ("https://sessions.example/below/it", "https://sessions.example"),
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
        ];
        for (url, origin) in table {
            assert_eq!(origin_of(url), origin);
        }
    }

    #[test]
    fn pages_of_this_server_are_told_from_those_of_others() {
        let check = |origins: &[&str]| {
            let mut headers = HeaderMap::from_iter([(header::HOST, "inside:7070".parse().unwrap())]);
            for origin in origins {
                headers.append(header::ORIGIN, origin.parse().unwrap());
            }
            check_own_page(&headers, "https://forms.example/below").is_ok()
        };
        for own in [&[][..], &["https://forms.example"], &["http://inside:7070"], &["https://INSIDE:7070"]] {
            assert!(check(own), "{own:?}");
        }
        for foreign in [
            &["https://evil.example"][..],
            &["null"],
            &[""],
            &["https://forms.example.evil.example"],
            &["http://forms.example"],
            &["http://inside:7071"],
            &["inside:7070"],
            &["https://forms.example/"],
            &["https://forms.example", "https://evil.example"],
        ] {
            assert!(!check(foreign), "{foreign:?}");
        }
    }
}
