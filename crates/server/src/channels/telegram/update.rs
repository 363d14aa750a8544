//! What an update of Telegram says. Read narrowly: only the fields that are used, each by itself, so that a new kind of
//! anything elsewhere in an update never loses a message. Offsets of entities count UTF-16 units.

use sederunt_core::channel::ConversationKey;
use sederunt_core::channel::inbound::{AnsweredMessage, InboundMessage, InboundSender};
use sederunt_core::session::source::Company;
use serde_json::Value;

/// The bot's own account, as `getMe` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotAccount {
    pub id: i64,
    pub username: String,
}

/// An update, and the number by which a repeat is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelegramUpdate {
    pub update_id: i64,
    pub kind: UpdateKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    Message(Box<InboundMessage>),
    /// `/new`.
    StartOver(Box<InboundMessage>),
    /// A message has another text now.
    Edited(Box<InboundMessage>),
    /// A group has become a supergroup: its conversations go on under the new id.
    Moved {
        from: Box<str>,
        to: Box<str>,
    },
    /// The bot was blocked, or removed from a chat.
    Left {
        chat: Box<str>,
    },
    Pressed(PressedButton),
    /// Nothing that a channel does anything about.
    Nothing,
}

/// A button under a message of the bot that somebody has pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressedButton {
    /// By which the press is answered.
    pub query_id: Box<str>,
    pub presser: InboundSender,
    /// What the button carries; a client may leave it out.
    pub data: Option<Box<str>>,
    pub chat: Option<Box<str>>,
    pub message_id: Option<Box<str>>,
}

impl TelegramUpdate {
    /// Reads an update for a channel; `None` for anything that is none.
    pub fn read(update: &Value, channel: &str, bot: &BotAccount) -> Option<Self> {
        let update_id = update["update_id"].as_i64()?;
        let reader = MessageReader { channel, bot, update_id };
        let kind = if update["message"].is_object() {
            reader.arrived(&update["message"])
        } else if update["edited_message"].is_object() {
            let read = reader.message(&update["edited_message"]);
            read.map_or(UpdateKind::Nothing, |message| UpdateKind::Edited(Box::new(message)))
        } else if update["callback_query"].is_object() {
            pressed(&update["callback_query"])
        } else {
            left(&update["my_chat_member"])
        };
        Some(Self { update_id, kind })
    }
}

struct MessageReader<'a> {
    channel: &'a str,
    bot: &'a BotAccount,
    update_id: i64,
}

impl MessageReader<'_> {
    fn arrived(&self, message: &Value) -> UpdateKind {
        if let (Some(from), Some(to)) = (id(&message["chat"]["id"]), id(&message["migrate_to_chat_id"])) {
            return UpdateKind::Moved { from, to };
        }
        let Some(read) = self.message(message) else { return UpdateKind::Nothing };
        let is_new = self.command(message).is_some_and(|command| command == "new");
        match is_new {
            true => UpdateKind::StartOver(Box::new(read)),
            false => UpdateKind::Message(Box::new(read)),
        }
    }

    fn message(&self, message: &Value) -> Option<InboundMessage> {
        let chat = id(&message["chat"]["id"])?;
        let text = text_of(message).map(str::to_owned).or_else(|| attachment(message))?;
        let thread = match message["is_topic_message"].as_bool() {
            Some(true) => id(&message["message_thread_id"]).unwrap_or_default(),
            _ => "".into(),
        };
        let company = match message["chat"]["type"].as_str() {
            Some("private") => Company::Direct,
            _ => Company::Group,
        };
        Some(InboundMessage {
            update_key: self.update_id.to_string().into(),
            conversation: ConversationKey { channel: self.channel.into(), chat, thread },
            company,
            chat_title: message["chat"]["title"].as_str().map(Into::into),
            message_id: id(&message["message_id"])?,
            text: text.into(),
            sender: sender(message),
            is_directed: self.is_directed(message),
            answered: answered(message),
        })
    }

    /// Whether a message mentions the bot, answers it or gives it a command. The words of a forwarded message are
    /// another person's.
    fn is_directed(&self, message: &Value) -> bool {
        if message["reply_to_message"]["from"]["id"].as_i64() == Some(self.bot.id) {
            return true;
        }
        if is_forwarded(message) {
            return false;
        }
        let mentions = |entity: &Value| match entity["type"].as_str() {
            Some("text_mention") => entity["user"]["id"].as_i64() == Some(self.bot.id),
            Some("mention") => stretch(message, entity)
                .and_then(|name| name.strip_prefix('@').map(|name| self.is_own_name(name)))
                .unwrap_or(false),
            _ => false,
        };
        self.command(message).is_some() || entities(message).iter().any(mentions)
    }

    /// The command that a message begins with, if it is given to this bot.
    fn command(&self, message: &Value) -> Option<String> {
        let is_first = |entity: &&Value| {
            entity["type"].as_str() == Some("bot_command") && entity["offset"].as_u64() == Some(0)
        };
        let entity = entities(message).iter().find(is_first).filter(|_| !is_forwarded(message))?;
        let stretch = stretch(message, entity)?;
        let command = stretch.strip_prefix('/')?;
        let (command, named) =
            command.split_once('@').map_or((command, None), |(command, bot)| (command, Some(bot)));
        named.is_none_or(|name| self.is_own_name(name)).then(|| command.to_ascii_lowercase())
    }

    fn is_own_name(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(&self.bot.username)
    }
}

