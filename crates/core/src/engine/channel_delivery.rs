//! Commands of whoever sends for a channel: what is due, its words, and what became of it. Everything that is noted
//! rests on the hold on the channel.

use smallvec::smallvec;

use super::Engine;
use super::channels::ChannelHold;
use crate::channel::{Delivery, DeliveryNote};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventQuery, EventType, NewEvent};
use crate::json::Json;
use crate::limits;
use crate::store::{Change, ChangePart, Guard, PartTarget, Record, Write};
use crate::talk::silence::shown_text;

/// What a person is told when a turn has failed. What went wrong is in the log.
const TURN_FAILED: &str = "Something went wrong, and this has no answer. Please say it again.";

impl Engine {
    /// What a channel has to send now: of each conversation the first that waits.
    pub async fn due_deliveries(&self, hold: &ChannelHold) -> Result<Vec<Delivery>> {
        let now = self.tenant.now().await?;
        self.tenant.due_deliveries(&hold.tenant, &hold.channel, now, limits::DELIVERIES_TAKEN_MAX).await
    }

    /// The words of a delivery: what its turn has said, in order, or a sentence if the turn has failed. `None`: the turn
    /// has chosen silence, and nothing is sent.
    pub async fn delivery_words(&self, hold: &ChannelHold, delivery: &Delivery) -> Result<Option<String>> {
        if let Some(sentence) = &delivery.text {
            return Ok(Some(sentence.to_string()));
        }
        let query = EventQuery {
            after: delivery.turn,
            before: Some(delivery.sequence + 1),
            types: vec!["agent.message".to_owned(), "session.turn".to_owned()],
            limit: limits::PAGE_ROWS_MAX,
            ..EventQuery::default()
        };
        let page = self.sessions.events(&hold.tenant, &delivery.session, query).await?;
        let is_said = |event: &&crate::Event| {
            event.kind.as_str() == "agent.message" && event.turn == Some(delivery.turn)
        };
        let said: Vec<String> = page.events.iter().filter(is_said).filter_map(crate::Event::text).collect();
        let end = page.events.iter().find(|event| event.sequence == delivery.sequence);
        let outcome = end.and_then(|end| end.metadata.as_ref()).map(Json::value).unwrap_or_default();
        let has_failed = matches!(outcome["outcome"].as_str(), Some("failed" | "interrupted" | "timed_out"));
        let shown: Vec<_> = said.iter().map(|text| shown_text(text)).collect();
        let mut words: Vec<&str> =
            shown.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        if has_failed {
            words.push(TURN_FAILED);
        }
        Ok((!words.is_empty()).then(|| words.join("\n\n")))
    }

    /// Notes what became of a delivery. Fenced if the channel is held by another node now. What is given up is told in the
    /// log of its session, in the same commit.
    pub async fn note_delivery(
        &self,
        hold: &ChannelHold,
        delivery: &Delivery,
        note: DeliveryNote,
    ) -> Result<()> {
        let mut change = Change::new(hold.tenant.clone());
        if let DeliveryNote::GivenUp { reason } = &note {
            let said = Json::of(&serde_json::json!({
                "kind": "delivery_failed", "of": delivery.sequence, "reason": reason.as_str(),
            }))?;
            let event = NewEvent::engine(EventType::known("external.event"), Some(said));
            change = change.part(ChangePart {
                on: PartTarget::Session(delivery.session.clone()),
                guard: Guard::default(),
                writes: smallvec![Write::Append(vec![event])],
            });
        }
        let noted = Record::NoteDelivery {
            id: delivery.id.clone(),
            channel: hold.channel.clone(),
            epoch: hold.epoch,
            note,
        };
        match self.commit(change.record(noted)).await {
            Ok(_) => Ok(()),
            Err(Error::Conflict(Conflict::SessionBusy)) => Err(Conflict::Fenced.into()),
            // The session was deleted meanwhile, and the delivery with it.
            Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
