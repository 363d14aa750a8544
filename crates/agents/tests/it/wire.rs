//! A server that says exactly the bytes it was told to say, and remembers what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Patience of a test for something that is about to happen.
pub const SOON: Duration = Duration::from_secs(30);

/// How long after a stop was asked for the work has ended, on a machine that does other things too. It takes a few
/// milliseconds; whatever waited for a heartbeat would take ten seconds.
pub const STOP_HEARD: Duration = Duration::from_secs(1);

/// How one connection is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These bytes, then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing, until the other side goes away.
    Hang(Vec<u8>),
}

impl Answer {
    /// A status with a body.
    pub fn status(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::Bytes(
            format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
            )
            .into_bytes(),
        )
    }

    /// A whole event stream, its frames in chunks of their own.
    pub fn stream(frames: &[&str]) -> Self {
        Self::Bytes([stream_bytes(frames), b"0\r\n\r\n".to_vec()].concat())
    }

    /// An event stream that breaks off without an end.
    pub fn cut(frames: &[&str]) -> Self {
        Self::Bytes(stream_bytes(frames))
    }

    /// An event stream that falls silent.
    pub fn silent(frames: &[&str]) -> Self {
        Self::Hang(stream_bytes(frames))
    }
}

/// An answer in JSON.
pub fn ok(body: &str) -> Answer {
    Answer::status(200, "content-type: application/json\r\n", body)
}

fn stream_bytes(frames: &[&str]) -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for frame in frames {
        bytes.extend_from_slice(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes());
    }
    bytes
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub head: String,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

#[derive(Debug)]
pub struct Server {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    gone: mpsc::UnboundedReceiver<()>,
}

impl Server {
    /// Answers the first connection with the first answer, and so on; later ones are closed at once.
    pub async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (tell, gone) = mpsc::unbounded_channel();
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            for answer in answers {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, answer, Arc::clone(&seen), tell.clone()));
            }
        });
        Self { address, asked, gone }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until a client has hung up on a server that was still holding the line.
    pub async fn client_is_gone(&mut self) {
        tokio::time::timeout(SOON, self.gone.recv()).await.expect("the connection was not closed").unwrap();
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Answer,
    seen: Arc<Mutex<Vec<Asked>>>,
    gone: mpsc::UnboundedSender<()>,
) {
    match read_request(&mut stream).await {
        Some(asked) => seen.lock().unwrap().push(asked),
        None => {
            let _ = gone.send(());
            return;
        }
    }
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answer::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let mut rest = [0; 64];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
            let _ = gone.send(());
        }
    }
}

/// Reads one whole request; `None` when the other side goes away before.
pub async fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
            return Some(Asked { head, body: body.to_owned() });
        }
    }
}
