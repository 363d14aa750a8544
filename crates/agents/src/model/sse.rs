//! Parses server-sent events from bytes as they arrive: chunks may end anywhere, even inside a character.

use super::Error;
use crate::limits;

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub event: String,
    pub data: String,
}

/// Takes chunks and returns whole events. An event that is unfinished when the stream ends is dropped.
#[derive(Debug, Default)]
pub(super) struct Parser {
    buffer: Vec<u8>,
    read: usize,
    building: Frame,
    has_data: bool,
}

impl Parser {
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event, or `None` until more was fed.
    pub fn next(&mut self) -> Result<Option<Frame>, Error> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                let frame = std::mem::take(&mut self.building);
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(frame));
                }
                continue;
            }
            self.field(&line);
            if self.building.data.len() > limits::FRAME_BYTES_MAX {
                return Err(TOO_LARGE);
            }
        }
        Ok(None)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.building.event),
            "data" => {
                if self.has_data {
                    self.building.data.push('\n');
                }
                self.building.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
    }

    /// The next line without its end: LF, CR LF or CR. A CR that ends the buffer waits for what follows it.
    fn line(&mut self) -> Result<Option<String>, Error> {
        let rest = &self.buffer[self.read..];
        let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            return if rest.len() > limits::FRAME_BYTES_MAX { Err(TOO_LARGE) } else { Ok(None) };
        };
        let ending = match (rest[end], rest.get(end + 1)) {
            (b'\r', None) => return Ok(None),
            (b'\r', Some(b'\n')) => 2,
            _ => 1,
        };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| Error::Malformed { what: "not UTF-8" })?;
        let line = line.to_owned();
        self.read += end + ending;
        Ok(Some(line))
    }
}

const TOO_LARGE: Error = Error::Malformed { what: "a frame is too large" };

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]]) -> Result<Vec<(String, String)>, Error> {
        let mut parser = Parser::default();
        let mut frames = Vec::new();
        for chunk in chunks {
            parser.feed(chunk);
            while let Some(frame) = parser.next()? {
                frames.push((frame.event, frame.data));
            }
        }
        Ok(frames)
    }

    fn frame(event: &str, data: &str) -> (String, String) {
        (event.to_owned(), data.to_owned())
    }

    #[test]
    fn events_are_read_by_the_rules_of_the_format() {
        let cases: [(&str, Vec<(String, String)>); 8] = [
            ("data: a\n\n", vec![frame("", "a")]),
            ("event: x\ndata: a\ndata:b\n\n", vec![frame("x", "a\nb")]),
            (": a comment\n\nevent: alone\n\ndata: a\n\n", vec![frame("", "a")]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec![frame("", "a"), frame("", "b")]),
            ("data: a\r\rdata: b\r\rx", vec![frame("", "a"), frame("", "b")]),
            ("data:  two spaces\n\n", vec![frame("", " two spaces")]),
            ("data\n\n", vec![frame("", "")]),
            ("data: begun", vec![]),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&[text.as_bytes()]).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_and_frames_without_end_are_refused() {
        assert_eq!(read(&[b"data: \xff\n"]), Err(Error::Malformed { what: "not UTF-8" }));
        let endless = vec![b'x'; limits::FRAME_BYTES_MAX + 1];
        assert_eq!(read(&[&endless]), Err(TOO_LARGE));
        let line = format!("data: {}\n", "x".repeat(limits::FRAME_BYTES_MAX / 2));
        assert_eq!(read(&[line.as_bytes(), line.as_bytes(), line.as_bytes()]), Err(TOO_LARGE));
    }

    proptest! {
        #[test]
        fn where_the_chunks_end_does_not_matter(cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let text = "event: é\r\ndata: ü1\r\n\r\n: ping\n\ndata: ж2\ndata: 三\n\n".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&text[from..cut]);
                from = cut;
            }
            chunks.push(&text[from..]);
            prop_assert_eq!(read(&chunks).unwrap(), vec![frame("é", "ü1"), frame("", "ж2\n三")]);
        }
    }
}
