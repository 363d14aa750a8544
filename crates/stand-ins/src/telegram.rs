//! A stand-in for the Bot API of Telegram. It hands out updates by `getUpdates` until they are confirmed, refuses texts
//! and entities that Telegram refuses, and answers as a test has scripted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The account of the bot.
pub const BOT_ID: i64 = 42;
pub const BOT_USERNAME: &str = "desk_bot";

/// UTF-16 units of a message.
const TEXT_UNITS_MAX: usize = 4096;

/// A running stand-in; it ends with the process.
#[derive(Clone, Debug)]
pub struct TelegramStandIn {
    /// What the addresses of its methods begin with.
    pub base: String,
    pub token: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    token: String,
    state: Mutex<BotState>,
    /// Something has been pushed.
    stirred: Notify,
}

#[derive(Debug, Default)]
struct BotState {
    updates: VecDeque<QueuedUpdate>,
    next_update: i64,
    next_message: i64,
    calls: Vec<(String, Value)>,
    scripted: HashMap<String, VecDeque<ScriptedAnswer>>,
    is_polled: bool,
}

#[derive(Debug)]
struct QueuedUpdate {
    update: Value,
    /// It was handed out, and goes once it is confirmed.
    is_handed_out: bool,
}

/// What the next call of a method is answered with.
#[derive(Clone, Debug)]
pub enum ScriptedAnswer {
    /// This status and body, and nothing is done.
    Refuse(u16, Value),
    /// It is done, and answered so late that the caller has gone.
    DoneButUnheard(Duration),
}

impl TelegramStandIn {
    /// Starts one on a free port of loopback.
    pub async fn start() -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let base = format!("http://{}", listener.local_addr()?);
        let token = "4200:stand-in".to_owned();
        let shared = Arc::new(Shared { token: token.clone(), ..Shared::default() });
        let routes = Router::new().route("/{bot}/{method}", post(call)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { base, token, shared })
    }

    /// Hands out an update under the next number, which is returned.
    pub fn push(&self, kind: &str, body: Value) -> i64 {
        let number = {
            let mut state = self.shared.state.lock();
            state.next_update += 1;
            state.next_update
        };
        self.push_again(number, kind, body);
        number
    }

    /// Hands out an update under a number that may have been used, and confirmed, before.
    pub fn push_again(&self, number: i64, kind: &str, body: Value) {
        let update = json!({"update_id": number, kind: body});
        self.shared.state.lock().updates.push_back(QueuedUpdate { update, is_handed_out: false });
        self.shared.stirred.notify_waiters();
    }

    /// A text from a person in a private chat.
    pub fn say(&self, person: i64, text: &str) -> i64 {
        self.push("message", message(person, person, "private", text))
    }

    /// A text from a person in a group.
    pub fn say_in(&self, group: i64, person: i64, text: &str) -> i64 {
        self.push("message", message(group, person, "supergroup", text))
    }

    /// Answers the next call of a method as a test wants it.
    pub fn script(&self, method: &str, answer: ScriptedAnswer) {
        self.shared.state.lock().scripted.entry(method.to_owned()).or_default().push_back(answer);
    }

    /// The bodies of the calls of a method, oldest first; refused ones too.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let state = self.shared.state.lock();
        state.calls.iter().filter(|(called, _)| called == method).map(|(_, body)| body.clone()).collect()
    }
}

/// The last number of a message that somebody sent.
static LAST_MESSAGE: AtomicI64 = AtomicI64::new(0);

/// A message as the Bot API describes it, with the entities of commands and mentions at its start, and a number of its
/// own.
pub fn message(chat: i64, person: i64, chat_type: &str, text: &str) -> Value {
    let first = text.split(' ').next().unwrap_or_default();
    let kind = match first.chars().next() {
        Some('/') => Some("bot_command"),
        Some('@') => Some("mention"),
        _ => None,
    };
    let length = first.encode_utf16().count();
    let entities: Vec<Value> =
        kind.map(|kind| json!({"type": kind, "offset": 0, "length": length})).into_iter().collect();
    json!({
        "message_id": LAST_MESSAGE.fetch_add(1, Ordering::Relaxed) + 1, "date": 1_700_000_000, "text": text, "entities": entities,
        "chat": {"id": chat, "type": chat_type, "title": "Crew"},
        "from": {"id": person, "is_bot": false, "first_name": "Ann"},
    })
}

