//! Where a session came from. Written once, and by the surface that opened it: a caller names at
//! most what its route or credential already implies.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Id prefixes that only the engine and channel credentials may use.
pub const RESERVED_PREFIXES: [&str; 4] = ["telegram:", "discord:", "slack:", "schedule:"];

/// Metadata keys that only the engine and channel credentials may write.
pub const PLATFORM_KEYS: [&str; 5] =
    ["telegram_chat_id", "telegram_thread_id", "discord_channel_id", "slack_channel_id", "slack_thread_ts"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSource {
    pub kind: SourceKind,
    pub interactive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
    /// Between one person and the agent, or among several people.
    #[serde(rename = "type")]
    pub company: Company,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Company {
    Direct,
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    Cli,
    Api,
    Web,
    Channel,
    Schedule,
    Task,
    HumanSessionBridge,
}

impl SourceKind {
    pub const ALL: [Self; 7] = [
        Self::Cli,
        Self::Api,
        Self::Web,
        Self::Channel,
        Self::Schedule,
        Self::Task,
        Self::HumanSessionBridge,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Api => "api",
            Self::Web => "web",
            Self::Channel => "channel",
            Self::Schedule => "schedule",
            Self::Task => "task",
            Self::HumanSessionBridge => "human-session-bridge",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| Error::invalid("source.kind", "is not a kind of source"))
    }
}

impl SessionSource {
    /// A direct session over this surface.
    pub const fn direct(kind: SourceKind, interactive: bool) -> Self {
        Self { kind, interactive, platform: None, trigger_id: None, company: Company::Direct }
    }

    pub fn is_group(&self) -> bool {
        self.company == Company::Group
    }
}
