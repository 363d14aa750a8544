//! Spoken conversations: instructions for a realtime model, transcripts, its tools, and the end.

use axum::Json;
use axum::extract::State;
use sederunt_agents::talk::end::EndWish;
use sederunt_agents::talk::voice::Transcript;
use sederunt_api::wire::thread::EndDone;
use sederunt_api::wire::voice::{
    VoiceEnd, VoiceSession, VoiceStart, VoiceToolCall, VoiceToolDone, VoiceTurn, VoiceTurnDone,
};
use sederunt_api::wire::{Count, Raw};
use sederunt_core::feedback::{Modality, RatingSource};
use sederunt_core::{Error, SessionId};

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::body::Input;
use crate::http::error::Result;
use crate::http::from_agents::end_done;

/// Start a spoken conversation
///
/// The browser and the realtime provider exchange the sound. The answer has the instructions and tools for the
/// realtime model.
#[utoipa::path(
    post, path = "/api/voice/session", operation_id = "voice_session", tag = "talk", request_body = VoiceStart,
    responses((status = 200, description = "The instructions and tools", body = VoiceSession))
)]
pub async fn session(
    State(app): State<App>,
    caller: Caller,
    input: Input<VoiceStart>,
) -> Result<Json<VoiceSession>> {
    let asked = input.body;
    let caller = app.auth.acting_for(&caller, asked.user_id.as_deref()).await?;
    let id =
        app.conversations()?.open(&caller.actor, &asked.thread_id, asked.memory_mode.map(Into::into)).await?;
    let told = app.conversations()?.voice_session(&caller.actor, &id, asked.user_id.as_deref()).await?;
    Ok(Json(VoiceSession {
        thread_id: id.to_string(),
        client_secret: told.client_secret().map(str::to_owned),
        instructions: told.instructions,
        tools: Raw(told.tools),
        memory_text: told.memory_text,
    }))
}

/// Append a spoken turn
///
/// No model runs. The same `external_id` again changes nothing.
#[utoipa::path(
    post, path = "/api/voice/turn", operation_id = "voice_turn", tag = "talk", request_body = VoiceTurn,
    responses((status = 200, description = "Written to the audit trail", body = VoiceTurnDone))
)]
pub async fn turn(
    State(app): State<App>,
    caller: Caller,
    input: Input<VoiceTurn>,
) -> Result<Json<VoiceTurnDone>> {
    let asked = input.body;
    let caller = app.auth.acting_for(&caller, asked.user_id.as_deref()).await?;
    let id =
        app.conversations()?.open(&caller.actor, &asked.thread_id, asked.memory_mode.map(Into::into)).await?;
    let transcript = Transcript {
        user_text: asked.user_text,
        assistant_text: asked.assistant_text,
        external_id: asked.external_id,
        user: asked.user_id,
    };
    let done = app.conversations()?.voice_turn(&caller.actor, &id, transcript).await?;
    Ok(Json(VoiceTurnDone { sequence: Count(done.sequence), repeated: done.repeated }))
}

/// Call a tool for the realtime model
#[utoipa::path(
    post, path = "/api/voice/tools", operation_id = "voice_tools", tag = "talk", request_body = VoiceToolCall,
    responses((status = 200, description = "The result", body = VoiceToolDone))
)]
pub async fn tools(
    State(app): State<App>,
    caller: Caller,
    input: Input<VoiceToolCall>,
) -> Result<Json<VoiceToolDone>> {
    let asked = input.body;
    let caller = app.auth.acting_for(&caller, asked.user_id.as_deref()).await?;
    let id = thread(&asked.thread_id)?;
    let arguments = asked.arguments.map_or_else(sederunt_core::json::Json::empty_object, |raw| raw.0);
    let result = app
        .conversations()?
        .voice_tool(&caller.actor, &id, asked.user_id.as_deref(), &asked.name, &arguments)
        .await?;
    Ok(Json(VoiceToolDone { result: Raw(result) }))
}

/// End a spoken sitting
#[utoipa::path(
    post, path = "/api/voice/end", operation_id = "voice_end", tag = "talk", request_body = VoiceEnd,
    responses((status = 200, description = "How it ended", body = EndDone))
)]
pub async fn end(State(app): State<App>, caller: Caller, input: Input<VoiceEnd>) -> Result<Json<EndDone>> {
    let asked = input.body;
    let id = thread(&asked.thread_id)?;
    let wish = EndWish {
        rating: asked.feedback.map(Into::into),
        source: RatingSource::VoiceEnd,
        modality: Modality::Voice,
        discard: asked.discard.unwrap_or(false),
    };
    match app.conversations()?.end(&caller.actor, &id, wish).await {
        Ok(ending) => Ok(Json(end_done(ending))),
        Err(Error::NotFound) => Ok(Json(EndDone::nothing())),
        Err(error) => Err(error.into()),
    }
}

fn thread(text: &str) -> Result<SessionId, Error> {
    SessionId::parse(text).map_err(|_| Error::invalid("thread_id", "is no id of a conversation"))
}
