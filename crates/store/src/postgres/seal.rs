//! Seals notifications between nodes. PostgreSQL lets every login of a database listen to every channel and notify on
//! it, so a notification is encrypted and authenticated with a key that only this installation's roles can read.
//!
//! Each start of a node draws a name and derives its own key from it. Its messages are numbered, and the number is
//! the nonce, so no nonce is used twice. A number that was received before is a replay and is refused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use sederunt_core::Error;
use uuid::Uuid;

/// The sender's name and the number of the message, in front of the sealed text.
const HEADER_BYTES: usize = 16 + 8;
const TAG_BYTES: usize = 16;
/// NOTIFY takes payloads below 8000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_999;
/// The longest text whose sealed payload the server still takes: base64 makes four characters of three bytes.
pub(super) const SEALED_TEXT_MAX: usize = PAYLOAD_BYTES_MAX / 4 * 3 - HEADER_BYTES - TAG_BYTES;
/// Nodes whose last message number is kept. Beyond it all numbers are dropped, and one replay of each node could
/// pass.
const NODES_MAX: usize = 4_096;

/// The secret that all nodes of an installation share.
#[derive(Clone, Debug)]
pub(super) struct WakeSecret(hmac::Key);

impl WakeSecret {
    /// Derived from the installation's key, for this purpose only.
    pub(super) fn of(installation_key: &[u8], schema: &str) -> Self {
        let installation = hmac::Key::new(hmac::HMAC_SHA256, installation_key);
        let mut context = hmac::Context::with_key(&installation);
        context.update(b"wake-ups between nodes\0");
        context.update(schema.as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref()))
    }

    fn key_of(&self, node: Uuid) -> Result<LessSafeKey, Error> {
        let derived = hmac::sign(&self.0, node.as_bytes());
        UnboundKey::new(&AES_256_GCM, derived.as_ref()).map(LessSafeKey::new).map_err(Error::internal)
    }
}

/// Seals the messages of this node.
#[derive(Debug)]
pub(super) struct WakeSealer {
    pub(super) node: Uuid,
    key: LessSafeKey,
    sent: AtomicU64,
}

impl WakeSealer {
    pub(super) fn new(secret: &WakeSecret) -> Result<Self, Error> {
        let node = Uuid::now_v7();
        Ok(Self { node, key: secret.key_of(node)?, sent: AtomicU64::new(0) })
    }

    pub(super) fn seal(&self, text: &str) -> Result<String, Error> {
        let number = 1 + self.sent.fetch_add(1, Ordering::Relaxed);
        let mut sealed = text.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(nonce(number), Aad::empty(), &mut sealed)
            .map_err(Error::internal)?;
        let mut message = Vec::with_capacity(HEADER_BYTES + sealed.len());
        message.extend_from_slice(self.node.as_bytes());
        message.extend_from_slice(&number.to_be_bytes());
        message.extend_from_slice(&sealed);
        Ok(BASE64.encode(message))
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The result of opening a payload.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// A message of another node of this installation.
    Text { node: Uuid, text: String },
    /// A message of this node.
    Own,
    /// Not sealed with the installation's key, or a replay.
    Refused,
}

/// Opens the messages of other nodes.
#[derive(Debug)]
pub(super) struct WakeOpener {
    own: Uuid,
    secret: WakeSecret,
    /// The number of the last message of each node.
    heard: HashMap<Uuid, u64>,
}

impl WakeOpener {
    pub(super) fn new(own: Uuid, secret: WakeSecret) -> Self {
        Self { own, secret, heard: HashMap::new() }
    }

    pub(super) fn open(&mut self, payload: &str) -> Opened {
        self.read(payload).unwrap_or(Opened::Refused)
    }

    fn read(&mut self, payload: &str) -> Option<Opened> {
        let mut message = BASE64.decode(payload).ok()?;
        let (header, sealed) = message.split_at_mut_checked(HEADER_BYTES)?;
        let node = Uuid::from_slice(&header[..16]).ok()?;
        let number = u64::from_be_bytes(header[16..].try_into().ok()?);
        if node == self.own {
            return Some(Opened::Own);
        }
        if self.heard.get(&node).is_some_and(|last| number <= *last) {
            return None;
        }
        let key = self.secret.key_of(node).ok()?;
        let text = key.open_in_place(nonce(number), Aad::empty(), sealed).ok()?;
        let text = std::str::from_utf8(text).ok()?.to_owned();
        if self.heard.len() >= NODES_MAX {
            self.heard.clear();
        }
        self.heard.insert(node, number);
        Some(Opened::Text { node, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> WakeSecret {
        WakeSecret::of(&[byte; 32], "sederunt")
    }

    #[test]
    fn a_payload_tells_nothing_in_clear_and_is_opened_once_by_others() {
        let sealer = WakeSealer::new(&secret(1)).unwrap();
        let mut opener = WakeOpener::new(Uuid::nil(), secret(1));
        let payload = sealer.seal("acme\tmerger talks").unwrap();
        assert!(!payload.contains("acme"));
        assert!(!BASE64.decode(&payload).unwrap().windows(4).any(|part| part == b"acme"));
        let text = Opened::Text { node: sealer.node, text: "acme\tmerger talks".into() };
        assert_eq!(opener.open(&payload), text);
        assert_eq!(opener.open(&payload), Opened::Refused, "a replay");
        assert_eq!(WakeOpener::new(sealer.node, secret(1)).open(&payload), Opened::Own);
    }

    #[test]
    fn what_was_not_sealed_with_the_key_is_refused() {
        let payload = WakeSealer::new(&secret(1)).unwrap().seal("w").unwrap();
        let mut bent = BASE64.decode(&payload).unwrap();
        *bent.last_mut().unwrap() ^= 1;
        let mut renamed = BASE64.decode(&payload).unwrap();
        renamed[0] ^= 1;
        let mut renumbered = BASE64.decode(&payload).unwrap();
        renumbered[HEADER_BYTES - 1] ^= 2;
        let of_another_key = WakeSealer::new(&secret(2)).unwrap().seal("w").unwrap();
        let of_another_schema = WakeSecret::of(&[1; 32], "other");
        let of_another_schema = WakeSealer::new(&of_another_schema).unwrap().seal("w").unwrap();
        for forged in [
            "",
            "w\nnode",
            "AAAA",
            &BASE64.encode(bent),
            &BASE64.encode(renamed),
            &BASE64.encode(renumbered),
            &of_another_key,
            &of_another_schema,
        ] {
            let mut opener = WakeOpener::new(Uuid::nil(), secret(1));
            assert_eq!(opener.open(forged), Opened::Refused, "{forged}");
            assert!(matches!(opener.open(&payload), Opened::Text { .. }), "the real one is still heard");
        }
    }

    #[test]
    fn the_longest_text_still_fits_into_a_notification() {
        let sealer = WakeSealer::new(&secret(1)).unwrap();
        assert!(sealer.seal(&"x".repeat(SEALED_TEXT_MAX)).unwrap().len() <= PAYLOAD_BYTES_MAX);
        assert!(sealer.seal(&"x".repeat(SEALED_TEXT_MAX + 3)).unwrap().len() > PAYLOAD_BYTES_MAX);
    }
}
