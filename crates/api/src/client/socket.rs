//! WebSockets through the HTTP client: the same credentials, certificates and proxies as for every other call.

use futures_util::{SinkExt as _, StreamExt as _};
use http::{Method, StatusCode, Version, header};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{self, Message};

use super::{Client, ClientResponse, Error, granted};

/// A frame from a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    /// The server closed it, and may have said why.
    Closed {
        code: Option<u16>,
        reason: String,
    },
}

/// An open WebSocket.
#[derive(Debug)]
pub struct Socket(WebSocketStream<reqwest::Upgraded>);

impl Client {
    /// Opens a WebSocket. A server's refusal is an error as for every other call.
    pub async fn socket(&self, path: &str) -> Result<Socket, Error> {
        let key = generate_key();
        let http = self.transport.over_http()?;
        let request = http
            .request(Method::GET, path, self.headers())
            .version(Version::HTTP_11)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key);
        let response = request.send().await.map_err(Error::Unreachable)?;
        let ClientResponse::Http(response) = granted(ClientResponse::Http(response)).await? else {
            return Err(Error::NoListener);
        };
        let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let is_ours = accepted
            .is_some_and(|accepted| accepted.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_ours {
            return Err(Error::Strange(response.status()));
        }
        let stream = response.upgrade().await.map_err(Error::BrokenOff)?;
        Ok(Socket(WebSocketStream::from_raw_socket(stream, Role::Client, None).await))
    }
}

impl Socket {
    pub async fn send(&mut self, text: String) -> Result<(), Error> {
        self.0.send(Message::text(text)).await.map_err(broke)
    }

    /// The next frame with content. After [`Frame::Closed`] there is none.
    pub async fn next(&mut self) -> Result<Frame, Error> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Frame::Text(text.as_str().to_owned())),
                Some(Ok(Message::Close(why))) => {
                    let code = why.as_ref().map(|why| why.code.into());
                    let reason = why.map(|why| why.reason.as_str().to_owned()).unwrap_or_default();
                    return Ok(Frame::Closed { code, reason });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broke(error)),
                None => return Ok(Frame::Closed { code: None, reason: String::new() }),
            }
        }
    }
}

fn broke(error: tungstenite::Error) -> Error {
    Error::SocketBroke(Box::new(error))
}
