//! How fast a bot sends: about one message a second in a chat, twenty a minute in a group, thirty a second in all. Pure;
//! whoever asks brings the time.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

const IN_CHAT: Duration = Duration::from_secs(1);
const GROUP_WINDOW: Duration = Duration::from_secs(60);
const GROUP_MESSAGES: usize = 20;
const BOT_WINDOW: Duration = Duration::from_secs(1);
const BOT_MESSAGES: usize = 30;

/// What a bot has sent lately.
#[derive(Debug, Default)]
pub struct SendingPace {
    chats: HashMap<Box<str>, VecDeque<Instant>>,
    all: VecDeque<Instant>,
}

impl SendingPace {
    /// Counts a message to a chat if it may be sent now. A chat that has had its share does not hold up others.
    pub fn take(&mut self, chat: &str, now: Instant) -> bool {
        forget(&mut self.all, now, BOT_WINDOW);
        self.chats.retain(|_, sent| {
            forget(sent, now, GROUP_WINDOW);
            !sent.is_empty()
        });
        let sent = self.chats.entry(chat.into()).or_default();
        let is_soon = sent.back().is_some_and(|last| now.duration_since(*last) < IN_CHAT);
        // Ids of groups are negative.
        let is_full = chat.starts_with('-') && sent.len() >= GROUP_MESSAGES;
        if is_soon || is_full || self.all.len() >= BOT_MESSAGES {
            return false;
        }
        sent.push_back(now);
        self.all.push_back(now);
        true
    }
}

fn forget(sent: &mut VecDeque<Instant>, now: Instant, window: Duration) {
    while sent.front().is_some_and(|at| now.duration_since(*at) >= window) {
        sent.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_has_one_message_a_second_and_a_group_twenty_a_minute() {
        let (mut pace, start) = (SendingPace::default(), Instant::now());
        let at = |secs: u64| start + Duration::from_secs(secs);
        assert!(pace.take("7", at(0)) && !pace.take("7", at(0)) && pace.take("8", at(0)));
        assert!(pace.take("7", at(1)));
        let sent = (0..60).filter(|n| pace.take("-100", at(*n))).count();
        assert_eq!(sent, GROUP_MESSAGES);
        assert!(!pace.take("-100", at(59)) && pace.take("-100", at(60)));
        assert!((0..60).all(|n| pace.take("9", at(100 + n))), "a private chat has no minute");
    }

    #[test]
    fn a_bot_has_thirty_messages_a_second_and_a_full_chat_holds_up_no_other() {
        let (mut pace, now) = (SendingPace::default(), Instant::now());
        let sent = (0..40).filter(|n| pace.take(&n.to_string(), now)).count();
        assert_eq!(sent, BOT_MESSAGES);
        let later = now + BOT_WINDOW;
        assert!(pace.take("1", later) && !pace.take("1", later) && pace.take("39", later));
    }
}
