//! Connections to the database: plain on this machine, TLS to any other unless the address says `sslmode=disable`;
//! one pool per role.
//!
//! A pooled connection takes its role and search path once, after connecting. What differs between transactions is
//! set inside the transaction only.

use std::future::poll_fn;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sederunt_core::Error;
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::{Fault, Result};

/// How long a caller waits for a connection before it gets `unavailable`.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long one statement may run; deletions of whole sessions get more.
const STATEMENT_MAX: Duration = Duration::from_secs(10);
/// How long a batch waits for the lock of a session.
const LOCK_MAX: Duration = Duration::from_secs(3);
/// How long sent bytes may stay unanswered by the other machine.
const SILENCE_MAX: Duration = Duration::from_secs(8);

/// The roles that a connection may take. None of them owns a table or may bypass its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DbRole {
    /// All rows of one tenant.
    App,
    /// Keys and states of all tenants.
    Scan,
    /// Plain appends to the tenants of a batch.
    Append,
    /// Numbers of documents with certain words.
    Find,
    /// The text of unfinished replies, of the tenants of a batch.
    Relay,
    /// What one share link shows.
    Share,
    /// What people recorded before a store was copied: added while it is copied, and by no server.
    Copying,
}

impl DbRole {
    /// Those that a login takes to serve.
    const SERVING: [Self; 6] = [Self::App, Self::Scan, Self::Append, Self::Find, Self::Relay, Self::Share];
    pub(super) const ALL: [Self; 7] =
        [Self::App, Self::Scan, Self::Append, Self::Find, Self::Relay, Self::Share, Self::Copying];

    /// The end of its name.
    pub(super) const fn part(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Scan => "scan",
            Self::Append => "append",
            Self::Find => "find",
            Self::Relay => "relay",
            Self::Share => "share",
            Self::Copying => "copy",
        }
    }

    /// Its name. Roles belong to the whole server, so they carry the name of the schema: a login that may take the
    /// roles of one installation gets nothing of another's.
    pub(super) fn name(self, schema: &str) -> String {
        format!("{schema}_{}", self.part())
    }

    /// The names of all roles of an installation.
    pub(super) fn names(schema: &str) -> [String; 7] {
        Self::ALL.map(|role| role.name(schema))
    }

    /// The names of the roles that a login takes to serve.
    pub(super) fn serving_names(schema: &str) -> [String; 6] {
        Self::SERVING.map(|role| role.name(schema))
    }
}

/// The schema of a store, and those of the tables with their own retention.
pub(super) fn schemas(schema: &str) -> [String; 4] {
    ["", "_memory", "_crisis", "_feedback"].map(|apart| format!("{schema}{apart}"))
}

/// A database, and how to reach it.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    pub(super) schema: Arc<str>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("schema", &self.schema).field("tls", &self.tls.is_some()).finish()
    }
}

