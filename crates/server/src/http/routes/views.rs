//! Views: define, publish, list, read, change; show them to respondents, and take the answers.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use axum::{Extension, Json};
use http::{HeaderMap, StatusCode, header};
use sederunt_api::wire::definitions::{
    DefinitionListQuery, DefinitionsQuery, NewView, PatchView, View, ViewList,
};
use sederunt_api::wire::people::{ViewLink, ViewLinkRequest};
use sederunt_api::wire::session::ShareQuery;
use sederunt_api::wire::view::{
    Accepted, AnswerList, AnswersQuery, AskedView, Lead, Submit, ViewView, WholeView, WholeViewPage,
};
use sederunt_core::definitions::{self, read};
use sederunt_core::engine::{Submission, ViewDisplay};
use sederunt_core::ids::UserId;
use sederunt_core::view;
use sederunt_core::{Error, SessionId, limits};

use crate::http::auth::Caller;
use crate::http::body::{Input, Text, form_fields};
use crate::http::error::{RequestError, Result};
use crate::http::form::Entered;
use crate::http::path::PathName;
use crate::http::query::Params;
use crate::http::respondent::{check_embedding, cookie, with_cookie};
use crate::http::{App, Peer, form};

/// Define or publish a view
///
/// With `session_id` and the `epoch` of the caller's claim, the session publishes the view: it takes answers from now
/// on, and `url` is its link. The same request again gives the same link. Without `session_id` the view is defined
/// and not published.
#[utoipa::path(
    post, path = "/api/views", operation_id = "create_view", tag = "library", request_body = NewView,
    responses((status = 201, description = "Defined", body = View))
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    text: Text,
) -> Result<(StatusCode, Json<WholeView>)> {
    check_embedding(&app, &text.json())?;
    let (publisher, body) = publisher(&text.json())?;
    let (id, wish) = read::<definitions::View>(&body)?;
    let made = match publisher {
        None => app.engine.define(&caller.actor, id.as_deref(), wish, text.key).await?.into(),
        Some((session, epoch)) => {
            let made =
                app.engine.publish(&caller.actor, &session, epoch, id.as_deref(), wish, text.key).await?;
            WholeView::published(made, &app.about.base_url)
        }
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Make a link to a view
///
/// Without `user_id`, for owners and the view's maker: a link by which anyone responds to a view that takes responses.
/// With `user_id`, for owners: a personal link by which one member answers the view in a browser without signing in. It
/// ends too when the user is suspended. Each opens its view and nothing else, until it expires or is revoked
/// (`DELETE /api/shares/{id}`). A closed view keeps its links: they show that it is closed, and work again once it is open.
#[utoipa::path(
    post, path = "/api/views/{id}/share", operation_id = "share_view", tag = "library",
    params(("id" = String, Path, description = "The view")), request_body = ViewLinkRequest,
    responses((status = 201, description = "The link", body = ViewLink))
)]
pub async fn share(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    input: Input<ViewLinkRequest>,
) -> Result<(StatusCode, Json<ViewLink>)> {
    let user = input.body.user_id.as_deref().map(UserId::parse).transpose()?;
    let unsaid = if user.is_some() { limits::PERSONAL_LINK_LIFE } else { limits::VIEW_LINK_LIFE };
    let life = input.body.expires_in.map_or(unsaid, Duration::from_secs);
    let made = app.engine.share_view(&caller.actor, &id, user.as_ref(), life, input.key).await?;
    Ok((StatusCode::CREATED, Json(ViewLink::of(made, &app.about.base_url))))
}

/// The claim under which a view is published, and the rest of the body.
fn publisher(
    body: &sederunt_core::json::Json,
) -> Result<(Option<(SessionId, u64)>, sederunt_core::json::Json), Error> {
    if !body.is_object() {
        return Ok((None, body.clone()));
    }
    let mut fields = body.fields();
    let mut take = |name: &str| {
        let at = fields.iter().position(|(key, value)| key == name && value.as_str() != "null")?;
        Some(fields.remove(at).1)
    };
    let (session, epoch) = (take("session_id"), take("epoch"));
    let claim = match (session, epoch) {
        (None, None) => None,
        (Some(_), None) => return Err(Error::invalid("epoch", "is required: a session's worker publishes")),
        (None, Some(_)) => return Err(Error::invalid("session_id", "is required beside `epoch`")),
        (Some(session), Some(epoch)) => {
            let text: String = session.read().map_err(|_| Error::invalid("session_id", "must be text"))?;
            let epoch = epoch.read().map_err(|_| Error::invalid("epoch", "must be a whole number"))?;
            Some((SessionId::parse(&text).map_err(|_| Error::NotFound)?, epoch))
        }
    };
    let rest = fields.iter().filter(|(key, _)| key != "epoch").map(|(key, value)| (key.as_str(), value));
    Ok((claim, sederunt_core::json::Json::object(rest)))
}

