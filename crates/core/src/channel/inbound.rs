//! What a platform has told a channel, in words that hold for every platform. Owns what a message carries and how it is
//! written into the log. Refuses to know formats: the adapters read those.

use serde_json::json;

use super::ConversationKey;
use crate::error::Result;
use crate::ids::{CredentialId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::people::{ChannelSender, Identity};
use crate::session::SourceKind;
use crate::session::source::Company;
use crate::talk::route::ChannelRules;
use crate::talk::speaker_name::shown_name;
use crate::{Actor, Role};

/// A channel that is declared in the configuration, as far as the product is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelProfile {
    pub tenant: TenantId,
    pub name: Box<str>,
    pub platform: &'static str,
    /// The agent that answers; the default one otherwise.
    pub agent_slug: Option<Box<str>>,
    /// Who is answered.
    pub rules: ChannelRules,
}

/// A message of a person in a conversation on a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundMessage {
    /// By which a repeat is recognised.
    pub update_key: Box<str>,
    pub conversation: ConversationKey,
    pub company: Company,
    /// What the chat is called, if the platform says it.
    pub chat_title: Option<Box<str>>,
    /// The platform's id of the message, by which edits and answers refer to it.
    pub message_id: Box<str>,
    pub text: Box<str>,
    pub sender: InboundSender,
    /// It mentions the agent, answers it or gives it a command.
    pub is_directed: bool,
    pub answered: Option<AnsweredMessage>,
}

/// Who a platform says has spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundSender {
    /// `None` for a bot, an anonymous admin or a channel that speaks for itself.
    pub external_id: Option<Box<str>>,
    pub name: Option<Box<str>>,
}

/// The message that a message quotes or answers: without it, "summarise this" has no *this*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredMessage {
    pub author: Option<Box<str>>,
    pub text: Box<str>,
}

impl InboundMessage {
    /// The person who has sent it; `None` for a bot and for nobody in person.
    pub fn person(&self, profile: &ChannelProfile) -> Option<ChannelSender> {
        let external_id = self.sender.external_id.as_deref()?.to_owned();
        let identity = Identity { platform: profile.platform.to_owned(), external_id };
        Some(ChannelSender { identity, name: self.sender.name.as_deref().map(str::to_owned), is_bot: false })
    }

    /// The thread that it is said in.
    pub fn thread(&self) -> Option<&str> {
        Some(&*self.conversation.thread).filter(|thread| !thread.is_empty())
    }

    /// The name of the message in the log. A platform numbers messages chat by chat.
    pub fn external_event_id(&self) -> String {
        format!("{}:{}", self.conversation.chat, self.message_id)
    }

    /// What the log holds beside the text: the sender as the platform names them, and the words that are answered.
    pub fn metadata(&self, profile: &ChannelProfile) -> Result<Json> {
        let mut said = json!({
            "sender": {
                "platform": profile.platform,
                "external_id": self.sender.external_id,
                "name": self.sender.name.as_deref().map(shown_name),
                "is_bot": self.sender.external_id.is_none(),
            },
        });
        if let Some(answered) = &self.answered {
            let text: String = answered.text.chars().take(limits::ANSWERED_MESSAGE_CHARS_MAX).collect();
            said["answers"] = json!({"author": answered.author, "text": text});
        }
        Json::of(&said)
    }
}

impl ChannelProfile {
    /// The channel itself, as one with a key would be: it brings words of people, and speaks for nobody.
    pub fn actor(&self) -> Actor {
        Actor {
            tenant: self.tenant.clone(),
            credential: CredentialId::stored(format!("channel:{}", self.name)),
            role: Role::Channel,
            prefix: Some(format!("{}:", self.platform).into()),
            rules: self.rules,
            ..Actor::local(SourceKind::Channel)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_are_answered_are_cut_to_their_limit() {
        let profile = ChannelProfile {
            tenant: TenantId::stored("t"),
            name: "desk".into(),
            platform: "telegram",
            agent_slug: None,
            rules: ChannelRules::default(),
        };
        let kept = |count: usize| {
            let message = InboundMessage {
                update_key: "1".into(),
                conversation: ConversationKey { channel: "desk".into(), chat: "7".into(), thread: "".into() },
                company: Company::Group,
                chat_title: None,
                message_id: "5".into(),
                text: "summarise this".into(),
                sender: InboundSender { external_id: Some("12".into()), name: None },
                is_directed: true,
                answered: Some(AnsweredMessage { author: None, text: "é".repeat(count).into() }),
            };
            let said = message.metadata(&profile).unwrap().value();
            said["answers"]["text"].as_str().unwrap().chars().count()
        };
        let most = limits::ANSWERED_MESSAGE_CHARS_MAX;
        assert_eq!((kept(most), kept(most + 1)), (most, most));
    }

    #[test]
    fn a_channel_speaks_with_the_rights_of_no_person() {
        let profile = ChannelProfile {
            tenant: TenantId::stored("t"),
            name: "desk".into(),
            platform: "telegram",
            agent_slug: None,
            rules: ChannelRules::default(),
        };
        let actor = profile.actor();
        assert_eq!((actor.role, actor.user.clone(), actor.names_users()), (Role::Channel, None, false));
    }
}
