//! A bot of Telegram at work: while this node holds its channel, it polls for updates and sends what is due. An update is
//! confirmed after its commit. A node whose lease has ended without an answer stops by its own clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sederunt_agents::talk::Conversations;
use sederunt_core::channel::inbound::{ChannelProfile, InboundMessage};
use sederunt_core::channel::{Delivery, DeliveryNote, GiveUpReason, delivery};
use sederunt_core::engine::{ChannelHold, Engine};
use sederunt_core::{Error, limits};
use tokio::sync::watch;

use super::api::{ApiFailure, ChatPlace, TelegramApi};
use super::pace::SendingPace;
use super::rich_text::{RichText, units};
use super::update::{BotAccount, TelegramUpdate, UpdateKind};
use super::verdict::CallVerdict;

/// UTF-16 units of one message.
const MESSAGE_UNITS_MAX: usize = 4096;
/// Messages that one reply may become.
const REPLY_PARTS_MAX: usize = 10;
/// How often the deliverer looks for what is due.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The wait after a failure of Telegram or of the store.
const FAILURE_WAIT: Duration = Duration::from_secs(1);
/// Updates that are forgotten at a time.
const FORGOTTEN_MAX: usize = 1_000;

/// A bot, its channel and the conversations that it is held in.
#[derive(Debug)]
pub struct TelegramRunner {
    profile: ChannelProfile,
    api: TelegramApi,
    conversations: Conversations,
    /// Which node this is; no two have the same.
    node: Box<str>,
    /// The chats in which the bot works; `None`: all of them.
    allowed: Option<Vec<Box<str>>>,
    /// The hold under which this node works now.
    held: Mutex<Option<ChannelHold>>,
}

/// A hold on the channel, and until when it is good by this node's clock.
struct HeldChannel {
    hold: ChannelHold,
    good_until: Mutex<Instant>,
}

impl HeldChannel {
    fn is_good(&self) -> bool {
        Instant::now() < *self.good_until.lock()
    }
}

impl TelegramRunner {
    pub fn new(profile: ChannelProfile, api: TelegramApi, conversations: Conversations, node: &str) -> Self {
        Self { profile, api, conversations, node: node.into(), allowed: None, held: Mutex::default() }
    }

    /// The same in these chats alone: what is told of others is not kept.
    #[must_use]
    pub fn within(self, allowed: Option<Vec<Box<str>>>) -> Self {
        Self { allowed, ..self }
    }

