//! The web app: its built files, which are a part of the binary, and the pages that they are shown for.
//!
//! Every file is sent with the hash of its bytes as `ETag` and is asked for again each time, so a new version of the server
//! shows its own app at once. A build without the files has a page that says so: see [`super::page`].

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::encoding::{self, Encoding};

#[derive(RustEmbed)]
#[folder = "../../web/app/dist"]
#[allow_missing = true]
struct AppFiles;

/// The page that all pages of the app begin with.
const INDEX: &str = "index.html";

/// Paths that are the server's own: what does not exist under them is an error and no page.
const SERVER_PATHS: [&str; 14] = [
    "/api", "/auth", "/threads", "/store", "/v1", "/ai", "/ag-ui", "/assets", "/views", "/mcp", "/metrics",
    "/healthz", "/readyz", "/openapi.json",
];

/// What pages of the app may load: their own files and nothing else. No script may write markup.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'",
);

/// What the app answers to a request that no route takes; `None` where it has nothing.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let name = path.strip_prefix('/')?;
    if is_served(name) && name != INDEX && AppFiles::get(name).is_some() {
        return file(name, headers);
    }
    (is_page(path) && accepts_pages(headers)).then(|| index(headers)).flatten()
}

/// The page of the app; `None` in a build without it.
pub fn index(headers: &HeaderMap) -> Option<Response> {
    file(INDEX, headers)
}

/// Whether a name is a file of its own: neither hidden nor a compressed copy.
fn is_served(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    !last.starts_with('.') && ![".br", ".gz"].iter().any(|end| last.ends_with(end))
}

/// Whether a path is a page of the app.
fn is_page(path: &str) -> bool {
    !SERVER_PATHS
        .iter()
        .any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// A file in the best encoding that the client accepts and that there is.
fn file(name: &str, headers: &HeaderMap) -> Option<Response> {
    let copy = |encoding: Encoding| {
        let end = match encoding {
            Encoding::Brotli => "br",
            Encoding::Gzip => "gz",
        };
        AppFiles::get(&format!("{name}.{end}")).map(|file| (file, Some(encoding)))
    };
    let packed = encoding::accepted(headers).and_then(copy);
    let (file, encoding) = packed.or_else(|| Some((AppFiles::get(name)?, None)))?;
    let tag = tag_of(&file)?;
    let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|value| names(value, &tag));
    let mut response = match is_known {
        true => Response::new(Body::empty()),
        false => Response::new(Body::from(match file.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        })),
    };
    let sent = response.headers_mut();
    if let Some(encoding) = encoding.filter(|_| !is_known) {
        sent.insert(header::CONTENT_ENCODING, encoding.name());
    }
    for (name, value) in [
        (header::CONTENT_TYPE, kind_of(name)),
        (header::ETAG, tag),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ] {
        sent.insert(name, value);
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Some(response)
}

/// The hash of a file's bytes, as an `ETag`: a compressed copy has one of its own.
fn tag_of(file: &EmbeddedFile) -> Option<HeaderValue> {
    let hash: String = file.metadata.sha256_hash()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hash}\"")).ok()
}

/// Whether `If-None-Match` names this tag, weakly or not.
fn names(asked: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(asked), Ok(tag)) = (asked.to_str(), tag.to_str()) else { return false };
    asked.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == "*" || one == tag)
}

fn kind_of(name: &str) -> HeaderValue {
    HeaderValue::from_static(match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "webmanifest" => "application/json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_paths_that_are_not_the_servers_own() {
        for (path, is_one) in [
            ("/", true),
            ("/inbox/0198", true),
            ("/apiary", true),
            ("/threadsafe", true),
            ("/t/default/place/1", true),
            ("/api", false),
            ("/api/sessions/x", false),
            ("/auth/config", false),
            ("/views/v", false),
            ("/assets/gone.js", false),
            ("/openapi.json", false),
            ("/metrics", false),
        ] {
            assert_eq!(is_page(path), is_one, "{path}");
        }
    }

    #[test]
    fn a_known_tag_is_told_from_others() {
        let tag = HeaderValue::from_static("\"ab\"");
        for (asked, is_known) in [
            ("\"ab\"", true),
            ("W/\"ab\"", true),
            ("\"x\", \"ab\"", true),
            ("*", true),
            ("\"a\"", false),
            ("ab", false),
        ] {
            assert_eq!(names(&HeaderValue::from_static(asked), &tag), is_known, "{asked}");
        }
    }

    #[test]
    fn hidden_files_and_compressed_copies_are_no_files_of_their_own() {
        for (name, is_one) in [
            ("assets/app.js", true),
            ("assets/app.js.br", false),
            ("index.html.gz", false),
            (".source-hash", false),
        ] {
            assert_eq!(is_served(name), is_one, "{name}");
        }
    }
}
