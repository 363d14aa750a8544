//! The routes without a listener, for a program that mounts them among its own.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::upgrade::OnUpgrade;
use sederunt_agents::background::Background;
use sederunt_core::engine::Engine;
use tokio::sync::watch;
use tower::{Service, service_fn};

use crate::config::{ConfigError, ServerConfig};
use crate::http::{self as routes, App, CallerIdentity, Peer, Phase};
use crate::workers;

/// Routes that serve until they are closed or dropped.
#[derive(Debug)]
pub struct Mounted {
    router: Router,
    phase: watch::Sender<Phase>,
    upkeep: Background,
}

/// Makes the routes. Of the configuration, what belongs to a listener is not used; `public_url` is where the program has
/// mounted them, and links begin with it. A request is made by its [`CallerIdentity`], if the program has put one
/// into its extensions, and by its credential otherwise.
pub fn mount(engine: Engine, config: &ServerConfig) -> Result<Mounted, ConfigError> {
    config.check()?;
    let (phase, watched) = watch::channel(Phase::Serving);
    let app = App::new(engine, config, String::new(), config.listen, watched, false)?;
    let mut upkeep = Background::default();
    workers::keep_up(&mut upkeep, &app, config);
    let inner = routes::router(app);
    let service = service_fn(move |request: Request<Body>| {
        let mut inner = inner.clone();
        async move { inner.call(unrouted(request)).await }
    });
    let router = Router::new().route_service("/", service.clone()).route_service("/{*path}", service);
    Ok(Mounted { router, phase, upkeep })
}

impl Mounted {
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Ends open streams. Requests that come later are still answered, as long as the store is open.
    pub async fn close(self) {
        self.phase.send_replace(Phase::Closed);
        self.upkeep.stop().await;
    }
}

/// A request as if nothing had routed it before: the routes are told apart by their own paths, not by those under which
/// the program has mounted them.
fn unrouted(request: Request<Body>) -> Request<Body> {
    let (mut head, body) = request.into_parts();
    let mut given = std::mem::take(&mut head.extensions);
    if let Some(identity) = given.remove::<CallerIdentity>() {
        head.extensions.insert(identity);
    }
    if let Some(ConnectInfo(peer)) = given.remove::<ConnectInfo<SocketAddr>>() {
        head.extensions.insert(Peer(peer.ip()));
    }
    if let Some(upgrade) = given.remove::<OnUpgrade>() {
        head.extensions.insert(upgrade);
    }
    Request::from_parts(head, body)
}