/// List views
#[utoipa::path(
    get, path = "/api/views", operation_id = "list_views", tag = "library", params(DefinitionsQuery),
    responses((status = 200, description = "A page, newest first", body = ViewList))
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<DefinitionsQuery>,
) -> Result<Json<WholeViewPage>> {
    let DefinitionListQuery { filters, after, limit } = query.into();
    let page = app.engine.definitions(&caller.actor, filters, after, limit).await?;
    Ok(Json(page.into()))
}

/// Read a view
///
/// Owners, workers and its creator see the whole view. Respondents see its questions and nothing of the session; with
/// gate `lead`, after they have given name and email.
#[utoipa::path(
    get, path = "/api/views/{id}", operation_id = "get_view", tag = "library",
    params(("id" = String, Path, description = "The view"), ShareQuery),
    responses((status = 200, description = "The view", body = ViewView))
)]
pub async fn get(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Result<Response> {
    let shown = app.engine.view(&caller.actor, &id, cookie(&headers, &id)).await?;
    let (view, cookie) = ViewView::of(shown, &app.about.base_url);
    if cookie.is_some() {
        app.counters.new_respondent(&caller, address(peer))?;
    }
    Ok(with_cookie(Json(view).into_response(), &app, &caller, &id, cookie).await?)
}

/// Change a view
///
/// Given fields are replaced, `null` clears a field. A published view keeps its questions; `publish_config` opens and
/// closes it.
#[utoipa::path(
    patch, path = "/api/views/{id}", operation_id = "patch_view", tag = "library",
    params(("id" = String, Path, description = "The view")), request_body = PatchView,
    responses((status = 200, description = "Changed", body = View))
)]
pub async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    text: Text,
) -> Result<Json<WholeView>> {
    check_embedding(&app, &text.json())?;
    let changed = app.engine.redefine(&caller.actor, &id, &text.json(), text.key).await?;
    Ok(Json(WholeView::from(changed)))
}

/// List the answers to a view
///
/// From the log of its session, oldest first.
#[utoipa::path(
    get, path = "/api/views/{id}/answers", operation_id = "list_answers", tag = "library",
    params(("id" = String, Path, description = "The view"), AnswersQuery),
    responses((status = 200, description = "A page, oldest first", body = AnswerList))
)]
pub async fn answers(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(asked): Params<AnswersQuery>,
) -> Result<Json<AnswerList>> {
    Ok(Json(app.engine.answers(&caller.actor, &id, asked.after.unwrap_or(0), asked.limit).await?.into()))
}

/// Give a respondent's name and email
///
/// For a view with gate `lead`. The server creates an entity of type `lead` for the respondent and sets a cookie that
/// names it.
#[utoipa::path(
    post, path = "/api/views/{id}/lead", operation_id = "clear_lead", tag = "library",
    params(("id" = String, Path, description = "The view")), request_body = Lead,
    responses((status = 200, description = "The view with its questions", body = AskedView))
)]
pub async fn lead(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    peer: Option<Extension<Peer>>,
    input: Input<Lead>,
) -> Result<Response> {
    app.counters.new_respondent(&caller, address(peer))?;
    app.counters.lead(&caller)?;
    let lead = view::Lead::try_from(input.body)?;
    let cookie = app.engine.clear_lead(&caller.actor, &id, &lead).await?;
    let shown = app.engine.view(&caller.actor, &id, Some(&cookie)).await?;
    let (view, _) = ViewView::of(shown, &app.about.base_url);
    Ok(with_cookie(Json(view).into_response(), &app, &caller, &id, Some(cookie)).await?)
}

/// Answer a view
///
/// Each respondent answers once: the same answer again is 200 and changes nothing, another one is 409
/// `already_answered`. A session that waits for the view continues with the answer; otherwise the next claim carries
/// it.
#[utoipa::path(
    post, path = "/api/views/{id}/submit-interaction", operation_id = "submit_interaction", tag = "library",
    params(("id" = String, Path, description = "The view")), request_body = Submit,
    responses((status = 200, description = "Received", body = Accepted))
)]
pub async fn submit(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    input: Input<Submit>,
) -> Result<Response> {
    let (key, wish) = (input.key, Submission::try_from(input.body)?);
    app.counters.new_respondent(&caller, address(peer))?;
    if wish.lead.is_some() {
        app.counters.lead(&caller)?;
    }
    let done = app.engine.submit(&caller.actor, &id, cookie(&headers, &id), &wish, key).await?;
    let answer = Json(Accepted::from(&done)).into_response();
    Ok(with_cookie(answer, &app, &caller, &id, done.cookie).await?)
}

