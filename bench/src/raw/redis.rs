//! Redis Streams with `appendfsync always`: a server of our own on a free port, and the part of its protocol that
//! XADD needs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::sqlite::Appends;
use crate::child;
use crate::load::{connect, single_threaded};
use crate::payload::{Payloads, SESSIONS};
use crate::rounds::{Latencies, Sample};

const START_WITHIN: Duration = Duration::from_secs(10);

/// A running server; it ends, and its data is removed, with this value.
pub struct Redis {
    child: Child,
    addr: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Redis {
    pub fn start(dir: &Path) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        // Bound and released again, so that the port is almost certainly free.
        let addr = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = child::command("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &addr.port().to_string(), "--daemonize", "no"])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("redis-server did not start; scripts/setup --bench installs it")?;
        let redis = Self { child, addr, _dir: dir };
        let start = Instant::now();
        while std::net::TcpStream::connect(addr).is_err() {
            ensure!(start.elapsed() < START_WITHIN, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }

    /// Appends to the streams; a batch is one pipeline. The streams are emptied afterwards.
    pub fn append(&self, payloads: &Arc<Payloads>, appends: Appends) -> Result<Sample> {
        single_threaded()?.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            let tickets = Arc::new(AtomicU64::new(0));
            let mut clients = Vec::new();
            for _ in 0..appends.producers {
                clients.push(Client { stream: connect(self.addr).await?, buffer: vec![0; 64 * 1024] });
            }
            let start = Instant::now();
            for mut client in clients {
                let (tickets, payloads) = (tickets.clone(), payloads.clone());
                tasks.spawn(async move {
                    let mut latencies = Latencies::default();
                    let mut request = Vec::new();
                    while start.elapsed() < appends.cap {
                        let nth = tickets.fetch_add(1, Ordering::Relaxed);
                        if nth >= appends.count {
                            break;
                        }
                        request.clear();
                        for n in 0..appends.batch as u64 {
                            xadd(nth % SESSIONS as u64, payloads.nth(nth + n).as_bytes(), &mut request);
                        }
                        let sent = Instant::now();
                        client.ask(&request, appends.batch).await?;
                        latencies.add(sent.elapsed());
                    }
                    anyhow::Ok(latencies)
                });
            }
            let mut all = Latencies::default();
            while let Some(done) = tasks.join_next().await {
                all.join(done??);
            }
            let (done, took) = ((all.len() * appends.batch) as u64, start.elapsed());
            self.check_and_empty(done).await?;
            Ok(Sample::new(done, took, &mut all))
        })
    }

    async fn check_and_empty(&self, done: u64) -> Result<()> {
        let mut client = Client { stream: connect(self.addr).await?, buffer: vec![0; 64 * 1024] };
        let mut stored = 0;
        for session in 0..SESSIONS as u64 {
            let mut request = Vec::new();
            command(&[b"XLEN", name(session).as_bytes()], &mut request);
            let answer = client.ask(&request, 1).await?;
            stored += String::from_utf8_lossy(answer).trim_start_matches(':').trim().parse::<u64>()?;
        }
        ensure!(stored == done, "{stored} entries stored, {done} acknowledged");
        let mut request = Vec::new();
        command(&[b"FLUSHALL"], &mut request);
        client.ask(&request, 1).await?;
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Sends commands and waits for as many answers; none may be an error.
    async fn ask(&mut self, request: &[u8], answers: usize) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "redis-server closed the connection");
            filled += read;
            let (whole, used) = whole_answers(&self.buffer[..filled])?;
            if whole == answers {
                ensure!(used == filled, "redis-server said more than it was asked for");
                return Ok(&self.buffer[..filled]);
            }
        }
    }
}

fn xadd(session: u64, content: &[u8], out: &mut Vec<u8>) {
    command(&[b"XADD", name(session).as_bytes(), b"*", b"content", content], out);
}

fn name(session: u64) -> String {
    format!("session:{session}")
}

fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// How many complete answers the bytes begin with, and how many bytes they take.
fn whole_answers(bytes: &[u8]) -> Result<(usize, usize)> {
    let (mut whole, mut at) = (0, 0);
    while let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[at..at + end + 1];
        let mut next = at + line.len();
        match line[0] {
            b'-' => anyhow::bail!("redis-server: {}", String::from_utf8_lossy(line)),
            b'$' => {
                let length: usize = std::str::from_utf8(&line[1..])?.trim().parse()?;
                next += length + 2;
            }
            _ => {}
        }
        if next > bytes.len() {
            break;
        }
        whole += 1;
        at = next;
    }
    Ok((whole, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_only_when_they_are_whole() {
        let text = b"$5\r\n1-2-3\r\n:7\r\n+OK\r\n";
        let borders = [(11, 1), (15, 2), (20, 3)];
        for cut in 0..=text.len() {
            let expected = borders.iter().filter(|(end, _)| *end <= cut).map(|(_, n)| *n).max().unwrap_or(0);
            assert_eq!(whole_answers(&text[..cut]).unwrap().0, expected, "{cut}");
        }
        assert!(whole_answers(b"-ERR no\r\n").is_err());
    }
}
