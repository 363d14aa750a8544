//! What stand-ins for other people's servers are made of: a request read from a connection, and numbers that a seed
//! draws.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Reads one whole request, in lower case. `None`: the other side went away before.
pub async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    while !is_whole(&text) {
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8(text).unwrap().to_lowercase())
}

pub fn header<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let length = header(&text, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length)
}

/// Waits until whoever called hangs up.
pub async fn hung_up(stream: &mut TcpStream) {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

/// The next number of a seed (splitmix64).
pub fn drawn(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
