//! A subscriber: reads an event stream and checks every sequence. Thousands of them share one thread and one buffer.

use std::cell::RefCell;
use std::io::BufRead as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::load::{Target, connect};

const READY_WITHIN: Duration = Duration::from_secs(30);

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 * 1024]);
}

/// An open stream that has received `ready`.
pub struct Subscriber {
    stream: TcpStream,
    chunks: Chunks,
    lines: Lines,
}

impl Subscriber {
    /// Opens the stream and waits until it is live.
    pub async fn open(target: &Target, path: &str, after: u64) -> Result<Self> {
        let mut request = Vec::new();
        target.get(path, &mut request);
        let mut stream = connect(target.addr).await?;
        stream.write_all(&request).await?;
        let mut subscriber = Self { stream, chunks: Chunks::default(), lines: Lines::after(after) };
        let ready = async {
            while !subscriber.lines.ready {
                subscriber.take().await?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(READY_WITHIN, ready).await.context("the stream never said `ready`")??;
        Ok(subscriber)
    }

    /// Waits for events; returns when they came and how many there were: the last ones up to [`Self::last`].
    pub async fn take(&mut self) -> Result<(Instant, u64)> {
        loop {
            self.stream.readable().await?;
            let before = self.lines.last;
            let at = Instant::now();
            let read = SCRATCH.with_borrow_mut(|scratch| match self.stream.try_read(scratch) {
                Ok(0) => bail!("the stream ended after {}", self.lines.last),
                Ok(read) => {
                    self.chunks.push(&scratch[..read], |data| self.lines.push(data))?;
                    Ok(true)
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error.into()),
            })?;
            if read {
                return Ok((at, self.lines.last - before));
            }
        }
    }

    /// The last sequence seen; all before it came, once each and in order.
    pub fn last(&self) -> u64 {
        self.lines.last
    }

    /// Keeps the events that come from now on, for [`Self::kept_events`].
    pub fn keep_events(&mut self) {
        self.lines.events = Some(Vec::new());
    }

    /// The kept events, as they came.
    pub fn kept_events(&mut self) -> Vec<Vec<u8>> {
        self.lines.events.take().unwrap_or_default()
    }

    /// How much of the unfinished reply was received, in bytes.
    pub fn reply_bytes(&self) -> usize {
        self.lines.reply_bytes
    }
}

/// A piece of an unfinished reply.
#[derive(serde::Deserialize)]
struct Delta {
    text: String,
    offset: usize,
}

/// Strips the head of the answer and the chunk sizes from a body.
#[derive(Default)]
struct Chunks {
    past_head: bool,
    left: usize,
    /// Bytes of an incomplete line.
    kept: Vec<u8>,
}

impl Chunks {
    fn push(&mut self, bytes: &[u8], mut on_data: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let joined;
        let mut rest = bytes;
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.kept);
            rest = &joined;
        }
        if !self.past_head {
            let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
                self.kept = rest.to_vec();
                return Ok(());
            };
            ensure!(rest.get(9..12) == Some(b"200"), "{}", String::from_utf8_lossy(rest));
            self.past_head = true;
            rest = &rest[end + 4..];
        }
        while !rest.is_empty() {
            if self.left > 0 {
                let data = &rest[..self.left.min(rest.len())];
                on_data(data)?;
                self.left -= data.len();
                rest = &rest[data.len()..];
                continue;
            }
            // The line break after a chunk, then the size of the next one.
            let start = usize::from(rest.starts_with(b"\r\n")) * 2;
            let Some(end) = rest[start..].iter().position(|byte| *byte == b'\n') else {
                self.kept = rest.to_vec();
                return Ok(());
            };
            let size = std::str::from_utf8(&rest[start..start + end])?.trim();
            self.left = usize::from_str_radix(size, 16).with_context(|| format!("chunk size {size:?}"))?;
            ensure!(self.left > 0, "the stream was ended by the server");
            rest = &rest[start + end + 1..];
        }
        Ok(())
    }
}

