//! The guard of a server without authentication: it answers only to pages and programs that call it by its own name
//! on this machine.
//!
//! Any page can make a browser call a loopback address (its `Origin` shows that), or a name that was rebound to it
//! (its `Host` shows that). A proxy in front would make every stranger local, so requests with forwarding headers are
//! refused too. A browser also reports when another site made it call (`Sec-Fetch-Site`): such a call may read, as
//! following a link does, but change nothing.

use std::net::SocketAddr;

use http::{HeaderMap, Method, Uri, header};
use sederunt_core::Error;

/// The names of a loopback listener.
#[derive(Clone, Debug)]
pub struct Names(Vec<String>);

impl Names {
    pub fn of(listener: SocketAddr) -> Self {
        let port = listener.port();
        let mut names: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].iter().map(|host| format!("{host}:{port}")).collect();
        if !names.contains(&listener.to_string()) {
            names.push(listener.to_string());
        }
        if port == 80 {
            names.extend(["127.0.0.1", "localhost", "[::1]"].map(str::to_owned));
        }
        Self(names)
    }

    fn has(&self, authority: &str) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(authority))
    }

    /// Refuses a request that was not meant for this listener, or not made on this machine.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Error> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| self.has(host)) || hosts.next().is_some() {
            return Err(Error::denied("`Host` is not this server; call it by its own address"));
        }
        if uri.authority().is_some_and(|authority| !self.has(authority.as_str())) {
            return Err(Error::denied("the request names another server"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let ours = origin.to_str().ok().and_then(|text| text.strip_prefix("http://"));
            if !ours.is_some_and(|authority| self.has(authority)) {
                return Err(Error::denied(
                    "`Origin` is another site; this server takes calls from its own pages",
                ));
            }
        }
        let only_looks = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
            && !headers.contains_key(header::UPGRADE);
        let cross_site = headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site");
        if cross_site && !only_looks {
            return Err(Error::denied(
                "another site made the browser send this; this server takes it from its own pages",
            ));
        }
        if headers.keys().any(|name| speaks_for_another(name.as_str())) {
            return Err(Error::denied("this server has no authentication and does not stand behind a proxy"));
        }
        Ok(())
    }
}

/// Whether a header is one by which proxies forward the original caller.
fn speaks_for_another(name: &str) -> bool {
    name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip" | "via" | "cf-connecting-ip")
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn check(listener: &str, uri: &str, headers: &[(&'static str, &'static str)]) -> bool {
        check_method(Method::GET, listener, uri, headers)
    }

    fn check_method(
        method: Method,
        listener: &str,
        uri: &str,
        headers: &[(&'static str, &'static str)],
    ) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Names::of(listener.parse().unwrap()).check(&method, &uri.parse().unwrap(), &map).is_ok()
    }

    #[test]
    fn only_the_listener_itself_is_answered() {
        let table: &[(bool, &[(&str, &str)])] = &[
            (true, &[("host", "127.0.0.1:7070")]),
            (true, &[("host", "localhost:7070")]),
            (true, &[("host", "LOCALHOST:7070")]),
            (true, &[("host", "[::1]:7070")]),
            (false, &[]),
            (false, &[("host", "127.0.0.1")]),
            (false, &[("host", "127.0.0.1:7071")]),
            (false, &[("host", "localhost:7070.evil.example")]),
            (false, &[("host", "evil.example:7070")]),
            (false, &[("host", "127.0.0.1:7070"), ("host", "evil.example")]),
            (true, &[("host", "127.0.0.1:7070"), ("origin", "http://127.0.0.1:7070")]),
            (true, &[("host", "127.0.0.1:7070"), ("origin", "http://localhost:7070")]),
            (false, &[("host", "127.0.0.1:7070"), ("origin", "https://127.0.0.1:7070")]),
            (false, &[("host", "127.0.0.1:7070"), ("origin", "http://127.0.0.1:3000")]),
            (false, &[("host", "127.0.0.1:7070"), ("origin", "http://127.0.0.1")]),
            (false, &[("host", "127.0.0.1:7070"), ("origin", "null")]),
            (false, &[("host", "127.0.0.1:7070"), ("origin", "")]),
            (false, &[("host", "127.0.0.1:7070"), ("origin", "http://evil.example")]),
            (false, &[("host", "127.0.0.1:7070"), ("forwarded", "for=1.2.3.4")]),
            (false, &[("host", "127.0.0.1:7070"), ("x-forwarded-for", "1.2.3.4")]),
            (false, &[("host", "127.0.0.1:7070"), ("x-forwarded-prefix", "/x")]),
            (false, &[("host", "127.0.0.1:7070"), ("x-real-ip", "1.2.3.4")]),
            (false, &[("host", "127.0.0.1:7070"), ("via", "1.1 proxy")]),
            (false, &[("host", "127.0.0.1:7070"), ("cf-connecting-ip", "1.2.3.4")]),
        ];
        for (allowed, headers) in table {
            assert_eq!(check("127.0.0.1:7070", "/api/sessions", headers), *allowed, "{headers:?}");
        }
    }

    #[test]
    fn another_site_may_send_a_browser_here_but_have_it_change_nothing() {
        let host = ("host", "127.0.0.1:7070");
        let cross = [host, ("sec-fetch-site", "cross-site")];
        let upgrade = [host, ("sec-fetch-site", "cross-site"), ("upgrade", "websocket")];
        let own = [host, ("sec-fetch-site", "same-origin"), ("upgrade", "websocket")];
        let check = |method, headers: &[_]| check_method(method, "127.0.0.1:7070", "/x", headers);
        assert!(check(Method::GET, &cross));
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            assert!(!check(method.clone(), &cross), "{method}");
            assert!(check(method, &own));
        }
        assert!(!check(Method::GET, &upgrade));
        assert!(check(Method::GET, &own));
    }

    #[test]
    fn a_request_line_that_names_another_server_is_refused() {
        let host = [("host", "127.0.0.1:7070")];
        assert!(check("127.0.0.1:7070", "http://127.0.0.1:7070/x", &host));
        assert!(!check("127.0.0.1:7070", "http://evil.example/x", &host));
    }

    #[test]
    fn the_default_port_may_be_left_out() {
        assert!(check("127.0.0.1:80", "/", &[("host", "localhost"), ("origin", "http://localhost")]));
        assert!(check("[::1]:7070", "/", &[("host", "[::1]:7070")]));
    }
}