async fn call(
    State(shared): State<Arc<Shared>>,
    Path((bot, method)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Response {
    if bot.strip_prefix("bot") != Some(&shared.token) {
        return refused(401, "Unauthorized");
    }
    let scripted = {
        let mut state = shared.state.lock();
        state.calls.push((method.clone(), body.clone()));
        state.scripted.get_mut(&method).and_then(VecDeque::pop_front)
    };
    match scripted {
        Some(ScriptedAnswer::Refuse(status, body)) => return answer(status, body),
        Some(ScriptedAnswer::DoneButUnheard(wait)) => {
            let done = carry_out(&shared, &method, &body).await;
            tokio::time::sleep(wait).await;
            return done;
        }
        None => {}
    }
    carry_out(&shared, &method, &body).await
}

async fn carry_out(shared: &Shared, method: &str, body: &Value) -> Response {
    match method {
        "getMe" => result(json!({
            "id": BOT_ID, "is_bot": true, "first_name": "Desk", "username": BOT_USERNAME,
            "can_read_all_group_messages": true,
        })),
        "getUpdates" => updates(shared, body).await,
        "sendMessage" => match fault_of(body) {
            Some(fault) => refused(400, fault),
            None => {
                let mut state = shared.state.lock();
                state.next_message += 1;
                result(json!({"message_id": 1_000 + state.next_message, "chat": {"id": body["chat_id"]}}))
            }
        },
        "editMessageText" => match fault_of(body) {
            Some(fault) => refused(400, fault),
            None => result(json!({"message_id": body["message_id"]})),
        },
        "deleteMessage"
        | "sendChatAction"
        | "answerCallbackQuery"
        | "setWebhook"
        | "deleteWebhook"
        | "editMessageReplyMarkup" => result(json!(true)),
        _ => refused(404, "Not Found"),
    }
}

/// Confirms what is before the offset, and waits for something to hand out.
async fn updates(shared: &Shared, body: &Value) -> Response {
    let offset = body["offset"].as_i64().unwrap_or(0);
    {
        let mut state = shared.state.lock();
        if state.is_polled {
            return refused(409, "Conflict: terminated by other getUpdates request");
        }
        state.is_polled = true;
        let is_confirmed = |queued: &QueuedUpdate| {
            queued.is_handed_out && queued.update["update_id"].as_i64().is_none_or(|id| id < offset)
        };
        state.updates.retain(|queued| !is_confirmed(queued));
    }
    let _polled = PollGuard(shared);
    let patience = Duration::from_secs(body["timeout"].as_u64().unwrap_or(0)).min(Duration::from_secs(5));
    let wait = async {
        loop {
            let stirred = shared.stirred.notified();
            let hand_out = |queued: &mut QueuedUpdate| {
                queued.is_handed_out = true;
                queued.update.clone()
            };
            let waiting: Vec<Value> =
                shared.state.lock().updates.iter_mut().take(100).map(hand_out).collect();
            if !waiting.is_empty() {
                return waiting;
            }
            stirred.await;
        }
    };
    result(json!(tokio::time::timeout(patience, wait).await.unwrap_or_default()))
}

/// One poll at a time, however it ends.
struct PollGuard<'a>(&'a Shared);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_polled = false;
    }
}

/// What Telegram has against a text to be sent.
fn fault_of(body: &Value) -> Option<&'static str> {
    let text = body["text"].as_str().unwrap_or_default();
    let units = text.encode_utf16().count();
    if text.trim().is_empty() {
        return Some("Bad Request: message text is empty");
    }
    if units > TEXT_UNITS_MAX {
        return Some("Bad Request: message is too long");
    }
    let lies_outside = |entity: &Value| {
        let end = entity["offset"].as_u64().zip(entity["length"].as_u64());
        end.is_none_or(|(offset, length)| length == 0 || offset + length > units as u64)
    };
    let entities = body["entities"].as_array().map_or(&[][..], Vec::as_slice);
    if entities.len() > 100 || entities.iter().any(lies_outside) {
        return Some("Bad Request: can't parse entities: an entity lies outside the text");
    }
    let buttons = body["reply_markup"]["inline_keyboard"].as_array().map_or(&[][..], Vec::as_slice);
    let data = |row: &Value| row.as_array().cloned().unwrap_or_default();
    let is_long = |button: &Value| button["callback_data"].as_str().is_some_and(|data| data.len() > 64);
    buttons.iter().flat_map(data).any(|button| is_long(&button)).then_some("Bad Request: BUTTON_DATA_INVALID")
}

fn result(result: Value) -> Response {
    answer(200, json!({"ok": true, "result": result}))
}

fn refused(code: u16, description: &str) -> Response {
    answer(code, json!({"ok": false, "error_code": code, "description": description}))
}

fn answer(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(body)).into_response()
}
