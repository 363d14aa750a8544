//! The encodings of answers that a client accepts.

use http::{HeaderMap, HeaderValue, header};

/// An encoding that this server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Brotli,
    Gzip,
}

impl Encoding {
    pub fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        })
    }
}

/// The best encoding that a client accepts; `None`: none but the plain answer.
pub fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let mut gzip = false;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for choice in value.to_str().unwrap_or_default().split(',') {
            let mut parts = choice.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let refused = parts.any(|part| {
                part.strip_prefix("q=").is_some_and(|weight| weight.trim_end_matches(['0', '.']).is_empty())
            });
            match name {
                _ if refused => {}
                "br" => return Some(Encoding::Brotli),
                "gzip" | "x-gzip" => gzip = true,
                _ => {}
            }
        }
    }
    gzip.then_some(Encoding::Gzip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_refuses_is_not_sent() {
        for (text, best) in [
            ("", None),
            ("gzip, deflate, br, zstd", Some(Encoding::Brotli)),
            ("gzip, deflate", Some(Encoding::Gzip)),
            ("br;q=0, gzip;q=0.5", Some(Encoding::Gzip)),
            ("br ; q=0.0,gzip;q=0", None),
            ("br;q=0.001", Some(Encoding::Brotli)),
            ("*", None),
            ("identity, bro", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(accepted(&headers), best, "{text}");
        }
        assert_eq!(accepted(&HeaderMap::new()), None);
    }
}
