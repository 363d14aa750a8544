//! Names for sessions in logs that must not lead back to them. A plain hash of `cli:main` can be guessed, so by
//! default computing a name takes the installation's key.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::TenantId;

/// The name of a session in the crisis log and in ratings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpaqueId(Arc<str>);

impl OpaqueId {
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How an installation makes them.
#[derive(Clone)]
pub enum Opaque {
    /// HMAC-SHA-256 of tenant and session under the installation's key.
    Keyed([u8; 32]),
    /// SHA-256 of the session id alone, as older exports have it.
    Sha256,
}

/// The name for a session without an id.
const NAMELESS: &str = "unknown-session";

impl Opaque {
    pub fn of(&self, tenant: &TenantId, session: &str) -> OpaqueId {
        let session = if session.is_empty() { NAMELESS } else { session };
        let digest = match self {
            Self::Keyed(key) => {
                // The length keeps ("a", "bc") and ("ab", "c") apart.
                let length = (tenant.as_str().len() as u64).to_be_bytes();
                hmac_sha256(key, &[&length, tenant.as_str().as_bytes(), session.as_bytes()])
            }
            Self::Sha256 => Sha256::digest(session.as_bytes()).into(),
        };
        OpaqueId(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyed(_) => "Keyed(…)",
            Self::Sha256 => "Sha256",
        })
    }
}

/// RFC 2104 for keys of up to one block.
pub(crate) fn hmac_sha256(key: &[u8; 32], message: &[&[u8]]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(to, from)| *to ^= from);
        block
    };
    let mut inner = Sha256::new_with_prefix(padded(0x36));
    message.iter().for_each(|part| inner.update(part));
    Sha256::new_with_prefix(padded(0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_mac_is_the_one_of_the_published_vectors() {
        // RFC 4231, cases 1 and 2: a shorter key is one padded with zeros.
        let mut key = [0u8; 32];
        key[..20].fill(0x0b);
        assert_eq!(
            hex(&hmac_sha256(&key, &[b"Hi ", b"There"])),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        let mut key = [0u8; 32];
        key[..4].copy_from_slice(b"Jefe");
        assert_eq!(
            hex(&hmac_sha256(&key, &[b"what do ya want for nothing?"])),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_keyed_id_depends_on_key_tenant_and_session() {
        let tenant = TenantId::stored("default");
        let ids = [
            Opaque::Keyed([1; 32]).of(&tenant, "cli:main"),
            Opaque::Keyed([2; 32]).of(&tenant, "cli:main"),
            Opaque::Keyed([1; 32]).of(&TenantId::stored("other"), "cli:main"),
            Opaque::Keyed([1; 32]).of(&TenantId::stored("defaultc"), "li:main"),
            Opaque::Keyed([1; 32]).of(&tenant, "cli:other"),
            Opaque::Sha256.of(&tenant, "cli:main"),
        ];
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(id.as_str().len(), 64);
            assert!(!ids[..n].contains(id), "{n}");
        }
        assert_eq!(Opaque::Keyed([1; 32]).of(&tenant, "cli:main"), ids[0]);
    }

    #[test]
    fn the_plain_form_is_the_hash_of_the_session_id() {
        let tenant = TenantId::stored("default");
        assert_eq!(
            Opaque::Sha256.of(&tenant, "abc").as_str(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(Opaque::Sha256.of(&tenant, ""), Opaque::Sha256.of(&tenant, NAMELESS));
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", Opaque::Keyed([7; 32])), "Keyed(…)");
    }
}