/// Reads the lines of an event stream: sequences must be dense, and so must the pieces of a reply; `ready` is noted,
/// all else is skipped.
struct Lines {
    last: u64,
    ready: bool,
    in_delta: bool,
    reply_bytes: usize,
    kept: Vec<u8>,
    /// The data of events, if they are kept.
    events: Option<Vec<Vec<u8>>>,
    has_id: bool,
}

impl Lines {
    fn after(last: u64) -> Self {
        Self {
            last,
            ready: false,
            in_delta: false,
            reply_bytes: 0,
            kept: Vec::new(),
            events: None,
            has_id: false,
        }
    }

    fn push(&mut self, data: &[u8]) -> Result<()> {
        let joined;
        let mut rest = data;
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(data);
            joined = std::mem::take(&mut self.kept);
            rest = &joined;
        }
        while !rest.is_empty() {
            let line = rest;
            let length = rest.skip_until(b'\n')?;
            if line[length - 1] != b'\n' {
                self.kept.extend_from_slice(line);
                return Ok(());
            }
            self.line(&line[..length - 1])?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<()> {
        if let Some(id) = line.strip_prefix(b"id:") {
            let sequence: u64 = std::str::from_utf8(id)?.trim().parse().context("an id that is no number")?;
            ensure!(sequence == self.last + 1, "after {} came {sequence}", self.last);
            self.last = sequence;
            self.has_id = true;
        } else if let Some(event) = line.strip_prefix(b"event:") {
            let event = event.trim_ascii();
            self.ready |= event == b"ready";
            self.in_delta = event == b"delta";
            ensure!(event != b"gap", "the stream reported a gap after {}", self.last);
        } else if let Some(data) = line.strip_prefix(b"data:")
            && std::mem::take(&mut self.has_id)
        {
            if let Some(events) = &mut self.events {
                events.push(data.to_vec());
            }
        } else if let Some(data) = line.strip_prefix(b"data:")
            && std::mem::take(&mut self.in_delta)
        {
            let Delta { text, offset } = serde_json::from_slice(data)?;
            let known = self.reply_bytes;
            ensure!(offset == 0 || offset == known, "after {known} bytes of a reply came those at {offset}");
            self.reply_bytes = offset + text.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
        18\r\nid: 8\ndata: {}\n\nid: 9\nda\r\n8\r\nta: {}\n\n\r\nE\r\nevent: ready\n\n\r\n8\r\nid: 10\n\n\r\n";

    fn feed(pieces: &[&[u8]], after: u64) -> Result<Lines> {
        let (mut chunks, mut lines) = (Chunks::default(), Lines::after(after));
        for piece in pieces {
            chunks.push(piece, |data| lines.push(data))?;
        }
        Ok(lines)
    }

    #[test]
    fn a_stream_is_understood_wherever_it_is_cut() {
        for cut in 0..STREAM.len() {
            let lines = feed(&[&STREAM[..cut], &STREAM[cut..]], 7).unwrap();
            assert!(lines.ready && lines.last == 10, "{cut}");
        }
    }

    #[test]
    fn pieces_of_a_reply_are_added_up_and_a_hole_is_noticed() {
        let piece =
            |offset: usize| format!("event: delta\ndata: {{\"text\":\"Rain\",\"offset\":{offset}}}\n\n");
        let mut lines = Lines::after(0);
        for offset in [0, 4, 8] {
            lines.push(piece(offset).as_bytes()).unwrap();
        }
        assert_eq!(lines.reply_bytes, 12);
        assert!(lines.push(piece(16).as_bytes()).is_err());
    }

    #[test]
    fn lost_doubled_and_reordered_events_are_noticed() {
        assert!(feed(&[STREAM], 6).is_err());
        assert!(feed(&[STREAM], 8).is_err());
        let head = b"HTTP/1.1 200 OK\r\n\r\n";
        assert!(feed(&[head, b"1d\r\nid: 1\ndata: a\n\nid: 3\ndata: b\n\r\n"], 0).is_err());
        assert!(feed(&[b"HTTP/1.1 404 Not Found\r\n\r\n{}"], 0).is_err());
    }
}
