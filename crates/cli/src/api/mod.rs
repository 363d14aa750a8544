//! The way from a command to the API. A command is a [`Request`] and how its answer is shown; who answers is found
//! here: the server that was named, the server that has the store open (with the operator's key that lies in the
//! store), or the same routes over the store in this process.

mod request;
pub mod server_file;

use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use sederunt::{Place, Sederunt, TenantId};
use sederunt_agents::executor::Kit;
use sederunt_agents::lesson_writer::LessonWriter;
use sederunt_api::client::{Client, Error};
use serde_json::Value;
use tokio::sync::OnceCell;

pub use request::{Request, path};

use self::request::BackgroundWorker;
use self::server_file::StoreUser;
use crate::agents;
use crate::args::GlobalArgs;
use crate::config::Config;
use crate::exit::{Exit, Failure, Result};
use crate::output::note;

/// What is shorter than this is taken as it stands.
const SHORT_ID_CHARS_MIN: usize = 4;

/// Rows of a page that is searched for the beginning of an id, and how many pages are: the newest.
const ROWS: u32 = 1000;
const SHORT_ID_PAGES_MAX: usize = 10;

/// Whether a command may make a store that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Make,
    Refuse,
}

/// Sends requests to whoever answers them.
#[derive(Debug)]
pub enum ApiClient {
    Server(Client),
    Store(Box<OpenStore>),
}

/// A store that this process has open.
#[derive(Debug)]
pub struct OpenStore {
    store: Sederunt,
    tenant: TenantId,
    config: Config,
    client: OnceCell<Client>,
}

impl ApiClient {
    pub async fn find(config: &Config, global: &GlobalArgs, missing: Missing) -> Result<Self> {
        let tenant = TenantId::parse(&global.tenant)?;
        if let Some(url) = &global.server {
            let key = global.key_file.as_deref().map(server_file::read_key).transpose()?;
            return Ok(Self::Server(connect(url, key, &tenant)?));
        }
        if let Some(directory) = config.directory() {
            match server_file::holder(directory).await {
                StoreUser::None => check_there(directory, missing)?,
                StoreUser::Server(running) => {
                    let key = match &global.key_file {
                        Some(file) => server_file::read_key(file)?,
                        None => server_file::read_key(&server_file::key_path(directory))?,
                    };
                    return Ok(Self::Server(connect(&running.url, Some(key), &tenant)?));
                }
                holder @ StoreUser::OtherProcess => return Err(server_file::in_use(directory, &holder)),
            }
        }
        let store = config.opener(missing == Missing::Make)?.open_place(&config.store.0).await?;
        if let Place::Directory(directory) = &config.store.0 {
            // We hold the store, so no server does: what one left behind is stale.
            server_file::forget(directory);
        }
        match store.operator().tenant(&tenant).await {
            Err(sederunt::Error::NotFound) => {
                store.close().await;
                let sentence = format!("there is no tenant `{tenant}`");
                return Err(Failure::new(Exit::NotFound, "not_found", sentence)
                    .hint(format!("make it with `sederunt tenants create {tenant}`")));
            }
            found => found.map(drop)?,
        }
        let config = config.clone();
        Ok(Self::Store(Box::new(OpenStore { store, tenant, config, client: OnceCell::new() })))
    }

    /// Sends a request and gives the answer. A session or an approval may be named by the beginning of its id.
    pub async fn send(&self, request: Request) -> Result<Value> {
        request.check_ids()?;
        let failure = match self.send_as_written(&request).await {
            Err(failure) if failure.exit() == Exit::NotFound => failure,
            answer => return answer,
        };
        match self.completed(&request).await? {
            Some(whole) => self.send_as_written(&whole).await,
            None => Err(failure),
        }
    }

    /// The request with the whole id of the one session or approval whose id begins like the one it names.
    async fn completed(&self, request: &Request) -> Result<Option<Request>> {
        let Some((list, begun)) = request.short_id() else { return Ok(None) };
        if begun.chars().count() < SHORT_ID_CHARS_MIN {
            return Ok(None);
        }
        let mut found: Vec<String> = Vec::new();
        let mut cursor = None;
        for _ in 0..SHORT_ID_PAGES_MAX {
            let page = self.send_as_written(&list.clone().page(ROWS, cursor)).await?;
            let ids = page["items"].as_array().into_iter().flatten().filter_map(|row| row["id"].as_str());
            found.extend(ids.filter(|id| id.starts_with(begun)).map(str::to_owned));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() || found.len() > 1 {
                break;
            }
        }
        match found.as_slice() {
            [] => Ok(None),
            [whole] => Ok(Some(request.about(whole))),
            [first, second, ..] => Err(Failure::usage(format!(
                "`{begun}` begins several ids, among them {first} and {second}; write more of it"
            ))),
        }
    }

