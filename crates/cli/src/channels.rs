//! The channels that the file of channels declares, and the bots that work for them while the server runs. The file names
//! the files with the tokens; no token is in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sederunt_agents::talk::Conversations;
use sederunt_core::channel::inbound::ChannelProfile;
use sederunt_core::ids::{TenantId, check_name, random_hex};
use sederunt_core::talk::route::{ChannelRules, ThreadRule, Who};
use sederunt_server::channels::telegram::api::TelegramApi;
use sederunt_server::channels::telegram::runner::TelegramRunner;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{Config, toml_file};
use crate::exit::{Failure, Result};

const TELEGRAM: &str = "https://api.telegram.org";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelsFile {
    #[serde(default)]
    channels: BTreeMap<String, DeclaredChannel>,
}

/// A channel as the file declares it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredChannel {
    platform: ChannelPlatform,
    tenant: Option<String>,
    /// The file with the bot's token.
    token_file: PathBuf,
    /// The agent that answers.
    agent: Option<String>,
    /// Who may start turns: people whom an owner knows, unless it says otherwise.
    #[serde(default)]
    who: Who,
    /// Whether threads that began with the agent are followed.
    #[serde(default)]
    threads: ThreadRule,
    /// The chats in which the channel works; all of them where it says nothing.
    allowed: Option<Vec<String>>,
    /// Where the platform is reached, if not at its own address.
    base_url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChannelPlatform {
    Telegram,
}

/// A channel that was checked, with its token.
pub struct ReadyChannel {
    profile: ChannelProfile,
    token: String,
    allowed: Option<Vec<Box<str>>>,
    base_url: String,
}

/// The declared channels. A misfit is refused before anything starts.
pub fn declared(config: &Config) -> Result<Vec<ReadyChannel>> {
    let Some(path) = &config.channels_file else { return Ok(Vec::new()) };
    let file: ChannelsFile = toml_file::read_as(&text_of(path)?, &path.display().to_string())?;
    let place = path.display();
    let mut ready: Vec<ReadyChannel> = Vec::new();
    for (name, channel) in file.channels {
        let misfit =
            |field: &str, why: &str| Failure::usage(format!("`channels.{name}.{field}` in {place} {why}"));
        if check_name("name", &name).is_err() || name.contains(':') {
            return Err(Failure::usage(format!(
                "`channels.{name}` in {place} must be a short name without `/` and `:`"
            )));
        }
        let base_url = channel.base_url.unwrap_or_else(|| TELEGRAM.to_owned());
        if !base_url.starts_with("https://") && !base_url.starts_with("http://") {
            return Err(misfit("base_url", "must begin with `https://` or `http://`"));
        }
        let token = text_of(&channel.token_file)?.trim().to_owned();
        if token.is_empty() || token.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(misfit("token_file", "names a file that holds no token"));
        }
        if let Some(twin) = ready.iter().find(|other| other.token == token) {
            let why = format!("names the bot of `{}`: one bot is one channel", twin.profile.name);
            return Err(misfit("token_file", &why));
        }
        let tenant = TenantId::parse(channel.tenant.as_deref().unwrap_or("default"))
            .map_err(|_| misfit("tenant", "is no name of a tenant"))?;
        let platform = match channel.platform {
            ChannelPlatform::Telegram => "telegram",
        };
        ready.push(ReadyChannel {
            profile: ChannelProfile {
                tenant,
                name: name.into(),
                platform,
                agent_slug: channel.agent.map(Into::into),
                rules: ChannelRules { who: channel.who, threads: channel.threads },
            },
            token,
            allowed: channel.allowed.map(|chats| chats.into_iter().map(Into::into).collect()),
            base_url,
        });
    }
    Ok(ready)
}

fn text_of(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the file {} cannot be read: {error}", path.display())))
}

/// Bots at work.
pub struct RunningChannels {
    stop: watch::Sender<bool>,
    bots: Vec<JoinHandle<()>>,
}

