//! The web app in the binary, and whether it is as new as its sources

use std::fs;
use std::path::{Path, PathBuf};

use sederunt_core::access::Role;
use sha2::{Digest, Sha256};

use crate::server::{StoreKind, TestServer};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files that the app is built from, relative to the root. `web/app/scripts/source-hash.mjs` has the same rule.
fn sources(root: &Path) -> Vec<String> {
    fn below(root: &Path, folder: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let (path, kind) = (format!("{folder}/{name}"), entry.file_type().unwrap());
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() && !["node_modules", "dist", "test"].contains(&name.as_str()) {
                below(root, &path, found);
            } else if kind.is_file() && !name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    let mut found = vec!["web/package-lock.json".to_owned(), "api/openapi.json".to_owned()];
    below(root, "web/app", &mut found);
    below(root, "web/packages", &mut found);
    found.sort_unstable();
    found
}

/// SHA-256 over path, NUL, length, NUL and content of every source.
fn source_hash(root: &Path) -> String {
    let mut hash = Sha256::new();
    for path in sources(root) {
        let content = fs::read(root.join(&path)).unwrap();
        hash.update(format!("{path}\0{}\0", content.len()));
        hash.update(content);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong with the built app of a repository.
fn complaint(root: &Path) -> Option<String> {
    if !root.join("web/app/package.json").exists() {
        return None;
    }
    let built = fs::read_to_string(root.join("web/app/dist/.source-hash")).unwrap_or_default();
    let differs = built.trim_end() != source_hash(root);
    differs.then(|| {
        "web/app/dist is older than its sources: run `make web` and commit what it builds".to_owned()
    })
}

#[test]
fn the_built_app_is_as_new_as_its_sources() {
    assert_eq!(complaint(&repository()), None);
}

#[test]
fn a_changed_source_of_the_app_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("api/openapi.json", "{}");
    write("web/package-lock.json", "{\"a\":1}");
    write("web/packages/react/src/a.ts", "export {};\n");
    assert_eq!(complaint(root.path()), None, "there is no app");
    write("web/app/package.json", "{}\n");
    write("web/app/src/main.tsx", "é");
    assert!(complaint(root.path()).unwrap().contains("make web"), "it was never built");

    let hash = source_hash(root.path());
    assert_eq!(
        hash, "bf1babf0f29e29d9e2a556053eee98cb419b5704c9794736e13d074b75dbfd64",
        "the same as the script of the app computes"
    );
    write("web/app/dist/.source-hash", &format!("{hash}\n"));
    assert_eq!(complaint(root.path()), None);
    for ignored in [
        "web/app/dist/index.html", "web/app/test/a.ts", "web/app/README.md", "web/app/.hidden",
        "web/app/node_modules/x.js",
    ] {
        write(ignored, "changed");
        assert_eq!(complaint(root.path()), None, "{ignored}");
    }
    for (source, before) in [
        ("web/app/src/main.tsx", "é"),
        ("web/packages/react/src/a.ts", "export {};\n"),
        ("api/openapi.json", "{}"),
    ] {
        write(source, "changed");
        assert!(complaint(root.path()).is_some(), "{source}");
        write(source, before);
        assert_eq!(complaint(root.path()), None);
    }
    write("web/app/src/new.tsx", "");
    assert!(complaint(root.path()).is_some(), "a new file counts");
}

/// Whether this build has the app in it.
pub fn has_app() -> bool {
    repository().join("web/app/dist/index.html").exists()
}

#[tokio::test]
async fn pages_are_the_apps_and_everything_else_stays_json() {
    let server = TestServer::keyed(StoreKind::Memory).await;
    let browser = server.anyone().with("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for path in ["/api/nothing", "/auth/nothing", "/assets/nothing.js", "/views", "/v1/x", "/store/x"] {
        browser.get(path).await.refused(404, "not_found");
    }
    server.anyone().get("/inbox").await.refused(404, "not_found");
    server.anyone().with("accept", "application/json").get("/inbox").await.refused(404, "not_found");
    browser.post("/inbox", serde_json::json!({})).await.refused(404, "not_found");
    if !has_app() {
        browser.get("/inbox").await.refused(404, "not_found");
        return;
    }
    let page = browser.get("/inbox/0198?tab=a&nonsense=%00").await.expect(200);
    for path in
        ["/", "/?share=unknown", "/sessions/a%2Fb", "/t/default/place/1", "/sign-in", "/shared/x?share=y"]
    {
        let other = browser.get(path).await.expect(200);
        assert_eq!(other.text, page.text, "{path}");
    }
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    for part in [
        "default-src 'none'", "script-src 'self';", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    for (name, value) in [
        ("cache-control", "no-cache"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("vary", "accept-encoding"),
    ] {
        assert_eq!(page.headers[name], value);
    }
    let tag = page.headers["etag"].to_str().unwrap().to_owned();
    let again = browser.clone().with("if-none-match", &tag).get("/inbox").await.expect(304);
    assert_eq!((again.text.as_str(), again.headers["etag"].to_str().unwrap()), ("", tag.as_str()));
    browser.clone().with("if-none-match", "\"other\"").get("/inbox").await.expect(200);
    let packed = browser.clone().with("accept-encoding", "gzip").get("/").await.expect(200);
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert_ne!(packed.headers["etag"], page.headers["etag"], "other bytes have another tag");
    let head = crate::server::raw(
        server.address,
        &format!(
            "HEAD /inbox HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\nConnection: close\r\n\r\n",
            server.address
        ),
    )
    .await;
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("etag:") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    for hidden in ["/.source-hash", "/index.html.br", "/index.html.gz"] {
        server.anyone().get(hidden).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn json_is_compressed_for_those_who_accept_it_and_streams_are_not() {
    let server = TestServer::keyed(StoreKind::Memory).await;
    let owner = server.key(Role::Owner, "").await;
    for n in 0..20 {
        owner.session(serde_json::json!({"session_type": "mixed", "title": format!("Number {n}")})).await;
    }
    let plain = owner.get("/api/sessions").await.expect(200);
    assert!(!plain.headers.contains_key("content-encoding") && plain.text.len() > 4_000);
    for (accepted, used) in [("gzip", "gzip"), ("gzip, deflate, br", "br")] {
        let packed = owner.clone().with("accept-encoding", accepted).get("/api/sessions").await.expect(200);
        assert_eq!(packed.headers["content-encoding"], used);
        let length: usize = packed.headers["content-length"].to_str().unwrap().parse().unwrap();
        assert!(length < plain.text.len() / 4, "{length} of {}", plain.text.len());
    }
    let greedy = owner.clone().with("accept-encoding", "gzip, br");
    let small = greedy.get("/api/me").await.expect(200);
    assert!(!small.headers.contains_key("content-encoding"));
    let mut stream = greedy.follow("/api/stream?topics=sessions").await;
    stream.expect("ready").await;
    owner.session(serde_json::json!({"session_type": "mixed"})).await;
    stream.expect("sessions").await;
}
