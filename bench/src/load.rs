//! A lean HTTP/1.1 client: keep-alive connections, requests written by hand, all on one thread, because it shares the
//! cores with what it measures. Every status is checked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::rounds::{Latencies, Sample};

const BUFFER_BYTES: usize = 64 * 1024;
/// A server that is silent for this long is taken for dead.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The address of the requests, and their key.
#[derive(Clone, Debug)]
pub struct Target {
    pub addr: SocketAddr,
    headers: Arc<str>,
}

impl Target {
    pub fn new(addr: SocketAddr, key: Option<&str>) -> Self {
        let auth = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        Self { addr, headers: format!("host: {addr}\r\n{auth}").into() }
    }

    pub fn get(&self, path: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"GET ");
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(self.headers.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    pub fn post(&self, path: &str, body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"POST ");
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(self.headers.as_bytes());
        out.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
        out.extend_from_slice(body.len().to_string().as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }

    pub async fn connect(&self) -> Result<Connection> {
        Ok(Connection::over(connect(self.addr).await?))
    }
}

/// Connects without Nagle's delay.
pub async fn connect(addr: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(addr).await.with_context(|| format!("nobody listens on {addr}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One keep-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// The body of an answer with this status, as JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&self, status: u16) -> Result<T> {
        ensure!(self.status == status, "status {}: {}", self.status, self.text());
        Ok(serde_json::from_slice(self.body)?)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).into_owned()
    }
}

impl Connection {
    fn over(stream: TcpStream) -> Self {
        Self { stream, buffer: vec![0; BUFFER_BYTES] }
    }

    /// Sends one whole request and waits for its whole answer.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let head = loop {
            filled += self.more(filled).await?;
            if let Some(head) = Head::parse(&self.buffer[..filled])? {
                break head;
            }
        };
        let end = head.bytes + head.body_bytes;
        if end > self.buffer.len() {
            self.buffer.resize(end, 0);
        }
        while filled < end {
            filled += self.more(filled).await?;
        }
        ensure!(filled == end, "the server said more than it was asked for");
        Ok(Answer { status: head.status, body: &self.buffer[head.bytes..end] })
    }

    async fn more(&mut self, filled: usize) -> Result<usize> {
        let read = self.stream.read(&mut self.buffer[filled..]).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(read)
    }
}

struct Head {
    status: u16,
    bytes: usize,
    body_bytes: usize,
}

impl Head {
    /// `None` until the answer is complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end])?;
        let status = text.get(9..12).and_then(|digits| digits.parse().ok()).context("no status line")?;
        let length = text.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let body_bytes = match length {
            Some(length) => length,
            None if status == 204 => 0,
            None => bail!("an answer without a length: {text}"),
        };
        Ok(Some(Self { status, bytes: end + 4, body_bytes }))
    }
}

/// How many requests, over how many connections.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    pub connections: usize,
    /// Requests in all.
    pub count: u64,
    /// A slow disk ends the round here instead.
    pub cap: Duration,
    pub expect: u16,
}

/// The result of a load.
#[derive(Debug, Default)]
pub struct Driven {
    pub answered: u64,
    /// Answers with an unexpected status, and the text of the first of them.
    pub refused: u64,
    pub first_refusal: Option<String>,
    pub took: Duration,
    pub latencies: Latencies,
}

impl Driven {
    /// The sample of a round in which every answer must have been the expected one; each request counts `each`.
    pub fn sample(mut self, each: u64) -> Result<Sample> {
        ensure!(
            self.refused == 0,
            "{} of {} were refused, the first with {}",
            self.refused,
            self.answered + self.refused,
            self.first_refusal.unwrap_or_default()
        );
        Ok(Sample::new(self.answered * each, self.took, &mut self.latencies))
    }
}

/// Sends `count` requests over the connections, each as soon as the one before it was answered. `write` puts the nth
/// request into the buffer.
pub fn drive(
    target: &Target,
    drive: Drive,
    write: impl Fn(u64, &mut Vec<u8>) + Send + Sync + 'static,
) -> Result<Driven> {
    single_threaded()?.block_on(async {
        let write = Arc::new(write);
        let tickets = Arc::new(AtomicU64::new(0));
        let mut connections = Vec::with_capacity(drive.connections);
        for _ in 0..drive.connections {
            connections.push(target.connect().await?);
        }
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for connection in connections {
            let (write, tickets) = (write.clone(), tickets.clone());
            tasks.spawn(async move { ask_all(connection, drive, start, &tickets, &*write).await });
        }
        let mut all = Driven::default();
        while let Some(done) = tasks.join_next().await {
            let done = done??;
            all.answered += done.answered;
            all.refused += done.refused;
            all.first_refusal = all.first_refusal.or(done.first_refusal);
            all.latencies.join(done.latencies);
        }
        all.took = start.elapsed();
        Ok(all)
    })
}

async fn ask_all(
    mut connection: Connection,
    drive: Drive,
    start: Instant,
    tickets: &AtomicU64,
    write: &(impl Fn(u64, &mut Vec<u8>) + Send + Sync),
) -> Result<Driven> {
    let mut done = Driven::default();
    let mut request = Vec::with_capacity(1024);
    while start.elapsed() < drive.cap {
        let nth = tickets.fetch_add(1, Ordering::Relaxed);
        if nth >= drive.count {
            break;
        }
        request.clear();
        write(nth, &mut request);
        let sent = Instant::now();
        let answer = tokio::time::timeout(ANSWER_WITHIN, connection.ask(&request)).await;
        let answer = answer.context("no answer")??;
        if answer.status == drive.expect {
            done.answered += 1;
            done.latencies.add(sent.elapsed());
        } else {
            done.refused += 1;
            let said = format!("{}: {}", answer.status, answer.text());
            done.first_refusal.get_or_insert(said);
        }
    }
    Ok(done)
}

/// The runtime of every load generator: one thread, so that the cores stay with what is measured.
pub fn single_threaded() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
        for cut in 0..text.len() - 3 {
            assert!(Head::parse(&text[..cut]).unwrap().is_none(), "{cut}");
        }
        let head = Head::parse(text).unwrap().unwrap();
        assert_eq!((head.status, head.bytes, head.body_bytes), (201, text.len() - 3, 3));
    }
}
