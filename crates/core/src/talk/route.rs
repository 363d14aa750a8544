//! What a message in company does: it starts a turn, is only kept, or is nothing. One pure rule for every surface.
//!
//! The rights of the person who speaks decide, never those of the credential that brings the message: a channel's key
//! brings the words of an owner and those of a stranger.

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::error::{Error, Result};
use crate::people::KnownBy;
use crate::session::source::Company;

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSender {
    /// A bot, or nobody in person: an anonymous admin, a channel that speaks for itself.
    Nobody,
    Person {
        role: Role,
        /// The channel lets this person start turns: see [`Who::admits`].
        is_admitted: bool,
    },
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Message,
    /// An edit, a deletion, a join or a pin: something that happened to the conversation.
    Change,
    /// Nothing that the log should hold, such as an edit that leaves the text as it was.
    Nothing,
}

/// How a message is introduced to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeakerPrefix {
    /// Between one person and the agent: nobody has to be named.
    None,
    Name,
    /// The name, and the note that it was not said to the agent.
    NameAside,
}

/// What becomes of what arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    Trigger { prefix: SpeakerPrefix },
    Keep,
    Drop,
}

/// The one rule. `is_directed`: the agent was mentioned, answered, or given a command.
pub const fn route(company: Company, sender: MessageSender, is_directed: bool, arrival: Arrival) -> Routing {
    let (role, is_admitted) = match (arrival, sender) {
        (Arrival::Nothing, _) => return Routing::Drop,
        (Arrival::Change, _) | (_, MessageSender::Nobody) => return Routing::Keep,
        (Arrival::Message, MessageSender::Person { role, is_admitted }) => (role, is_admitted),
    };
    if !is_admitted {
        return Routing::Keep;
    }
    let prefix = match (company, is_directed, role) {
        (Company::Direct, ..) => SpeakerPrefix::None,
        (Company::Group, true, _) => SpeakerPrefix::Name,
        (Company::Group, false, Role::Owner) => SpeakerPrefix::NameAside,
        (Company::Group, false, _) => return Routing::Keep,
    };
    Routing::Trigger { prefix }
}

/// Who may start turns in a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    Everyone,
    /// People whom an owner made, linked or gave a role.
    #[default]
    Known,
    /// People whose account an owner has linked.
    Linked,
}

impl Who {
    pub const ALL: [Self; 3] = [Self::Everyone, Self::Known, Self::Linked];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Known => "known",
            Self::Linked => "linked",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|who| who.as_str() == text)
            .ok_or_else(|| Error::invalid("who", "must be everyone, known or linked"))
    }

    /// Whether somebody whom an owner got to know like this may start turns. `None`: a stranger.
    pub const fn admits(self, known_by: Option<KnownBy>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Known => known_by.is_some(),
            Self::Linked => matches!(known_by, Some(KnownBy::Linked)),
        }
    }
}

/// Which messages in a thread of a group are said to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadRule {
    /// Those that mention it.
    #[default]
    Mention,
    /// Every person's, where the first message of the thread was said to the agent.
    Follow,
}

impl ThreadRule {
    pub const ALL: [Self; 2] = [Self::Mention, Self::Follow];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mention => "mention",
            Self::Follow => "follow",
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.as_str() == text)
            .ok_or_else(|| Error::invalid("threads", "must be mention or follow"))
    }
}

/// The rules of a channel that decide who is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChannelRules {
    pub who: Who,
    pub threads: ThreadRule,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_table_of_a_message_in_company() {
        use Arrival::{Change, Message, Nothing};
        use Company::{Direct, Group};
        use Routing::{Drop, Keep};
        let person = |role| MessageSender::Person { role, is_admitted: true };
        let barred = |role| MessageSender::Person { role, is_admitted: false };
        let (owner, member, guest) = (person(Role::Owner), person(Role::Member), person(Role::Guest));
        let nobody = MessageSender::Nobody;
        let trigger = |prefix| Routing::Trigger { prefix };
        let plain = trigger(SpeakerPrefix::None);
        let named = trigger(SpeakerPrefix::Name);
        let aside = trigger(SpeakerPrefix::NameAside);
        let table = [
            ("a bot in a direct chat", Direct, nobody, false, Message, Keep),
            ("a bot in a direct chat, to the agent", Direct, nobody, true, Message, Keep),
            ("a bot in a group", Group, nobody, false, Message, Keep),
            ("a bot in a group, to the agent", Group, nobody, true, Message, Keep),
            ("an owner alone with the agent", Direct, owner, false, Message, plain),
            ("an owner alone, with a mention", Direct, owner, true, Message, plain),
            ("a member alone with the agent", Direct, member, false, Message, plain),
            ("a member alone, with a mention", Direct, member, true, Message, plain),
            ("a guest alone with the agent", Direct, guest, false, Message, plain),
            ("a guest alone, with a mention", Direct, guest, true, Message, plain),
            ("an owner in a group, to the agent", Group, owner, true, Message, named),
            ("an owner in a group, to others", Group, owner, false, Message, aside),
            ("a member in a group, to the agent", Group, member, true, Message, named),
            ("a member in a group, to others", Group, member, false, Message, Keep),
            ("a guest in a group, to the agent", Group, guest, true, Message, named),
            ("a guest in a group, to others", Group, guest, false, Message, Keep),
            ("somebody who may not, alone", Direct, barred(Role::Guest), false, Message, Keep),
            ("somebody who may not, alone, with a mention", Direct, barred(Role::Guest), true, Message, Keep),
            ("somebody who may not, in a group", Group, barred(Role::Guest), false, Message, Keep),
            ("somebody who may not, to the agent", Group, barred(Role::Member), true, Message, Keep),
            ("an owner who is not linked where it is asked", Group, barred(Role::Owner), true, Message, Keep),
            ("an owner's edit", Direct, owner, true, Change, Keep),
            ("an owner's edit in a group", Group, owner, true, Change, Keep),
            ("a member's pin", Group, member, false, Change, Keep),
            ("a guest who joins", Group, guest, false, Change, Keep),
            ("somebody who may not, deleting", Group, barred(Role::Guest), false, Change, Keep),
            ("a bot's edit", Group, nobody, true, Change, Keep),
            ("an owner's edit that changes nothing", Group, owner, true, Nothing, Drop),
            ("nothing, alone", Direct, member, true, Nothing, Drop),
            ("a bot's nothing", Group, nobody, false, Nothing, Drop),
        ];
        for (row, company, sender, is_directed, arrival, expected) in table {
            assert_eq!(route(company, sender, is_directed, arrival), expected, "{row}");
        }
    }

    #[test]
    fn who_may_start_turns_depends_on_how_an_owner_knows_a_person() {
        let table = [
            (None, [true, false, false]),
            (Some(KnownBy::Made), [true, true, false]),
            (Some(KnownBy::Role), [true, true, false]),
            (Some(KnownBy::Linked), [true, true, true]),
        ];
        for (known_by, admitted) in table {
            assert_eq!(Who::ALL.map(|who| who.admits(known_by)), admitted, "{known_by:?}");
        }
        assert_eq!(Who::default(), Who::Known);
    }
}