/// Open a view in a browser
///
/// The page to which a view's link leads.
#[utoipa::path(
    get, path = "/views/{id}", operation_id = "view_page", tag = "library",
    params(("id" = String, Path, description = "The view"), ShareQuery),
    responses((status = 200, description = "An HTML page for people", body = String, content_type = "text/html; charset=utf-8"))
)]
pub async fn page(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    Params(()): Params<()>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Result<Response> {
    let shown = app.engine.view(&caller.actor, &id, cookie(&headers, &id)).await?;
    let (html, cookie) = match shown {
        ViewDisplay::Whole { view, asked: None, .. } => (form::whole(&view), None),
        ViewDisplay::Whole { asked: Some(opened), .. } | ViewDisplay::Asked(opened) => {
            (form::asked(&opened, &Entered::saved(&opened)), opened.cookie.clone())
        }
    };
    if cookie.is_some() {
        app.counters.new_respondent(&caller, address(peer))?;
    }
    let page = guarded(&app, &caller, &id, Html(html).into_response()).await?;
    Ok(with_cookie(page, &app, &caller, &id, cookie).await?)
}

/// Send the form of a view without a script
///
/// What the page of a view sends where its script does not run: the fields of the form by their names. The answer is
/// the page again: as it stands after the answer was received, or with what is wrong.
#[utoipa::path(
    post, path = "/views/{id}", operation_id = "submit_view_page", tag = "library",
    params(("id" = String, Path, description = "The view"), ShareQuery),
    request_body(content = String, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Received: the page of the view says so"))
)]
pub async fn submit_page(
    State(app): State<App>,
    caller: Caller,
    PathName(id): PathName<String>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let (uri, sent) = (&parts.uri, cookie(&parts.headers, &id));
    let opened = match app.engine.view(&caller.actor, &id, sent).await? {
        ViewDisplay::Whole { asked: Some(opened), .. } | ViewDisplay::Asked(opened) => *opened,
        ViewDisplay::Whole { asked: None, .. } => return Err(Error::NotFound.into()),
    };
    app.counters.new_respondent(&caller, address(peer))?;
    let fields = form_fields(&parts, body).await?;
    let (values, done) = match &opened.view {
        Some(view) => {
            let mut values = form::values(&view.questions, fields);
            if view.response.is_none() {
                values.retain(|_, value| !value.is_null());
            }
            let wish = Submission { values: sederunt_core::json::Json::of(&values)?, lead: None };
            let done = app.engine.submit(&caller.actor, &id, sent, &wish, None).await.map(|done| done.cookie);
            (values, done)
        }
        None => {
            app.counters.lead(&caller)?;
            let values = form::values(&[], fields);
            let given = |name: &str| values.get(name).and_then(|value| value.as_str()).unwrap_or_default();
            let done = match view::Lead::new(given("name"), given("email")) {
                Ok(lead) => app.engine.clear_lead(&caller.actor, &id, &lead).await.map(Some),
                Err(error) => Err(error),
            };
            (values, done)
        }
    };
    match done {
        Ok(cookie) => {
            let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
            let shown = format!("{}{query}", uri.path().rsplit('/').next().unwrap_or_default());
            let response = (StatusCode::SEE_OTHER, [(header::LOCATION, shown)]).into_response();
            Ok(with_cookie(response, &app, &caller, &id, cookie).await?)
        }
        Err(error @ (Error::Invalid { .. } | Error::TooLarge { .. })) => {
            let questions = opened.view.as_ref().map_or(&[][..], |view| &view.questions);
            let entered = Entered { wrong: Some(form::in_words(questions, &error)), values };
            let page = Html(form::asked(&opened, &entered));
            let response = (RequestError::from(error).status(), page).into_response();
            let page = guarded(&app, &caller, &id, response).await?;
            Ok(with_cookie(page, &app, &caller, &id, opened.cookie).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Read the script of the view page
#[utoipa::path(
    get, path = "/assets/view-form.js", operation_id = "view_form_script", tag = "library", security(()),
    responses((status = 200, description = "A script", body = String, content_type = "text/javascript; charset=utf-8"))
)]
pub async fn script(Params(()): Params<()>) -> Response {
    form::asset(form::SCRIPT, "text/javascript; charset=utf-8")
}

/// Read the style sheet of the view page
#[utoipa::path(
    get, path = "/assets/view-form.css", operation_id = "view_form_style", tag = "library", security(()),
    responses((status = 200, description = "A style sheet", body = String, content_type = "text/css; charset=utf-8"))
)]
pub async fn style(Params(()): Params<()>) -> Response {
    form::asset(form::STYLE, "text/css; charset=utf-8")
}

/// The address that a request came from.
pub(super) fn address(peer: Option<Extension<Peer>>) -> Option<IpAddr> {
    peer.map(|Extension(Peer(address))| address)
}

/// The page of a view, for its own site and for those that may show it in a frame.
async fn guarded(app: &App, caller: &Caller, id: &str, page: Response) -> Result<Response, Error> {
    let origins = app.engine.embed_origins(&caller.actor.tenant, id).await?;
    Ok(form::guarded(page, &origins))
}