    /// Works until it is told to stop, and lets go of the channel.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.work() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        let held = self.held.lock().take();
        if let Some(hold) = held
            && let Err(error) = self.engine().release_channel(&hold).await
        {
            self.warn("it could not be let go", error.code());
        }
    }

    async fn work(&self) {
        loop {
            let asked = Instant::now();
            match self.engine().hold_channel(&self.profile, &self.node).await {
                Ok(Some(hold)) => {
                    let good_until = Mutex::new(asked + limits::CHANNEL_LEASE);
                    *self.held.lock() = Some(hold.clone());
                    self.serve(&HeldChannel { hold, good_until }).await;
                }
                Ok(None) => tokio::time::sleep(limits::CHANNEL_LEASE / 3).await,
                Err(error) => {
                    self.warn("it could not be held", error.code());
                    tokio::time::sleep(FAILURE_WAIT).await;
                }
            }
        }
    }

    /// Reads and sends for as long as this node holds the channel.
    async fn serve(&self, held: &HeldChannel) {
        tokio::select! {
            () = self.renew(held) => {}
            () = self.poll(held) => {}
            () = self.deliver(held) => {}
        }
    }

    async fn renew(&self, held: &HeldChannel) {
        while held.is_good() {
            tokio::time::sleep(limits::CHANNEL_LEASE / 3).await;
            let asked = Instant::now();
            match self.engine().renew_channel(&held.hold).await {
                Ok(true) => *held.good_until.lock() = asked + limits::CHANNEL_LEASE,
                Ok(false) => return,
                Err(error) => self.warn("its lease could not be renewed", error.code()),
            }
            if let Err(error) = self.engine().forget_channel_updates(&held.hold, FORGOTTEN_MAX).await {
                self.warn("old updates could not be forgotten", error.code());
            }
        }
    }

    async fn poll(&self, held: &HeldChannel) {
        let mut bot: Option<BotAccount> = None;
        let mut offset = None;
        while held.is_good() {
            let polled = match &bot {
                Some(_) => self.api.updates(offset).await,
                None => match self.api.account().await {
                    Ok(account) => {
                        bot = Some(account);
                        continue;
                    }
                    Err(failure) => Err(failure),
                },
            };
            match (polled, &bot) {
                (Ok(updates), Some(bot)) => {
                    for update in &updates {
                        if !held.is_good() {
                            return;
                        }
                        if !self.take(update, bot).await {
                            tokio::time::sleep(FAILURE_WAIT).await;
                            break;
                        }
                        offset = update["update_id"].as_i64().map(|id| id + 1).or(offset);
                    }
                }
                (Ok(_), None) => {}
                (Err(failure), _) => self.failed(held, &failure).await,
            }
        }
    }

    async fn failed(&self, held: &HeldChannel, failure: &ApiFailure) {
        let text = failure.to_string();
        tracing::warn!(target: "sederunt::channels", channel = %self.profile.name, error = %text, "Telegram does not hand out updates");
        if let Err(error) = self.engine().report_channel(&held.hold, Some(&text)).await {
            self.warn("an error could not be noted", error.code());
        }
        tokio::time::sleep(FAILURE_WAIT).await;
    }

    /// Takes an update in. Returns whether it may be confirmed.
    async fn take(&self, update: &serde_json::Value, bot: &BotAccount) -> bool {
        let Some(read) = TelegramUpdate::read(update, &self.profile.name, bot) else { return true };
        let is_allowed = |message: &InboundMessage| {
            self.allowed.as_ref().is_none_or(|chats| chats.contains(&message.conversation.chat))
        };
        let taken = match read.kind {
            UpdateKind::Message(message) | UpdateKind::StartOver(message) if !is_allowed(&message) => Ok(()),
            UpdateKind::Message(message) => match self.conversations.receive(&self.profile, &message).await {
                Ok(Some(code)) => {
                    self.tell_code(&message, code).await;
                    Ok(())
                }
                received => received.map(drop),
            },
            UpdateKind::StartOver(command) => self.conversations.start_over(&self.profile, &command).await,
            UpdateKind::Edited(_)
            | UpdateKind::Moved { .. }
            | UpdateKind::Left { .. }
            | UpdateKind::Pressed(_)
            | UpdateKind::Nothing => Ok(()),
        };
        match taken {
            Ok(()) => true,
            // What will be refused each time must not hold up what is behind it, nor may a stranger who sends too much.
            Err(
                Error::Invalid { .. } | Error::TooLarge { .. } | Error::Denied(_) | Error::RateLimited(_),
            ) => true,
            Err(error) => {
                self.warn("an update could not be kept; it is asked for again", error.code());
                false
            }
        }
    }

    /// Tells a code without filing it. One that gets lost is asked for again.
    async fn tell_code(&self, asked_by: &InboundMessage, code: String) {
        let place = &asked_by.conversation;
        let to = ChatPlace { chat: &place.chat, thread: &place.thread };
        if !matches!(self.api.send(to, &RichText::plain(&code)).await, CallVerdict::Done { .. }) {
            self.warn("a code could not be told", "unavailable");
        }
    }

    async fn deliver(&self, held: &HeldChannel) {
        let mut pace = SendingPace::default();
        while held.is_good() {
            let due = match self.engine().due_deliveries(&held.hold).await {
                Ok(due) => due,
                Err(error) => {
                    self.warn("what is due could not be read", error.code());
                    Vec::new()
                }
            };
            let mut has_sent = false;
            for delivery in due {
                match self.send(held, &mut pace, delivery).await {
                    Ok(sent) => has_sent |= sent,
                    Err(Error::Conflict(_)) => return,
                    Err(error) => self.warn("a delivery could not be noted", error.code()),
                }
            }
            if !has_sent {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Sends the next part of a delivery, if its chat may have one now. Returns whether it did.
    async fn send(
        &self,
        held: &HeldChannel,
        pace: &mut SendingPace,
        delivery: Delivery,
    ) -> Result<bool, Error> {
        let note = |note| self.engine().note_delivery(&held.hold, &delivery, note);
        let words = self.engine().delivery_words(&held.hold, &delivery).await?.unwrap_or_default();
        let parts = RichText::of_markdown(&words).split(MESSAGE_UNITS_MAX, REPLY_PARTS_MAX);
        let sent = delivery.parts_sent as usize;
        let Some(part) = parts.get(sent) else {
            note(DeliveryNote::Sent).await?;
            return Ok(true);
        };
        if !held.is_good() || !pace.take(&delivery.key.chat, Instant::now()) {
            return Ok(false);
        }
        let to = ChatPlace { chat: &delivery.key.chat, thread: &delivery.key.thread };
        let mut verdict = self.api.send(to, part).await;
        if verdict == CallVerdict::PlainOnce {
            verdict = match self.api.send(to, &RichText::plain(&part.text)).await {
                CallVerdict::PlainOnce => CallVerdict::GiveUp(GiveUpReason::MessageRefused),
                verdict => verdict,
            };
        }
        match verdict {
            CallVerdict::Done { .. } if sent + 1 == parts.len() => note(DeliveryNote::Sent).await?,
            CallVerdict::Done { message_id } => {
                let message_ids = delivery.message_ids.iter().cloned().chain(message_id).collect();
                note(DeliveryNote::Shown { parts_sent: delivery.parts_sent + 1, message_ids }).await?;
            }
            CallVerdict::SlowDown(after) => {
                note(DeliveryNote::Later { after, reason: "Telegram asks for patience".into() }).await?;
            }
            CallVerdict::TryAgain | CallVerdict::PlainOnce => {
                let after = delivery::wait_after(delivery.attempts + 1);
                let reason = "Telegram could not take it".into();
                note(DeliveryNote::Later { after, reason }).await?;
            }
            CallVerdict::GiveUp(reason) => {
                tracing::warn!(target: "sederunt::channels", channel = %self.profile.name, reason = reason.as_str(), units = units(&part.text), "a reply is given up");
                note(DeliveryNote::GivenUp { reason }).await?;
            }
        }
        Ok(true)
    }

    fn engine(&self) -> &Engine {
        self.conversations.engine()
    }

    fn warn(&self, what: &str, code: &str) {
        tracing::warn!(target: "sederunt::channels", channel = %self.profile.name, code, "{what}");
    }
}
