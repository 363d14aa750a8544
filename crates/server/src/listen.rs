//! The listener: accepts connections, serves them, and lets them end when the server stops.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sederunt_agents::talk::Conversations;
use sederunt_core::engine::Engine;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tower::Service;

use crate::config::{Auth, ConfigError, ServerConfig};
use crate::connections::{BusyBody, ConnectionCaps, Connections, Marker, NO_PLACE, Placed, Slot};
use crate::http::{self, App, DrainRule, Patient, Peer, Phase, UnreadBody};
use crate::proxies::TrustedProxies;
use crate::workers;

/// Connections that may wait to be accepted: a thousand clients that connect at once are not refused.
const BACKLOG: u32 = 8192;
/// How long a kept connection may be idle. A head that has begun has less time: see [`ConnectionCaps`].
const IDLE_MAX: Duration = Duration::from_secs(75);
/// Bytes that a connection may buffer in each direction; with the smallest one an idle stream stays
/// within its budget, and a head larger than this is refused.
const CONNECTION_BUFFER_BYTES: usize = 16 * 1024;
/// The pause after the system refused a connection, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Refused connections are logged no more often than this.
const REFUSALS_LOGGED_EVERY: Duration = Duration::from_secs(1);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
    conversations: Conversations,
    config: ServerConfig,
    phase: watch::Sender<Phase>,
}

