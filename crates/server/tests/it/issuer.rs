//! Somebody who issues tokens and publishes the keys to check them with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A key that signs tokens.
pub struct Signer {
    pub name: &'static str,
    pub public: Value,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    pub fn rs256(name: &'static str) -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        Self::new(name, Algorithm::RS256, EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap())
    }

    pub fn es256(name: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::new(name, Algorithm::ES256, EncodingKey::from_ec_der(pair.unwrap().as_ref()))
    }

    fn new(name: &'static str, algorithm: Algorithm, key: EncodingKey) -> Self {
        let mut public = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
        public["kid"] = json!(name);
        Self { name, public, algorithm, key }
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(self.algorithm, Some(self.name), claims)
    }

    /// Signs by another algorithm of the same family, or names another key.
    pub fn sign_as(&self, algorithm: Algorithm, name: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: name.map(str::to_owned), ..Header::new(algorithm) };
        encode(&header, claims, &self.key).unwrap()
    }
}

/// The server that publishes a key set. It answers each connection once.
pub struct Issuer {
    pub url: String,
    asked: Arc<AtomicUsize>,
    says: Arc<Mutex<String>>,
}

impl Issuer {
    pub async fn publishing(keys: &[&Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Self {
            url: format!("http://{}/keys", listener.local_addr().unwrap()),
            asked: Arc::default(),
            says: Arc::default(),
        };
        issuer.publish(keys);
        let (asked, says) = (issuer.asked.clone(), issuer.says.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                asked.fetch_add(1, Ordering::SeqCst);
                let answer = says.lock().clone();
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        issuer
    }

    /// Replaces the key set.
    pub fn publish(&self, keys: &[&Value]) {
        let body = json!({ "keys": keys }).to_string();
        let length = body.len();
        self.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"));
    }

    pub fn say(&self, answer: String) {
        *self.says.lock() = answer;
    }

    /// How often it was asked for its keys.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