/// Ids have up to 52 bits and may be negative; they are texts from here on.
fn id(value: &Value) -> Option<Box<str>> {
    value.as_i64().map(|id| id.to_string().into())
}

fn text_of(message: &Value) -> Option<&str> {
    message["text"].as_str().or_else(|| message["caption"].as_str())
}

fn entities(message: &Value) -> &[Value] {
    let field = if message["text"].is_string() { "entities" } else { "caption_entities" };
    message[field].as_array().map_or(&[], Vec::as_slice)
}

/// The stretch of a message's text that an entity is about; `None` if it lies outside.
fn stretch(message: &Value, entity: &Value) -> Option<String> {
    let offset = usize::try_from(entity["offset"].as_u64()?).ok()?;
    let length = usize::try_from(entity["length"].as_u64()?).ok()?;
    let units: Vec<u16> = text_of(message)?.encode_utf16().collect();
    String::from_utf16(units.get(offset..offset.checked_add(length)?)?).ok()
}

fn is_forwarded(message: &Value) -> bool {
    message["forward_origin"].is_object()
}

/// Who has sent a message. Of one that is sent on behalf of a chat, the sender is made up; a bot is nobody.
fn sender(message: &Value) -> InboundSender {
    let from = &message["from"];
    if message["sender_chat"].is_object() {
        let name = message["sender_chat"]["title"].as_str().map(Into::into);
        return InboundSender { external_id: None, name };
    }
    let is_bot = from["is_bot"].as_bool().unwrap_or(false);
    InboundSender { external_id: id(&from["id"]).filter(|_| !is_bot), name: name_of(from) }
}

fn name_of(user: &Value) -> Option<Box<str>> {
    let names = [user["first_name"].as_str(), user["last_name"].as_str()];
    let name = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
    (!name.trim().is_empty()).then(|| name.trim().into())
}

/// What a message quotes or answers: the marked part where somebody has marked one.
fn answered(message: &Value) -> Option<AnsweredMessage> {
    let reply = &message["reply_to_message"];
    let text = message["quote"]["text"].as_str().or_else(|| text_of(reply))?;
    let author = name_of(&reply["from"]).or_else(|| reply["sender_chat"]["title"].as_str().map(Into::into));
    Some(AnsweredMessage { author, text: text.into() })
}

/// What stands for a file without words, which is not read.
fn attachment(message: &Value) -> Option<String> {
    if let Some(name) = message["document"]["file_name"].as_str() {
        return Some(format!("[file: {name}]"));
    }
    [
        "photo", "voice", "audio", "video", "video_note", "animation", "sticker", "location", "contact",
        "document",
    ]
    .into_iter()
    .find(|kind| !message[*kind].is_null())
    .map(|kind| format!("[{}]", kind.replace('_', " ")))
}