impl RunningChannels {
    /// Starts a bot for each channel.
    pub fn start(channels: Vec<ReadyChannel>, conversations: &Conversations) -> Self {
        let (stop, node) = (watch::Sender::new(false), random_hex::<8>());
        let client = reqwest::Client::new();
        let start = |channel: ReadyChannel| {
            let api = TelegramApi::new(client.clone(), &channel.base_url, &channel.token);
            let runner = TelegramRunner::new(channel.profile, api, conversations.clone(), &node)
                .within(channel.allowed);
            tokio::spawn(Arc::new(runner).run(stop.subscribe()))
        };
        let bots = channels.into_iter().map(start).collect();
        Self { stop, bots }
    }

    /// Stops the bots, which let go of their channels.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for bot in self.bots {
            let _ = bot.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;

    fn standard() -> Config {
        Layers::new(None, Vec::new(), Vec::new()).unwrap().read().unwrap().0
    }

    /// What the declaration of a file with this text says, with tokens in `one` and `two` beside it.
    fn said_of(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (name, content) in
            [("one", "11:abc\n"), ("two", "22:def"), ("empty", " \n"), ("channels.toml", text)]
        {
            let content = content.replace("DIR", &directory.path().display().to_string());
            std::fs::write(at(name), content).unwrap();
        }
        let config = Config { channels_file: Some(at("channels.toml")), ..standard() };
        match declared(&config) {
            Ok(ready) => ready
                .iter()
                .map(|channel| format!("{} of {}", channel.profile.name, channel.profile.tenant))
                .collect::<Vec<_>>()
                .join(", "),
            Err(failure) => failure.sentence().replace(&directory.path().display().to_string(), "DIR"),
        }
    }

    #[test]
    fn channels_are_declared_by_name_and_a_misfit_is_told_with_its_place() {
        let desk = "[channels.desk]\nplatform = \"telegram\"\ntoken_file = \"DIR/one\"\n";
        let shop = "[channels.shop]\nplatform = \"telegram\"\ntoken_file = \"DIR/two\"\ntenant = \"acme\"\n";
        for (text, said) in [
            (String::new(), "".to_owned()),
            (format!("{desk}{shop}"), "desk of default, shop of acme".to_owned()),
            (
                format!("{desk}whom = 5\n"),
                "`channels.desk.whom` in DIR/channels.toml is unknown; known are `platform`, `tenant`, `token_file`, \
                 `agent`, `who`, `threads`, `allowed` and `base_url`"
                    .to_owned(),
            ),
            (
                desk.replace("telegram", "pigeon"),
                "`channels.desk.platform` in DIR/channels.toml must be `telegram`, not `pigeon`".to_owned(),
            ),
            (
                desk.replace("/one", "/empty"),
                "`channels.desk.token_file` in DIR/channels.toml names a file that holds no token".to_owned(),
            ),
            (
                format!("{desk}{}", shop.replace("/two", "/one")),
                "`channels.shop.token_file` in DIR/channels.toml names the bot of `desk`: one bot is one channel"
                    .to_owned(),
            ),
            (
                format!("{desk}base_url = \"telegram.org\"\n"),
                "`channels.desk.base_url` in DIR/channels.toml must begin with `https://` or `http://`".to_owned(),
            ),
            (
                desk.replace("desk]", "\"a:b\"]"),
                "`channels.a:b` in DIR/channels.toml must be a short name without `/` and `:`".to_owned(),
            ),
        ] {
            assert_eq!(said_of(&text), said, "{text}");
        }
    }

    #[test]
    fn a_token_that_cannot_be_read_is_told_by_its_file() {
        let said = said_of("[channels.desk]\nplatform = \"telegram\"\ntoken_file = \"DIR/none\"\n");
        assert!(said.starts_with("the file DIR/none cannot be read"), "{said}");
    }
}