impl Server {
    /// Checks the configuration and opens the port. Nothing is served before [`Server::run`].
    pub async fn bind(engine: Engine, mut config: ServerConfig) -> Result<Self, ConfigError> {
        config.check()?;
        for doubt in config.doubts() {
            tracing::warn!(target: "sederunt", "{doubt}");
        }
        let listen = |error| ConfigError::Listen(config.listen, error);
        let listener = open(config.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let store = match engine.vitals().await {
            Ok(vitals) if matches!(config.auth, Auth::Local) => {
                format!("{} {}", vitals.kind, vitals.server_version)
            }
            // Strangers are not told which version runs here.
            Ok(vitals) => vitals.kind.to_string(),
            Err(_) => "not reachable".to_owned(),
        };
        let (phase, watched) = watch::channel(Phase::Serving);
        let conversations =
            config.conversations.take().map_or_else(|| http::plain_conversations(&engine), Ok)?;
        config.conversations = Some(conversations.clone());
        let app = App::new(engine, &config, store, address, watched, true)?;
        Ok(Self { listener, address, app, conversations, config, phase })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` resolves; then accepts nothing new, ends streams, lets open requests finish for a
    /// while, and returns.
    pub fn run<'a>(
        self,
        shutdown: impl Future<Output = ()> + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.run_until(Box::pin(shutdown))
    }

    /// Boxed and without type parameters, so that the connection loop is compiled in this crate, with its
    /// optimisation, and not in each crate that runs a server.
    fn run_until<'a>(
        self,
        shutdown: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.serve_until(shutdown))
    }

    async fn serve_until(self, mut shutdown: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        let Self { listener, app, conversations, config, phase, .. } = self;
        let drain = DrainRule {
            stall_max: config.streams.stall_max,
            window: config.streams.drain_window,
            bytes_per_second_min: config.streams.drain_bytes_per_second_min,
        };
        let workers = workers::start(&app, &conversations, &config);
        let router = http::router(app);
        let per_address = config.connections.per_address.filter(|_| !matches!(config.auth, Auth::Local));
        let caps = ConnectionCaps { per_address, ..config.connections };
        let proxies = Arc::new(config.trusted_proxies.clone());
        let connections = Arc::new(Connections::new(caps, config.trusted_proxies.clone()));
        let mut ticks = tokio::time::interval(connections.tick_every());
        let mut refusals = RefusalLog::default();
        // Every connection holds a sender: when all senders are gone, all connections are closed.
        let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                _ = ticks.tick() => connections.tick(),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let Some(slot) = connections.open(peer.ip()) else {
                            let _ = stream.try_write(NO_PLACE);
                            refusals.log("all places are taken by connections that are busy");
                            continue;
                        };
                        // Answers are written whole: delaying small writes would only slow them down.
                        let _ = stream.set_nodelay(true);
                        let service = ConnectionService {
                            router: router.clone(),
                            peer,
                            proxies: proxies.trusts(peer.ip()).then(|| proxies.clone()),
                            marker: slot.marker(),
                            unread: UnreadBody::default(),
                        };
                        tokio::spawn(serve(stream, slot, drain, service, phase.subscribe(), open.clone()));
                    }
                    Err(error) => {
                        refusals.log(&error.to_string());
                        connections.make_room();
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        drop(open);
        phase.send_replace(Phase::Draining);
        if tokio::time::timeout(config.drain_max, all_closed.recv()).await.is_err() {
            tracing::warn!(target: "sederunt::http", "the time for shutting down is over; requests that are still open are cut, and their callers have to ask again");
            phase.send_replace(Phase::Closed);
            all_closed.recv().await;
        }
        conversations.drain(config.drain_max).await;
        workers.stop().await;
        if !config.finalize_max.is_zero()
            && let Err(error) = conversations.end_all(config.finalize_max).await
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

/// Logs that connections were refused, at most once a second.
#[derive(Debug, Default)]
struct RefusalLog {
    said: Option<Instant>,
    unsaid: u64,
}

impl RefusalLog {
    fn log(&mut self, reason: &str) {
        if self.said.is_some_and(|said| said.elapsed() < REFUSALS_LOGGED_EVERY) {
            self.unsaid += 1;
            return;
        }
        let others = std::mem::take(&mut self.unsaid);
        self.said = Some(Instant::now());
        tracing::warn!(
            target: "sederunt::http",
            reason,
            others,
            "the server did not accept a connection; the client has to try again"
        );
    }
}

/// Answers the requests of one connection.
struct ConnectionService {
    router: Router,
    peer: SocketAddr,
    /// The trusted proxies, if the peer is one of them.
    proxies: Option<Arc<TrustedProxies>>,
    marker: Marker,
    unread: UnreadBody,
}

impl ConnectionService {
    fn answer(
        &self,
        request: hyper::Request<hyper::body::Incoming>,
    ) -> impl Future<Output = Result<hyper::Response<BusyBody>, Infallible>> + use<> {
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let peer = match &self.proxies {
            None => self.peer.ip(),
            Some(proxies) => proxies.caller(self.peer.ip(), request.headers()),
        };
        let mut request = request.map(|body| axum::body::Body::new(self.unread.watch(body)));
        request.extensions_mut().insert(Peer(peer));
        let (marker, unread) = (self.marker.clone(), self.unread.clone());
        let begun = marker.connection.begin();
        let reserved = marker.connection.reserved;
        let overloaded = reserved && !http::tells_health(request.uri().path());
        let answering =
            if overloaded { Err(http::overloaded(&request)) } else { Ok(self.router.clone().call(request)) };
        async move {
            if !begun {
                // The connection is being closed to make room.
                std::future::pending::<()>().await;
            }
            let mut response = match answering {
                Ok(answering) => answering.await?,
                Err(overloaded) => overloaded,
            };
            unread.settle(expects_continue, &mut response).await;
            if reserved {
                response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| marker.busy(body)))
        }
    }
}

async fn serve(
    stream: TcpStream,
    slot: Slot,
    drain: DrainRule,
    service: ConnectionService,
    mut phase: watch::Receiver<Phase>,
    _open: mpsc::Sender<Infallible>,
) {
    let tracked = slot.connection.clone();
    let stream = Patient::new(Placed::new(stream, slot), drain);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| service.answer(request)))
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => None,
        () = tracked.closed() => return,
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
    tracked.keep_busy();
    if let Err(error) = ended {
        // Clients may close a connection at any time; that is no fault.
        tracing::debug!(target: "sederunt::http", %error, "a connection broke off");
    }
}
