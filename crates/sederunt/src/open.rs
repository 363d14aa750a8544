//! An open store, the engine over it and the work in its background; opening, closing.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::background::{Background, RunningExecutor};
use sederunt_agents::talk::Conversations;
use sederunt_core::access::Actor;
use sederunt_core::engine::{Engine, Operator};
use sederunt_core::error::Result;
use sederunt_core::ids::{TenantId, UserId};
use sederunt_core::session::SourceKind;

use crate::Builder;

/// How long [`Sederunt::close`] lets runs and turns finish that are under way.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Opens the store at an address: a directory, `sqlite:PATH`, `memory:` or `postgres://…`. The background work starts
/// with it; [`Sederunt::builder`] has the switches.
pub async fn open(url: &str) -> Result<Sederunt> {
    Builder::default().open(url).await
}

/// An open store. Its commands are methods of [`Engine`], which it dereferences to.
///
/// End it by [`close`](Self::close), which waits for what is under way. Dropping it stops the background work; whatever
/// was acknowledged is on disk by then, and the directory is free as soon as the last clone of the engine is gone.
#[derive(Debug)]
pub struct Sederunt {
    pub(crate) engine: Engine,
    pub(crate) conversations: Conversations,
    pub(crate) background: Option<Background>,
    pub(crate) executor: Option<RunningExecutor>,
    #[cfg(feature = "http")]
    pub(crate) mounted: Vec<sederunt_server::Mounted>,
}

impl Sederunt {
    /// Chooses how a store is opened.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The engine, to be cloned into tasks.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs conversations: a message goes in, a reply comes out, and both are in the log. Without a model of your own
    /// the built-in `eliza` answers, which needs no key and no network.
    pub fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// A user of the default tenant as the caller of commands, with the role that the user has now.
    pub async fn acting_for(&self, user: &str) -> Result<Arc<Actor>> {
        self.acting_in(&TenantId::stored("default"), user).await
    }

    /// A user of a tenant as the caller of commands.
    pub async fn acting_in(&self, tenant: &TenantId, user: &str) -> Result<Arc<Actor>> {
        let program = Operator::owner_of(tenant.clone(), SourceKind::Api);
        Ok(Arc::new(self.engine.act_as(program, &UserId::parse(user)?).await?))
    }

    /// Lets runs and turns finish for ten seconds, stops the background work, finishes queued writes, and releases files
    /// and connections. What does not finish goes on from its log at the next opening.
    pub async fn close(mut self) {
        #[cfg(feature = "http")]
        for mounted in self.mounted.drain(..) {
            mounted.close().await;
        }
        if let Some(executor) = self.executor.take() {
            executor.stop(DRAIN_MAX).await;
        }
        self.conversations.drain(DRAIN_MAX).await;
        if let Some(background) = self.background.take() {
            background.stop().await;
        }
        self.engine.close().await;
    }
}

impl Deref for Sederunt {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
