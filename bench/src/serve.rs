//! The product's server without its command line, for when the binary was not built.

use std::net::SocketAddr;

use anyhow::Result;
use sederunt_server::{Auth, Server, ServerConfig};

use crate::subject::open;

/// Serves until it is asked to end; prints where it listens.
pub fn serve(listen: SocketAddr, store: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = open(store).await?;
        let config = ServerConfig { listen, auth: Auth::Keys, ..ServerConfig::default() };
        let server = Server::bind(engine.engine.clone(), config).await?;
        println!("listening on http://{}", server.local_addr());
        let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        server
            .run(async move {
                terminated.recv().await;
            })
            .await;
        engine.close().await;
        Ok(())
    })
}
