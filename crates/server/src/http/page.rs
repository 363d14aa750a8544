//! The page for people who open the server in a browser.

use super::ServerInfo;

/// Says what runs here and where to go next. Loads nothing from another server.
pub fn home(about: &ServerInfo) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let docs = env!("CARGO_PKG_REPOSITORY");
    let (store, auth, base) = (escape(&about.store), about.auth, escape(&about.base_url));
    let who = match auth {
        "local" => "no authentication: everybody on this machine is the owner of tenant <code>default</code>",
        "jwt" => "API keys and JSON Web Tokens",
        _ => "API keys",
    };
    // A browser sends no key, so with authentication these two links would only be refused.
    let (open, key) = match auth {
        "local" => (
            "\n<li><a href=\"/api/sessions\">Sessions (JSON)</a></li>\n<li><a href=\"/metrics\">Figures</a></li>",
            "",
        ),
        _ => ("", "\n  -H \"Authorization: Bearer $SEDERUNT_KEY\" \\"),
    };
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sederunt</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2430; --soft: #5b6575; --paper: #faf9f6; --line: #e2dfd6; --accent: #7a3b1d; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e9e6df; --soft: #a3a09a; --paper: #17181b; --line: #34353a; --accent: #e3a27f; }}
}}
* {{ box-sizing: border-box }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 2rem;
  background: var(--paper); color: var(--ink); font: 16px/1.6 ui-serif, Georgia, "Times New Roman", serif }}
main {{ max-width: 38rem; width: 100% }}
h1 {{ font-size: 2.6rem; line-height: 1.1; margin: 0; letter-spacing: -.01em }}
.lead {{ color: var(--soft); margin: .4rem 0 2rem }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.5rem; margin: 0 0 2rem;
  padding: 1.2rem 0; border: solid var(--line); border-width: 1px 0 }}
h2 {{ font-size: 1rem; margin: 0 0 .5rem }}
dt {{ color: var(--soft) }}
dd {{ margin: 0 }}
a {{ color: var(--accent); text-underline-offset: .2em }}
ul {{ padding: 0; margin: 0 0 2rem; list-style: none; display: flex; flex-wrap: wrap; gap: .4rem 1.6rem }}
code, pre {{ font: .86em/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}
pre {{ margin: 0; padding: 1rem 1.2rem; border: 1px solid var(--line); border-radius: .4rem; overflow-x: auto }}
</style>
</head>
<body>
<main>
<h1>Sederunt</h1>
<p class="lead">The session server for AI agents. It is running.</p>
<dl>
<dt>Version</dt><dd>{version}</dd>
<dt>Store</dt><dd>{store}</dd>
<dt>Access</dt><dd>{who}</dd>
</dl>
<nav aria-label="Where to go on">
<ul>
<li><a href="/openapi.json">The API document (OpenAPI)</a></li>
<li><a href="{docs}">Documentation</a></li>
<li><a href="/healthz">Health</a></li>
<li><a href="/readyz">Readiness</a></li>{open}
</ul>
</nav>
<h2 id="first">Open a first session</h2>
<pre tabindex="0" role="region" aria-labelledby="first">curl {base}/api/sessions \{key}
  -H 'Content-Type: application/json' \
  -d '{{"session_type": "mixed", "title": "First sitting"}}'</pre>
</main>
</body>
</html>
"#
    )
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(auth: &'static str) -> String {
        home(&ServerInfo { auth, store: "sqlite <3>".into(), base_url: "http://127.0.0.1:7070".into() })
    }

    #[test]
    fn the_page_says_what_runs_here_and_needs_nothing_else() {
        let page = page("local");
        assert!(page.contains(env!("CARGO_PKG_VERSION")) && page.contains("sqlite &lt;3&gt;"));
        assert!(page.contains("href=\"/openapi.json\""));
        for from_elsewhere in ["<script", "<link", "<img", "src=", "url(", "@import"] {
            assert!(!page.contains(from_elsewhere), "{from_elsewhere}");
        }
    }

    #[test]
    fn a_browser_is_shown_only_what_it_can_open() {
        for (auth, open) in [("local", true), ("keys", false), ("jwt", false)] {
            let page = page(auth);
            assert_eq!(page.contains("href=\"/metrics\""), open, "{auth}");
            assert_eq!(page.contains("href=\"/api/sessions\""), open, "{auth}");
            assert_eq!(page.contains("Authorization: Bearer"), !open, "{auth}");
        }
    }
}
