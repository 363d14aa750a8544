//! Respondents who answer a view through a link: the cookie that proves one of them, and how it is read and set.

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use sederunt_api::query::unescaped;
use sederunt_core::json::Json;
use sederunt_core::view::Respondent;
use sederunt_core::view::respondent::cookie_name;
use sederunt_core::{Error, limits};
use serde_json::Value;

use super::App;
use super::auth::Caller;

/// A respondent that came through a link with the sealed cookie of the view.
#[derive(Debug)]
pub struct ProvenRespondent {
    pub view_id: Box<str>,
    pub who: Respondent,
    /// The cookie as it was sent.
    pub cookie: Box<str>,
}

/// The respondent that a request through a link proves by its cookie. A personal link proves its user itself, and a
/// cookie that is forged, expired or of another view proves nobody.
pub async fn proven(
    app: &App,
    caller: &Caller,
    route: &str,
    head: &Parts,
) -> Result<Option<Arc<ProvenRespondent>>, Error> {
    if !caller.is_share() || caller.actor.user.is_some() {
        return Ok(None);
    }
    let opened = caller.actor.view.as_deref().map(Into::into);
    let Some(view_id) = opened.or_else(|| view_in_path(route, head.uri.path())) else { return Ok(None) };
    let Some(cookie) = cookie(&head.headers, &view_id) else { return Ok(None) };
    let who = app.engine.proven_respondent(&caller.actor.tenant, &view_id, cookie).await?;
    Ok(who.map(|who| Arc::new(ProvenRespondent { cookie: cookie.into(), view_id, who })))
}

/// The view that a path names. A link to a session reaches all views of that session.
fn view_in_path(route: &str, path: &str) -> Option<Box<str>> {
    let mut names = route.split('/').zip(path.split('/'));
    names.find(|(segment, _)| *segment == "views")?;
    let (segment, name) = names.next()?;
    segment.starts_with('{').then(|| unescaped(name)).flatten().map(Into::into)
}

/// The cookie by which a respondent of this view is recognised.
pub fn cookie<'a>(headers: &'a HeaderMap, view_id: &str) -> Option<&'a str> {
    let name = cookie_name(view_id);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(given, _)| *given == name)
        .map(|(_, value)| value)
}

/// Sets the cookie by which a respondent of this view is recognised. No script can read it, and a server with TLS sets
/// it as secure. No other site sends it, unless the view is shown in frames of other sites: there a browser sends only
/// what was set for all sites, and `Partitioned` keeps a cookie of each site that shows the form.
pub async fn with_cookie(
    mut response: Response,
    app: &App,
    caller: &Caller,
    view_id: &str,
    cookie: Option<String>,
) -> Result<Response, Error> {
    let Some(cookie) = cookie else { return Ok(response) };
    let is_embedded = !app.engine.embed_origins(&caller.actor.tenant, view_id).await?.is_empty();
    let scope = match (is_embedded, is_secure(app)) {
        (true, true) => "SameSite=None; Secure; Partitioned",
        (false, true) => "SameSite=Lax; Secure",
        (_, false) => "SameSite=Lax",
    };
    let (name, life) = (cookie_name(view_id), limits::CLEARANCE_LIFE.as_secs());
    let line = format!("{name}={cookie}; Path=/; Max-Age={life}; HttpOnly; {scope}");
    if let Ok(line) = HeaderValue::from_str(&line) {
        response.headers_mut().append(header::SET_COOKIE, line);
    }
    Ok(response)
}

/// Refuses a view that names origins which may show it in a frame, on a server without TLS: browsers would not send the
/// respondent's cookie there.
pub fn check_embedding(app: &App, view: &Json) -> Result<(), Error> {
    let field =
        |of: &Json, name: &str| of.fields().into_iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let origins = Some(view)
        .filter(|view| view.is_object())
        .and_then(|view| field(view, "response"))
        .filter(Json::is_object)
        .and_then(|response| field(&response, "embed_origins"));
    match origins.map(|origins| origins.value()) {
        Some(Value::Array(origins)) if !origins.is_empty() && !is_secure(app) => Err(Error::invalid(
            "response.embed_origins",
            "needs a server whose `public_url` begins with https://",
        )),
        _ => Ok(()),
    }
}

/// Whether people reach this server by TLS.
fn is_secure(app: &App) -> bool {
    app.about.base_url.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_of_a_path_is_found_by_its_route() {
        let table = [
            ("/api/views/{id}", "/api/views/v", Some("v")),
            ("/api/views/{id}/submit-interaction", "/api/views/a%20b/submit-interaction", Some("a b")),
            ("/views/{id}", "/views/v", Some("v")),
            ("/api/views/{id}", "/api/views/%zz", None),
            ("/api/views", "/api/views", None),
            ("/api/sessions/{id}", "/api/sessions/views", None),
        ];
        for (route, path, view) in table {
            assert_eq!(view_in_path(route, path).as_deref(), view, "{route}");
        }
    }

    #[test]
    fn the_cookie_of_one_view_is_read_among_others() {
        let name = cookie_name("v");
        let headers = HeaderMap::from_iter([(
            header::COOKIE,
            format!("a=1; {}=w;  {name}=mine ; {name}=second", cookie_name("w")).parse().unwrap(),
        )]);
        assert_eq!(cookie(&headers, "v"), Some("mine"));
        assert_eq!(cookie(&headers, "w"), Some("w"));
        assert_eq!(cookie(&headers, "x"), None);
    }
}
