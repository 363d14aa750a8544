//! TLS to a server whose certificate a private authority has signed: a real handshake with a server of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::postgres::connect::Address;
use crate::postgres::fault::Fault;

/// The name that the server's certificate carries.
const HOST: &str = "db.example";

/// Authorities and certificates, as an operator makes them.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn make() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        std::fs::write(made.path("server.ext"), format!("subjectAltName=DNS:{HOST}")).unwrap();
        for authority in ["ours", "other"] {
            let name = format!("/CN=Authority {authority}");
            made.openssl(&format!("req -x509 {} -keyout {authority}.key -out {authority}.crt", key()), &name);
        }
        made.openssl(&format!("req {} -keyout server.key -out server.csr", key()), &format!("/CN={HOST}"));
        made.run(
            "x509 -req -in server.csr -CA ours.crt -CAkey ours.key -CAcreateserial -days 2 -extfile server.ext \
             -out server.crt",
            &[],
        );
        // What many guides make: a certificate that is its own authority.
        let named = format!("subjectAltName=DNS:{HOST}");
        made.run(
            &format!("req -x509 {} -keyout self.key -out self.crt -subj /CN={HOST} -addext", key()),
            &[&named],
        );
        made
    }

    fn openssl(&self, arguments: &str, subject: &str) {
        self.run(arguments, &["-subj", subject]);
    }

    fn run(&self, arguments: &str, more: &[&str]) {
        let ran = Command::new("openssl")
            .args(arguments.split_whitespace())
            .args(more)
            .current_dir(self.0.path())
            .output()
            .expect("openssl is not installed: scripts/setup installs it");
        assert!(ran.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap()
    }
}

fn key() -> &'static str {
    "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
}

/// A private server; it is gone with this.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/with-postgres");
        let mut process = Command::new(script)
            .args(["sh", "-c", "echo \"$SEDERUNT_TEST_POSTGRES\"; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("postgres://"), "scripts/with-postgres started no server");
        Self { process, url: url.trim().to_owned() }
    }

    fn port(&self) -> &str {
        self.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap()
    }

    /// The server under this name, by an address that is not known to be on this machine.
    fn address(&self, host: &str, options: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres?hostaddr=0.0.0.0{options}", self.port())
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Has the server offer TLS with this certificate from now on. The server writes the files itself, so that they belong
    /// to its own account.
    async fn offer(&self, certificate: &str, key: &str) {
        let client = self.client().await;
        for (file, text) in [("server.crt", certificate), ("server.key", key)] {
            let sql = format!(
                "COPY (SELECT line FROM unnest(string_to_array('{}', E'\\n')) line)
                 TO PROGRAM 'umask 077; cat > {file}'",
                text.trim()
            );
            client.batch_execute(&sql).await.unwrap();
        }
        client.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        until("the server to offer TLS", async || {
            let shown = self.client().await.query_one("SHOW ssl", &[]).await.unwrap();
            shown.get::<_, &str>(0) == "on"
        })
        .await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Why a server is not connected to.
async fn refusal(url: &str, trusted_by_default: Option<PathBuf>) -> String {
    let address = Address::parse_trusting(url, "sederunt", trusted_by_default).unwrap();
    match address.connect().await {
        Ok(_) => panic!("{url} was connected to"),
        Err(Fault::Core(refused)) => {
            assert_eq!(refused.code(), "invalid", "{refused}");
            refused.to_string()
        }
        Err(fault) => panic!("{url}: {fault:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_elsewhere_is_reached_when_a_trusted_authority_vouches_for_its_name_and_not_otherwise() {
    let made = Certificates::make();
    let server = Server::start();
    let trusting = |file: &str| format!("&sslrootcert={}", made.path(file).display());

    let told = refusal(&server.address(HOST, &trusting("ours.crt")), None).await;
    assert!(told.contains("offers no TLS") && told.contains("`sslmode=disable`"), "{told}");

    server.offer(&made.text("server.crt"), &made.text("server.key")).await;
    let schema = fresh_schema();
    for options in [trusting("ours.crt"), format!("{}&sslmode=verify-full", trusting("ours.crt"))] {
        let scene = open_at(server.address(HOST, &options), &schema).await;
        if options.contains("verify-full") {
            assert_eq!(scene.texts("ours", "s").await, ["hi"]);
        } else {
            scene.tenant_named("ours").await;
            scene.open("ours", "s").await;
            scene.say("ours", "s", "hi").await;
        }
        let sql = format!(
            "SELECT count(*) FILTER (WHERE s.ssl), count(*) FILTER (WHERE NOT s.ssl)
             FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) WHERE a.application_name = 'sederunt {schema}'"
        );
        let row = server.client().await.query_one(&sql, &[]).await.unwrap();
        let (with, without): (i64, i64) = (row.get(0), row.get(1));
        assert!(with >= 2 && without == 0, "{with} connections with TLS, {without} without");
        scene.close().await;
    }
    let by_default = Some(made.path("ours.crt"));
    let address = Address::parse_trusting(&server.address(HOST, ""), "sederunt", by_default).unwrap();
    let (client, _said) = address.connect().await.unwrap();
    let own = "SELECT count(*) FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()";
    assert_eq!(count(&client, own).await, 1, "a file that SSL_CERT_FILE names is trusted");

    let ours = trusting("ours.crt");
    for (host, options, by_default, says) in [
        (HOST, trusting("other.crt"), None, "`sslrootcert=PATH`"),
        (HOST, trusting("other.crt"), Some(made.path("ours.crt")), "`sslrootcert=PATH`"),
        (HOST, String::new(), Some(made.path("other.crt")), "`sslrootcert=PATH`"),
        (HOST, String::new(), None, "`sslrootcert=PATH`"),
        ("other.example", ours.clone(), None, "another host name"),
        ("other.example", format!("{ours}&sslmode=verify-ca"), None, "another host name"),
        ("127.0.0.1", format!("{ours}&sslmode=require"), None, "another host name"),
    ] {
        let url = server.address(host, &options);
        let told = refusal(&url, by_default).await;
        assert!(told.contains(says), "{url}: {told}");
        for foreign in ["UnknownIssuer", "invalid peer certificate", "webpki"] {
            assert!(!told.contains(foreign), "{url}: {told}");
        }
        assert_eq!(told.contains("sslrootcert"), says.contains("sslrootcert"), "{url}: {told}");
    }

    server.offer(&made.text("self.crt"), &made.text("self.key")).await;
    // The first connection after the change may still be served with the certificate before it.
    until("the other certificate", async || {
        Address::parse(&server.address(HOST, &trusting("ours.crt")), "sederunt")
            .unwrap()
            .connect()
            .await
            .is_err()
    })
    .await;
    let told = refusal(&server.address(HOST, &trusting("self.crt")), None).await;
    assert!(told.contains("its own authority"), "{told}");
}
