//! What a worker needs to make a call again with a person's input: sealed, since a called server may have put anything
//! into it. Only the installation opens it, and only for the session whose run it was sealed for.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use crate::error::{Error, Result};
use crate::limits;
use crate::safety::opaque::hmac_sha256;
use crate::session::Session;

/// Seals a call for the run of a session.
pub fn seal(installation_key: &[u8; 32], session: &Session, call: &str) -> Result<String> {
    if call.len() > limits::ELICITATION_BYTES_MAX {
        return Err(Error::TooLarge { what: "elicitation", limit: limits::ELICITATION_BYTES_MAX });
    }
    let mut sealed = call.as_bytes().to_vec();
    let nonce = key(installation_key)?
        .seal_in_place_append_tag(bound_to(session), &mut sealed)
        .map_err(Error::internal)?;
    Ok(BASE64.encode([nonce.as_ref().as_slice(), &sealed].concat()))
}

/// Opens what was sealed for the run of this session.
pub fn open(installation_key: &[u8; 32], session: &Session, sealed: &str) -> Result<String> {
    let unreadable = || Error::internal("a parked call cannot be opened");
    let bytes = BASE64.decode(sealed).map_err(|_| unreadable())?;
    let (nonce, text) = bytes.split_at_checked(NONCE_LEN).ok_or_else(unreadable)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| unreadable())?;
    let mut text = text.to_vec();
    let opened = key(installation_key)?.open_in_place(nonce, bound_to(session), &mut text);
    let opened = opened.map_err(|_| unreadable())?;
    String::from_utf8(opened.to_vec()).map_err(|_| unreadable())
}

fn key(installation_key: &[u8; 32]) -> Result<RandomizedNonceKey> {
    let derived = hmac_sha256(installation_key, &[b"calls that wait for input\0"]);
    RandomizedNonceKey::new(&AES_256_GCM, &derived).map_err(Error::internal)
}

/// One life of one session: what was sealed for another is not opened.
fn bound_to(session: &Session) -> Aad<Vec<u8>> {
    let tenant = session.tenant.as_str().as_bytes();
    let length = (tenant.len() as u64).to_be_bytes();
    Aad::from([&length, tenant, session.head.incarnation.0.as_bytes().as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Incarnation, RandomIds, SessionId, TenantId};
    use crate::session::{Details, Head, SessionSource, SessionType, SourceKind, Status};
    use crate::store::NewSession;
    use crate::time::Timestamp;

    fn session(tenant: &str) -> Session {
        let head = Head::blank(Incarnation::drawn(&RandomIds), SessionType::Tool, Status::Running, None);
        let details = Details::blank(SessionSource::direct(SourceKind::Api, true));
        let new = NewSession {
            id: SessionId::stored("s"),
            head: head.clone(),
            details,
            participants: Vec::new(),
            fork_of: None,
        };
        new.made(TenantId::stored(tenant), head, Timestamp::from_micros(0))
    }

    #[test]
    fn a_sealed_call_is_opened_for_its_own_session_alone() {
        let (key, own) = ([7; 32], session("t"));
        let sealed = seal(&key, &own, r#"{"state":"opaque"}"#).unwrap();
        assert!(!sealed.contains("opaque"));
        assert_ne!(sealed, seal(&key, &own, r#"{"state":"opaque"}"#).unwrap(), "no nonce comes twice");
        assert_eq!(open(&key, &own, &sealed).unwrap(), r#"{"state":"opaque"}"#);
        assert!(open(&[8; 32], &own, &sealed).is_err(), "another installation");
        assert!(open(&key, &session("t"), &sealed).is_err(), "another life of the session");
        let moved = Session { tenant: TenantId::stored("u"), ..own.clone() };
        assert!(open(&key, &moved, &sealed).is_err(), "another tenant");
        let mut changed = sealed.into_bytes();
        changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
        assert!(open(&key, &own, &String::from_utf8(changed).unwrap()).is_err());
        assert!(open(&key, &own, "").is_err());
    }

    #[test]
    fn a_call_meets_its_limit_and_is_refused_one_past() {
        let own = session("t");
        let sealed = seal(&[7; 32], &own, &"x".repeat(limits::ELICITATION_BYTES_MAX)).unwrap();
        assert_eq!(open(&[7; 32], &own, &sealed).unwrap().len(), limits::ELICITATION_BYTES_MAX);
        assert!(seal(&[7; 32], &own, &"x".repeat(limits::ELICITATION_BYTES_MAX + 1)).is_err());
    }
}
