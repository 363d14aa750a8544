//! The listener: accepts connections, serves them, and lets them end when the server stops.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sederunt_core::engine::Engine;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tower::Service;

use crate::config::{ConfigError, ServerConfig};
use crate::http::{self, App, Patient, Peer, Phase};
use crate::workers;

/// Connections that may wait to be accepted: a thousand clients that come at once are not turned away.
const BACKLOG: u32 = 8192;
/// How long a client may take for the head of a request, and a kept connection may be idle.
const HEAD_READ_MAX: Duration = Duration::from_secs(75);
/// Bytes that a connection may buffer in each direction; with the smallest one an idle stream stays
/// within its budget, and a head larger than this is refused.
const CONNECTION_BUFFER_BYTES: usize = 16 * 1024;
/// The pause after the system refused a connection, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
    config: ServerConfig,
    phase: watch::Sender<Phase>,
}

impl Server {
    /// Checks the configuration and opens the port. Nothing is served before [`Server::run`].
    pub async fn bind(engine: Engine, config: ServerConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let listen = |error| ConfigError::Listen(config.listen, error);
        let listener = open(config.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let store = match engine.store().vitals().await {
            Ok(vitals) => format!("{} {}", vitals.kind, vitals.server_version),
            Err(_) => "not reachable".to_owned(),
        };
        let (phase, watched) = watch::channel(Phase::Serving);
        let app = App::new(engine, &config, store, address, watched)?;
        Ok(Self { listener, address, app, config, phase })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is there; then takes nothing new, ends streams, lets open requests
    /// finish for a while, and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, app, config, phase, .. } = self;
        let stall_max = config.streams.stall_max;
        let workers = workers::start(&app, &config);
        let talker = app.talker.clone();
        let router = http::router(app);
        // Every connection holds a sender: when the last is gone, all connections are.
        let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        // Answers are written whole: waiting for more would only delay them.
                        let _ = stream.set_nodelay(true);
                        let stream = Patient::new(stream, stall_max);
                        tokio::spawn(serve(stream, peer, router.clone(), phase.subscribe(), open.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(target: "sederunt::http", %error, "the listener could not accept a connection; it goes on");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        drop(open);
        phase.send_replace(Phase::Draining);
        if tokio::time::timeout(config.drain_max, all_closed.recv()).await.is_err() {
            tracing::warn!(target: "sederunt::http", "the time for shutting down is over; requests that are still open are cut");
            phase.send_replace(Phase::Closed);
            all_closed.recv().await;
        }
        talker.drain(config.drain_max).await;
        workers.stop().await;
        if !config.finalize_max.is_zero()
            && let Err(error) = talker.end_all(config.finalize_max).await
        {
            tracing::warn!(target: "sederunt::talk", code = error.code(), "open sittings could not be ended; they end when the store is opened again");
        }
    }
}

fn open(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn serve(
    stream: Patient<TcpStream>,
    peer: SocketAddr,
    router: Router,
    mut phase: watch::Receiver<Phase>,
    _open: mpsc::Sender<Infallible>,
) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer.ip()));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_READ_MAX)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                _ = phase.wait_for(|phase| *phase > Phase::Draining) => return,
            }
        }
    };
    if let Err(error) = ended {
        // Clients go away in the middle of things; that is theirs to do.
        tracing::debug!(target: "sederunt::http", %error, "a connection broke off");
    }
}