fn pressed(query: &Value) -> UpdateKind {
    let Some(query_id) = query["id"].as_str() else { return UpdateKind::Nothing };
    UpdateKind::Pressed(PressedButton {
        query_id: query_id.into(),
        presser: sender(query),
        data: query["data"].as_str().map(Into::into),
        chat: id(&query["message"]["chat"]["id"]),
        message_id: id(&query["message"]["message_id"]),
    })
}

fn left(member: &Value) -> UpdateKind {
    match (member["new_chat_member"]["status"].as_str(), id(&member["chat"]["id"])) {
        (Some("kicked" | "left"), Some(chat)) => UpdateKind::Left { chat },
        _ => UpdateKind::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bot() -> BotAccount {
        BotAccount { id: 42, username: "DeskBot".to_owned() }
    }

    fn kind_of(update: &Value) -> UpdateKind {
        TelegramUpdate::read(update, "desk", &bot()).unwrap().kind
    }

    /// A message in a group (CHANNELS §2.1), written from the published format, not recorded.
    fn in_group(more: Value) -> Value {
        let mut message = json!({
            "message_id": 9, "date": 1_700_000_000,
            "chat": {"id": -100_200_300_i64, "type": "supergroup", "title": "Crew"},
            "from": {"id": 4_503_599_627_370_495_i64, "is_bot": false, "first_name": "Ann", "last_name": "Lee"},
            "text": "hello"
        });
        for (key, value) in more.as_object().unwrap() {
            message[key] = value.clone();
        }
        json!({"update_id": 17, "message": message})
    }

    fn message_in(more: Value) -> InboundMessage {
        match kind_of(&in_group(more)) {
            UpdateKind::Message(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_is_read_with_its_chat_its_sender_and_its_topic() {
        let read = message_in(json!({"is_topic_message": true, "message_thread_id": 5}));
        assert_eq!((&*read.update_key, &*read.message_id, &*read.text), ("17", "9", "hello"));
        assert_eq!((&*read.conversation.chat, &*read.conversation.thread), ("-100200300", "5"));
        assert_eq!((read.company, read.chat_title.as_deref()), (Company::Group, Some("Crew")));
        assert_eq!(read.sender.external_id.as_deref(), Some("4503599627370495"));
        assert_eq!(read.sender.name.as_deref(), Some("Ann Lee"));
        let outside = message_in(json!({"message_thread_id": 5}));
        assert_eq!(&*outside.conversation.thread, "", "an answer is in no topic");
        let direct = message_in(json!({"chat": {"id": 7, "type": "private"}}));
        assert_eq!((direct.company, &*direct.conversation.chat), (Company::Direct, "7"));
    }

    #[test]
    fn what_is_said_to_the_bot_is_directed() {
        let mention = |text: &str, offset: usize, length: usize| json!({"text": text, "entities": [{"type": "mention", "offset": offset, "length": length}]});
        let table = [
            ("plain", json!({}), false),
            ("a mention", mention("@deskbot hi", 0, 8), true),
            ("behind an emoji", mention("👍👍 @DeskBot", 5, 8), true),
            ("counted in characters", mention("👍👍 @DeskBot", 3, 8), false),
            ("another bot", mention("@other hi", 0, 6), false),
            ("beyond the text", mention("@deskbot", 0, 900), false),
            ("far beyond", mention("@deskbot", usize::MAX, usize::MAX), false),
            (
                "by its id",
                json!({"entities": [{"type": "text_mention", "offset": 0, "length": 5, "user": {"id": 42}}]}),
                true,
            ),
            ("an answer to it", json!({"reply_to_message": {"from": {"id": 42}, "text": "yes"}}), true),
            ("an answer to another", json!({"reply_to_message": {"from": {"id": 43}, "text": "yes"}}), false),
            (
                "in a caption",
                json!({"text": null, "caption": "@DeskBot", "photo": [],
                    "caption_entities": [{"type": "mention", "offset": 0, "length": 8}]}),
                true,
            ),
            (
                "forwarded",
                json!({"text": "@deskbot hi", "forward_origin": {"type": "user"},
                    "entities": [{"type": "mention", "offset": 0, "length": 8}]}),
                false,
            ),
            ("entities of a new kind", json!({"entities": [{"type": 7, "offset": "x"}, {}]}), false),
        ];
        for (row, more, is_directed) in table {
            assert_eq!(message_in(more).is_directed, is_directed, "{row}");
        }
    }

    #[test]
    fn new_is_a_command_when_it_is_given_to_this_bot() {
        let command = |text: &str| {
            let length = text.split(' ').next().unwrap().encode_utf16().count();
            in_group(
                json!({"text": text, "entities": [{"type": "bot_command", "offset": 0, "length": length}]}),
            )
        };
        let is_new = |update: &Value| matches!(kind_of(update), UpdateKind::StartOver(_));
        assert!(is_new(&command("/new")) && is_new(&command("/new@deskbot please")));
        for other in ["/new@otherbot", "/newer", "/help"] {
            assert!(!is_new(&command(other)), "{other}");
        }
        let mut forwarded = command("/new");
        forwarded["message"]["forward_origin"] = json!({"type": "user"});
        assert!(!is_new(&forwarded));
        assert!(!is_new(&in_group(json!({"text": "/new"}))), "without an entity it is text");
    }

    #[test]
    fn bots_and_those_who_speak_for_a_chat_are_nobody() {
        let bot = message_in(json!({"from": {"id": 5, "is_bot": true, "first_name": "Robot"}}));
        assert_eq!((bot.sender.external_id, bot.sender.name.as_deref()), (None, Some("Robot")));
        let anonymous = message_in(json!({"sender_chat": {"id": -100, "title": "Crew"}}));
        assert_eq!((anonymous.sender.external_id, anonymous.sender.name.as_deref()), (None, Some("Crew")));
    }

    #[test]
    fn a_message_carries_the_words_that_it_answers() {
        let reply = json!({"from": {"id": 8, "first_name": "Bo"}, "text": "a long story"});
        let whole = message_in(json!({"reply_to_message": reply})).answered.unwrap();
        assert_eq!((whole.author.as_deref(), &*whole.text), (Some("Bo"), "a long story"));
        let marked =
            message_in(json!({"reply_to_message": reply, "quote": {"text": "story"}})).answered.unwrap();
        assert_eq!(&*marked.text, "story");
        assert_eq!(message_in(json!({})).answered, None);
    }

    #[test]
    fn a_file_without_words_is_named_and_a_service_message_is_nothing() {
        assert_eq!(
            &*message_in(json!({"text": null, "document": {"file_name": "plan.pdf"}})).text,
            "[file: plan.pdf]"
        );
        assert_eq!(&*message_in(json!({"text": null, "voice": {"duration": 3}})).text, "[voice]");
        assert_eq!(kind_of(&in_group(json!({"text": null, "new_chat_members": []}))), UpdateKind::Nothing);
    }

    #[test]
    fn other_kinds_of_updates_are_read_or_nothing() {
        let edited = json!({"update_id": 3, "edited_message": in_group(json!({}))["message"]});
        assert!(matches!(kind_of(&edited), UpdateKind::Edited(message) if &*message.message_id == "9"));
        let moved = in_group(json!({"migrate_to_chat_id": -100_999}));
        assert_eq!(kind_of(&moved), UpdateKind::Moved { from: "-100200300".into(), to: "-100999".into() });
        let gone = json!({"update_id": 4, "my_chat_member": {
            "chat": {"id": 7}, "new_chat_member": {"status": "kicked"}}});
        assert_eq!(kind_of(&gone), UpdateKind::Left { chat: "7".into() });
        let press = json!({"update_id": 5, "callback_query": {
            "id": "99", "from": {"id": 8, "first_name": "Bo"}, "message": {"chat": {"id": 7}, "message_id": 3}}});
        let UpdateKind::Pressed(press) = kind_of(&press) else { panic!() };
        assert_eq!(
            (&*press.query_id, press.data, press.presser.external_id.as_deref()),
            ("99", None, Some("8"))
        );
        for nothing in [
            json!({"update_id": 6}),
            json!({"update_id": 6, "poll": {}}),
            json!({"update_id": 6, "message": 5}),
        ] {
            assert_eq!(kind_of(&nothing), UpdateKind::Nothing, "{nothing}");
        }
        for none in [json!({}), json!([]), json!({"update_id": "x"})] {
            assert_eq!(TelegramUpdate::read(&none, "desk", &bot()), None);
        }
    }
}
