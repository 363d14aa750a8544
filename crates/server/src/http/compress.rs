//! Compresses JSON answers for clients that accept it. An answer is compressed whole and at the fastest level; streams and
//! exports, whose length is not known, and answers that are small are sent as they are.

use std::io::Write as _;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use super::JSON;
use super::encoding::Encoding;

/// A shorter answer fits into one packet anyway.
const BYTES_MIN: u64 = 1_024;
/// A longer one is compressed on a thread of its own, so that it holds up no other request.
const INLINE_MAX: usize = 64 * 1024;
/// Brotli's second-fastest level: smaller than gzip's fastest, at about the same cost.
const BROTLI_QUALITY: u32 = 1;
const BROTLI_WINDOW: u32 = 19;
const BROTLI_BUFFER: usize = 16 * 1024;

/// The answer in this encoding, if it is one to compress.
pub async fn compressed(encoding: Encoding, response: Response) -> Response {
    if !is_compressible(&response) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // The body is in memory already: its length is known.
    let Ok(whole) = body.collect().await else {
        head.status = StatusCode::INTERNAL_SERVER_ERROR;
        return Response::from_parts(head, Body::empty());
    };
    let plain = whole.to_bytes();
    let packed = if plain.len() <= INLINE_MAX {
        pack(encoding, &plain)
    } else {
        let whole = plain.clone();
        tokio::task::spawn_blocking(move || pack(encoding, &whole)).await.ok().flatten()
    };
    head.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(packed) = packed else { return Response::from_parts(head, Body::from(plain)) };
    head.headers.insert(header::CONTENT_ENCODING, encoding.name());
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(packed))
}

fn is_compressible(response: &Response) -> bool {
    let headers = response.headers();
    response.body().size_hint().exact().is_some_and(|length| length >= BYTES_MIN)
        && headers.get(header::CONTENT_TYPE) == Some(&JSON)
        && !headers.contains_key(header::CONTENT_ENCODING)
}

/// `None` where it could not be compressed.
fn pack(encoding: Encoding, plain: &Bytes) -> Option<Vec<u8>> {
    let room = Vec::with_capacity(plain.len() / 4);
    match encoding {
        Encoding::Gzip => {
            let mut to = GzEncoder::new(room, Compression::fast());
            to.write_all(plain).ok()?;
            to.finish().ok()
        }
        Encoding::Brotli => {
            let mut to = brotli::CompressorWriter::new(room, BROTLI_BUFFER, BROTLI_QUALITY, BROTLI_WINDOW);
            to.write_all(plain).ok()?;
            Some(to.into_inner())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    async fn answered(encoding: Encoding, kind: HeaderValue, body: Body) -> (Option<String>, Vec<u8>) {
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        let response = compressed(encoding, response).await;
        let name = response.headers().get(header::CONTENT_ENCODING);
        let name = name.map(|name| name.to_str().unwrap().to_owned());
        (name, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    fn rows(bytes: usize) -> Vec<u8> {
        br#"{"id":"0198c5d2","status":"running"},"#.iter().copied().cycle().take(bytes).collect()
    }

    #[tokio::test]
    async fn an_answer_is_read_back_as_it_was() {
        for bytes in [1_024, 60_000, 64 * 1024 + 1, 3_000_000] {
            let plain = rows(bytes);
            let (name, packed) = answered(Encoding::Gzip, JSON, plain.clone().into()).await;
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).unwrap();
            assert!(name.as_deref() == Some("gzip") && read == plain && packed.len() < plain.len() / 3);
            let (name, packed) = answered(Encoding::Brotli, JSON, plain.clone().into()).await;
            let mut read = Vec::new();
            brotli::Decompressor::new(&packed[..], 4_096).read_to_end(&mut read).unwrap();
            assert!(name.as_deref() == Some("br") && read == plain && packed.len() < plain.len() / 3);
        }
    }

    #[tokio::test]
    async fn what_is_small_or_streamed_or_no_json_is_sent_as_it_is() {
        let events = HeaderValue::from_static("text/event-stream");
        let stream = || {
            Body::from_stream(futures_util::stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from(
                rows(9_000),
            ))]))
        };
        for (kind, body) in [
            (JSON, Body::from(rows(1_023))),
            (JSON, stream()),
            (events.clone(), stream()),
            (events, Body::from(rows(9_000))),
        ] {
            let (name, sent) = answered(Encoding::Gzip, kind, body).await;
            assert!(name.is_none() && [1_023, 9_000].contains(&sent.len()), "{name:?}");
        }
    }
}
