//! The HTTP routes for a program that serves them among its own (feature `http`).

use axum::Router;
use sederunt_core::error::{Error, Result};
use sederunt_server::{Auth, ServerConfig, mount};

pub use sederunt_server::{CallerIdentity, Rates, StreamTimes};

use crate::Sederunt;

impl Sederunt {
    /// The routes of `docs/API.md`, to be nested under a path of your own. `base_url` is the address of that path as your
    /// users see it; links to forms begin with it.
    ///
    /// Your authentication says who calls: it puts a [`CallerIdentity`] into the extensions of the request, for example
    /// with [`acting_for`](Sederunt::acting_for). A request without one needs an API key or a share link, and is refused
    /// with 401 otherwise. An identity is believed as long as a stream is open, and pages of other origins are not
    /// refused here: both are up to your authentication.
    ///
    /// ```
    /// use axum::{Router, extract::Request, middleware::{Next, from_fn}};
    /// use sederunt::{Actor, SourceKind, http::CallerIdentity};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> sederunt::Result<()> {
    /// let mut store = sederunt::open("memory:").await?;
    /// let routes = store.router("https://shop.example/sessions")?;
    /// let identified = routes.layer(from_fn(async |mut request: Request, next: Next| {
    ///     // Look at the request's cookie or token here, and refuse strangers.
    ///     let owner = Actor::local(SourceKind::Api);
    ///     request.extensions_mut().insert(CallerIdentity(owner.into()));
    ///     next.run(request).await
    /// }));
    /// let app: Router = Router::new().nest("/sessions", identified);
    /// # drop(app);
    /// store.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn router(&mut self, base_url: &str) -> Result<Router> {
        let config = ServerConfig {
            auth: Auth::Keys,
            public_url: Some(base_url.to_owned()),
            conversations: Some(self.conversations.clone()),
            ..ServerConfig::default()
        };
        let refused = |error: sederunt_server::ConfigError| Error::invalid("base_url", error.to_string());
        let mounted = mount(self.engine.clone(), &config).map_err(refused)?;
        let router = mounted.router();
        self.mounted.push(mounted);
        Ok(router)
    }
}