    async fn send_as_written(&self, request: &Request) -> Result<Value> {
        let Request { method, body, .. } = request;
        let client = match self {
            Self::Server(client) => client,
            Self::Store(open) => match request.waits_for() {
                None => self.client().await?,
                Some(BackgroundWorker::Indexer) => {
                    open.store.index_now().await?;
                    self.client().await?
                }
                Some(BackgroundWorker::LessonWriter) => &open.client_that_teaches().await?,
                Some(BackgroundWorker::Executor) => {
                    open.declare_models();
                    self.client().await?
                }
            },
        };
        Ok(client.request(method.clone(), &request.path(), body.clone()).await?)
    }

    /// For what is no single answer: streams and exports.
    pub async fn client(&self) -> Result<&Client> {
        match self {
            Self::Server(client) => Ok(client),
            Self::Store(open) => open.client.get_or_try_init(async || open.client_with(None)).await,
        }
    }

    /// Lets go of the store.
    pub async fn close(self) {
        match self {
            Self::Server(_) => {}
            Self::Store(open) => open.store.close().await,
        }
    }
}

impl OpenStore {
    /// The routes over this store: the caller is the operator, as the owner of the tenant.
    fn client_with(&self, kit: Option<Arc<Kit>>) -> Result<Client> {
        let base_url =
            self.config.public_url.clone().unwrap_or_else(|| format!("http://{}", self.config.listen));
        let client = sederunt_server::client_in_process(self.store.engine().clone(), base_url, kit);
        Ok(client.map_err(sederunt::Error::internal)?.in_tenant(self.tenant.as_str()))
    }

    /// Declares the models that a server with this configuration has. If the configuration of models cannot be read,
    /// definitions are kept without warnings.
    fn declare_models(&self) {
        match agents::kit(&self.config) {
            Ok(kit) => self.store.engine().declare_models(Arc::new(kit)),
            Err(failure) => note(format!("models are not checked: {}", failure.sentence())),
        }
    }

    /// The same with the models that draw lessons, once those are drawn that a running server would have drawn by now.
    async fn client_that_teaches(&self) -> Result<Client> {
        let kit = Arc::new(agents::kit(&self.config)?);
        LessonWriter::new(self.store.engine().clone(), kit.clone()).finalize_silent().await?;
        self.client_with(Some(kit))
    }
}

fn check_there(directory: &Path, missing: Missing) -> Result<()> {
    if missing == Missing::Make || directory.join("threads.sqlite3").exists() {
        return Ok(());
    }
    let sentence = format!("there is no store in {}", directory.display());
    Err(Failure::new(Exit::NotFound, "not_found", sentence)
        .hint("name one with --store, or start one with `sederunt serve`"))
}

/// The way to one server, as one caller in one tenant.
pub fn connect(url: &str, key: Option<String>, tenant: &TenantId) -> Result<Client> {
    let is_address = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if !Url::parse(url).is_ok_and(|url| is_address(&url)) {
        return Err(Failure::usage(format!("`{url}` is no address of a server; write http://HOST:PORT")));
    }
    Ok(Client::new(url, key)?.in_tenant(tenant.as_str()))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { status, refusal } => {
                let failure = Self::new(Exit::of_status(status.as_u16()), &refusal.code, refusal.message);
                match refusal.code.as_str() {
                    "unauthenticated" => failure.hint("name a file with a valid key by --key-file"),
                    _ => failure,
                }
            }
            Error::Strange(status) => Self::new(Exit::of_status(status.as_u16()), "http", error.to_string()),
            Error::SocketBroke(_) | Error::NoListener => Self::unavailable(error.to_string()),
            Error::InProcess(error) => error.into(),
            Error::Unreachable(ref cause) | Error::BrokenOff(ref cause) => {
                let mut deepest: &dyn std::error::Error = cause;
                while let Some(under) = deepest.source() {
                    deepest = under;
                }
                let where_to = cause
                    .url()
                    .map_or_else(String::new, |url| format!(" at {}", url.origin().ascii_serialization()));
                let refused = deepest
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
                if refused {
                    let sentence = format!("the server{where_to} does not answer (connection refused)");
                    return Self::unavailable(sentence).hint("is it running?");
                }
                Self::unavailable(format!("the server{where_to} does not answer: {deepest}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_a_server_is_taken() {
        let tenant = TenantId::stored("default");
        for bad in ["", "127.0.0.1:7070", "ftp://x", "file:///etc/passwd"] {
            assert!(connect(bad, None, &tenant).is_err(), "{bad}");
        }
        assert!(connect("http://127.0.0.1:7070", None, &tenant).is_ok());
    }
}