impl Address {
    pub(super) fn parse(url: &str, schema: &str) -> Result<Self, Error> {
        let named = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty());
        Self::parse_trusting(url, schema, named.map(PathBuf::from))
    }

    /// An address that trusts the certificate authorities in this file, unless it names a file itself.
    pub(super) fn parse_trusting(
        url: &str,
        schema: &str,
        trusted_by_default: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let wrong = |error: tokio_postgres::Error| {
            Error::invalid("store", format!("is no PostgreSQL address: {error}"))
        };
        let (url, roots_file) = without_roots_file(url)?;
        let mut config = Config::from_str(&url).map_err(wrong)?;
        let plain_name = schema.len() <= 48
            && schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !plain_name || schema.starts_with("pg_") {
            return Err(Error::invalid("schema", "must be 1 to 48 lower-case letters, digits and `_`"));
        }
        config
            .connect_timeout(CONNECT_MAX)
            .keepalives_idle(Duration::from_secs(30))
            .tcp_user_timeout(SILENCE_MAX)
            .application_name(format!("sederunt {schema}"));
        let with_tls = match config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Prefer => !is_local(&config),
            _ => true,
        };
        let tls = if with_tls {
            // With `prefer`, the driver would continue without TLS if the server says that it has none.
            config.ssl_mode(SslMode::Require);
            Some(rustls(roots_file.or(trusted_by_default))?)
        } else {
            None
        };
        Ok(Self { config, tls, schema: schema.into() })
    }

    /// The settings of a new connection, besides its role.
    fn settings(&self) -> String {
        format!(
            "SET search_path TO {}; SET statement_timeout TO {}; SET standard_conforming_strings TO on; \
             SET idle_in_transaction_session_timeout TO {}; ",
            schemas(&self.schema).join(", "),
            STATEMENT_MAX.as_millis(),
            (STATEMENT_MAX * 2).as_millis()
        )
    }

    /// A pool of connections that have taken a role.
    pub(super) fn pool(&self, role: DbRole, size: usize) -> Result<Pool, Error> {
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &self.tls {
            Some(tls) => Manager::from_config(self.config.clone(), tls.clone(), manager_config),
            None => Manager::from_config(self.config.clone(), NoTls, manager_config),
        };
        let mut settings = self.settings();
        if matches!(role, DbRole::App | DbRole::Append) {
            // Their statements read by key, for tenants of any size, so they are planned once for the average tenant.
            // A custom plan would take a tenant that is younger than the statistics for empty, and then any index
            // looks as good as the right one.
            settings.push_str("SET plan_cache_mode TO force_generic_plan; ");
            // No statement of theirs runs as long as compiling one takes.
            settings.push_str("SET jit TO off; ");
            for way in ["seqscan", "hashjoin", "mergejoin", "bitmapscan", "material"] {
                settings.push_str(&format!("SET enable_{way} TO off; "));
            }
            // Costs count the rows that a plan reads, also while there are few: a plan that reads all rows would be
            // made once and kept while they become many.
            for (cost, units) in
                [("cpu_tuple_cost", 1.0), ("cpu_index_tuple_cost", 1.0), ("random_page_cost", 0.1)]
            {
                settings.push_str(&format!("SET {cost} TO {units}; "));
            }
            // A batch asks for each key once. PostgreSQL 13 does not have this setting.
            settings.push_str(
                "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_memoize'; ",
            );
        }
        if role == DbRole::Scan {
            // This role reads and notifies; nothing that it does has to survive a crash.
            settings.push_str("SET synchronous_commit TO off; ");
        }
        if role == DbRole::Append {
            // One locked session must not delay the rest of a batch for long.
            settings.push_str(&format!("SET lock_timeout TO {}; ", LOCK_MAX.as_millis()));
        }
        settings.push_str(&format!("SET ROLE {}", role.name(&self.schema)));
        Pool::builder(manager)
            .max_size(size)
            // The connection that was used last has the warmest caches.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(CONNECT_MAX))
            .create_timeout(Some(CONNECT_MAX))
            .recycle_timeout(Some(CONNECT_MAX))
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn(move |client, _| {
                let settings = settings.clone();
                Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(Error::internal)
    }

    /// A connection outside the pools, as the login user, and the notifications that it receives.
    pub(super) async fn connect(&self) -> Result<(Client, mpsc::UnboundedReceiver<String>)> {
        let (said, heard) = mpsc::unbounded_channel();
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await.map_err(tls_refusal)?;
                drive(connection, said);
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                drive(connection, said);
                client
            }
        };
        client.batch_execute(&self.settings()).await.map_err(Fault::from)?;
        Ok((client, heard))
    }
}

/// Drives a connection and passes the payloads of its notifications on. The channel closes with it.
fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, said: mpsc::UnboundedSender<String>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message
                && said.send(note.payload().to_owned()).is_err()
            {
                break;
            }
        }
    });
}

/// Whether every address of the database is on this machine. The driver connects to `hostaddr`, whatever name is
/// given beside it.
fn is_local(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    })
}

/// Removes from an address what the driver does not know: `sslrootcert`, and modes that ask for a verified
/// certificate, which this store always does.
fn without_roots_file(url: &str) -> Result<(String, Option<PathBuf>), Error> {
    let Some((place, options)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let mut roots_file = None;
    let mut kept = Vec::new();
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("sslrootcert", "system")) => {}
            Some(("sslrootcert", path)) => roots_file = Some(PathBuf::from(percent_decoded(path)?)),
            Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
            _ => kept.push(option),
        }
    }
    let options = kept.join("&");
    let url = if options.is_empty() { place.to_owned() } else { format!("{place}?{options}") };
    Ok((url, roots_file))
}

