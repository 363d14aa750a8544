//! Between wire types and the types of `sederunt-agents`, which the crate of the wire types does not know.

use sederunt_agents::model::Message;
use sederunt_agents::talk::TurnReply;
use sederunt_agents::talk::end::{Ending, Farewell};
use sederunt_agents::talk::pipeline::StatelessAnswer;
use sederunt_api::wire::talk::{ChatResponse, TurnRequest, TurnRole};
use sederunt_api::wire::thread::EndDone;
use sederunt_api::wire::{Count, Raw};
use sederunt_core::Error;
use sederunt_core::json::Json;

/// The messages of a stateless turn.
pub fn turn_messages(request: TurnRequest) -> Vec<Message> {
    request
        .messages
        .into_iter()
        .map(|message| match message.role {
            TurnRole::User => Message::user(message.content),
            TurnRole::Assistant => Message::assistant(message.content),
        })
        .collect()
}

/// The answer of a turn in a conversation.
pub fn chat_response(reply: TurnReply) -> Result<ChatResponse, Error> {
    Ok(ChatResponse {
        response_text: reply.text,
        response_type: reply.kind,
        approval_id: reply.approval_id,
        response_style: reply.style,
        therapeutic_approach: reply.approach,
        session_action: reply.session_action,
        crisis: serde_json::from_value(reply.crisis).map_err(Error::internal)?,
        diagnostics: Raw(Json::of(&reply.diagnostics)?),
        sequence: Some(Count(reply.sequence)),
        stopped: reply.stopped,
    })
}

/// The answer of a turn that nothing was kept of.
pub fn stateless_response(answer: StatelessAnswer) -> Result<ChatResponse, Error> {
    let crisis = serde_json::to_value(&answer.crisis).map_err(Error::internal)?;
    Ok(ChatResponse {
        response_text: answer.text,
        response_type: answer.route.as_str().to_owned(),
        approval_id: None,
        response_style: answer.route.style().to_owned(),
        therapeutic_approach: None,
        session_action: answer.action.as_str().to_owned(),
        crisis: serde_json::from_value(crisis).map_err(Error::internal)?,
        diagnostics: Raw(Json::of(&answer.diagnostics)?),
        sequence: None,
        stopped: false,
    })
}

/// How a sitting ended.
pub fn end_done(ending: Ending) -> EndDone {
    let of = |farewell: Farewell, finalized, detail: Option<&str>| {
        let turn_count = farewell.turn_count;
        let detail = detail.map(str::to_owned);
        match farewell.summary {
            Some(made) => EndDone {
                finalized,
                summary: Some(made.summary),
                themes: made.themes,
                mood_opened: Some(made.mood_opened),
                mood_closed: Some(made.mood_closed),
                turn_count,
                open_loops: made.open_loops,
                resolved_threads: made.resolved_threads,
                detail,
            },
            None => EndDone { finalized, turn_count, detail, ..EndDone::default() },
        }
    };
    match ending {
        Ending::Ended(farewell) if farewell.summary.is_none() => {
            of(farewell, true, Some("the sitting was too short to sum up"))
        }
        Ending::Ended(farewell) => of(farewell, true, None),
        Ending::Failed(farewell) => {
            of(farewell, false, Some("it could not be summarised now and stays open; try again later"))
        }
        Ending::Nothing => EndDone::nothing(),
    }
}