fn percent_decoded(text: &str) -> Result<String, Error> {
    let wrong = || Error::invalid("store", "has a path in `sslrootcert` that is no percent-encoded text");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let (pair, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
            bytes.push(*hex::decode(pair).map_err(|_| wrong())?.first().ok_or_else(wrong)?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Explains to the operator why TLS failed; other errors stay as they are.
fn tls_refusal(error: tokio_postgres::Error) -> Fault {
    use std::error::Error as _;
    let handshake = error.to_string().starts_with("error performing TLS handshake");
    let Some(cause) = error.source().filter(|_| handshake) else { return error.into() };
    let text = cause.to_string();
    if text.contains("does not support TLS") {
        return Error::invalid(
            "store",
            "the database offers no TLS and is not on this machine: turn TLS on there, or add `sslmode=disable` to the \
             address if everybody on the network in between may read and change what is sent",
        )
        .into();
    }
    match cause.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref()?.downcast_ref()) {
        Some(refused) => Error::invalid("store", handshake_fault(refused)).into(),
        // The connection broke: it may pass by itself.
        None => error.into(),
    }
}

/// Why a handshake failed, and what the operator can do about it.
fn handshake_fault(refused: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(reason) = refused else {
        return "the database and this program could not agree on TLS: the database must offer TLS 1.2 or 1.3 with a cipher that is still \
                safe, and ask for no certificate of its clients";
    };
    match reason {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the database has a TLS certificate of an authority that is not trusted here: name the file of the authority that signed \
             it (PEM) with `sslrootcert=PATH` in the address, or in SSL_CERT_FILE"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the database has a TLS certificate for another host name: connect by a name that stands in the certificate as a subject \
             alternative name, or give the database a certificate for the name in the address"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the database has a TLS certificate that has expired: renew it on the database's machine"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the database has a TLS certificate that is not valid yet: compare the clocks of the two machines"
        }
        _ => {
            "the database has a TLS certificate that cannot serve: make a certificate of version 3 for the database, with its host name as \
             a subject alternative name, that is not its own authority, and have an authority sign it"
        }
    }
}

/// Trusts the authorities in a file, or those of the web where there is none.
fn rustls(roots_file: Option<PathBuf>) -> Result<MakeRustlsConnect, Error> {
    let mut roots = rustls::RootCertStore::empty();
    match roots_file {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let unusable =
                |says: &str| Error::invalid("store", format!("cannot trust `{}`: {says}", path.display()));
            let pem = std::fs::read(&path).map_err(|error| unusable(&error.to_string()))?;
            let broken = || unusable("it holds a certificate that is damaged, or is none");
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|_| broken())?;
                roots.add(certificate).map_err(|_| broken())?;
            }
            if roots.is_empty() {
                return Err(unusable("it holds no certificate in PEM"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn only_what_stays_on_this_machine_or_is_asked_for_by_name_goes_without_tls() {
        for (url, tls) in [
            ("postgres://localhost/x", false),
            ("postgres://127.0.0.1/x", false),
            ("postgres://[::1]/x", false),
            ("postgres:///x?host=/run/postgresql", false),
            ("postgres://db.example/x?sslmode=disable", false),
            ("postgres://db.example/x", true),
            ("postgres://db.example/x?sslmode=prefer", true),
            ("postgres://10.0.0.5/x", true),
            ("postgres://localhost,db.example/x", true),
            ("postgres://localhost/x?hostaddr=10.0.0.5", true),
            ("postgres://db.example/x?hostaddr=127.0.0.1", false),
            ("postgres://localhost/x?sslmode=require", true),
            ("postgres://localhost/x?sslmode=verify-full", true),
            ("postgres://localhost/x?sslmode=verify-ca&sslrootcert=system", true),
        ] {
            let address = Address::parse(url, "sederunt").unwrap();
            let mode = if tls { SslMode::Require } else { address.config.get_ssl_mode() };
            assert_eq!((address.tls.is_some(), address.config.get_ssl_mode()), (tls, mode), "{url}");
        }
    }

    #[test]
    fn a_file_of_authorities_that_cannot_be_used_is_refused_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("no certificate.pem");
        std::fs::write(&empty, "not a certificate").unwrap();
        let encoded = empty.display().to_string().replace(' ', "%20");
        for (path, says) in [("/no/such/file.pem", "/no/such/file.pem"), (&*encoded, "no certificate.pem")] {
            let url = format!("postgres://db.example/x?sslrootcert={path}&sslmode=verify-full");
            let refused = Address::parse(&url, "sederunt").unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        let damaged = directory.path().join("damaged.pem");
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        std::fs::write(&damaged, pem).unwrap();
        let url = format!("postgres://db.example/x?sslrootcert={}", damaged.display());
        let refused = Address::parse(&url, "sederunt").unwrap_err().to_string();
        assert!(refused.contains("damaged.pem`: it holds a certificate that is damaged"), "{refused}");
        let broken = Address::parse("postgres://db.example/x?sslrootcert=%2", "sederunt").unwrap_err();
        assert_eq!(broken.code(), "invalid");
    }

    #[test]
    fn a_handshake_that_fails_says_what_to_do_about_it() {
        use rustls::Error::InvalidCertificate;
        for (refused, says) in [
            (InvalidCertificate(CertificateError::UnknownIssuer), "sslrootcert=PATH"),
            (InvalidCertificate(CertificateError::NotValidForName), "connect by a name"),
            (InvalidCertificate(CertificateError::Expired), "renew it"),
            (InvalidCertificate(CertificateError::NotValidYet), "clocks"),
            (InvalidCertificate(CertificateError::BadEncoding), "have an authority sign it"),
            (rustls::Error::HandshakeNotComplete, "TLS 1.2 or 1.3"),
        ] {
            let told = Error::invalid("store", handshake_fault(&refused)).to_string();
            assert!(told.starts_with("the database ") && told.contains(says), "{told}");
        }
    }

    #[tokio::test]
    async fn a_server_elsewhere_that_offers_no_tls_is_told_nothing() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stub = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 8];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(b"N").await.unwrap();
            // The end, or what the driver goes on with.
            let mut more = [0; 64];
            let length = stream.read(&mut more).await.unwrap();
            more[..length].to_vec()
        });
        // This machine by an address that does not say so.
        let url = format!("postgres://sederunt:hunter2@0.0.0.0:{port}/x");
        let refused = Address::parse(&url, "sederunt").unwrap().connect().await.unwrap_err();
        let Fault::Core(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.code(), "invalid");
        assert!(refused.to_string().contains("offers no TLS"), "{refused}");
        assert!(refused.to_string().contains("sslmode=disable"), "{refused}");
        assert!(stub.await.unwrap().is_empty(), "neither the user's name nor a password was sent");
    }
}
