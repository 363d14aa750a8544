//! How servers ask for input, in both forms of the protocol: as the answer to a call (2026-07-28), and as a request of
//! their own while a call is under way (before).
//!
//! A request of an older server does not say which call it belongs to. It is put before a person only if there is no
//! doubt: one call is under way on the connection, and none before it was given up without an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, InputRequest as WireRequest,
    InputRequiredResult,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use sederunt_core::json::Json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::elicitation::{InputAnswer, InputAsker, InputForm, InputRequest};
use super::Error;
use crate::limits;

/// Reads what a server wants before it goes on. Without forms, no person is asked: the answers are sent as they are.
pub(super) fn read(asked: InputRequiredResult, rounds: u32) -> Result<InputRequest, Error> {
    let requests = asked.input_requests.unwrap_or_default();
    if requests.len() > limits::INPUT_FORMS_MAX {
        return Err(Error::Malformed { what: "asks for too much input at once" });
    }
    if asked.request_state.as_ref().is_some_and(|state| state.len() > limits::INPUT_STATE_BYTES_MAX) {
        return Err(Error::InputTooLarge { limit: limits::INPUT_STATE_BYTES_MAX });
    }
    let (mut forms, mut responses) = (Vec::new(), BTreeMap::new());
    for (key, request) in requests {
        match request {
            WireRequest::Elicitation(request) => match form(key.clone(), request.params)? {
                Some(form) => forms.push(form),
                None => drop(responses.insert(key, InputAnswer::Decline.to_value())),
            },
            WireRequest::CreateMessage(_) => return Err(Error::InputUnsupported { kind: "sampling" }),
            WireRequest::ListRoots(_) => return Err(Error::InputUnsupported { kind: "roots" }),
            _ => return Err(Error::InputUnsupported { kind: "an unknown kind" }),
        }
    }
    Ok(InputRequest { forms, responses, state: asked.request_state, rounds })
}

/// The form of a request; `None` for a request that a person is not asked: to open an address.
fn form(key: String, params: ElicitRequestParams) -> Result<Option<InputForm>, Error> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params else {
        return Ok(None);
    };
    let schema = Json::of(&requested_schema).map_err(|_| Error::Malformed { what: "a form's schema" })?;
    let is_usable = sederunt_core::json_schema::check("schema", &schema).is_ok();
    if !is_usable {
        return Err(Error::Malformed { what: "a form's schema" });
    }
    InputForm::bounded(key, message, schema).map(Some)
}

/// The calls that are under way on a connection.
#[derive(Debug, Default)]
pub(super) struct CallsUnderWay {
    calls: Mutex<BTreeMap<u64, UnderWay>>,
    last: std::sync::atomic::AtomicU64,
    /// A call was given up, and the server may still be at it.
    has_stray: AtomicBool,
}

#[derive(Clone, Debug)]
struct UnderWay {
    tool: String,
    asker: Option<Arc<dyn InputAsker>>,
    until: Instant,
    /// Closed when the call ends.
    ended: watch::Receiver<()>,
    has_asked: Arc<AtomicBool>,
}

/// One call that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct CallUnderWay<'a> {
    of: &'a CallsUnderWay,
    id: u64,
    _ended: watch::Sender<()>,
    has_asked: Arc<AtomicBool>,
    is_answered: bool,
}

impl CallsUnderWay {
    pub(super) fn begin(
        &self,
        tool: &str,
        asker: Option<Arc<dyn InputAsker>>,
        until: Instant,
    ) -> CallUnderWay<'_> {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, ended) = watch::channel(());
        let has_asked = Arc::<AtomicBool>::default();
        let call = UnderWay { tool: tool.to_owned(), asker, until, ended, has_asked: has_asked.clone() };
        self.calls.lock().insert(id, call);
        CallUnderWay { of: self, id, _ended: sender, has_asked, is_answered: false }
    }

    pub(super) fn has_stray(&self) -> bool {
        self.has_stray.load(Ordering::Relaxed)
    }

    /// The call that a request of the server belongs to, if there is no doubt.
    fn only(&self) -> Option<UnderWay> {
        let calls = self.calls.lock();
        let is_clear = calls.len() == 1 && !self.has_stray();
        calls.values().next().filter(|_| is_clear).cloned()
    }
}

impl CallUnderWay<'_> {
    /// Whether the server has asked for input in this call.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        self.of.calls.lock().remove(&self.id);
        if !self.is_answered {
            self.of.has_stray.store(true, Ordering::Relaxed);
        }
    }
}

/// Our side of a connection.
#[derive(Debug, Default)]
pub(super) struct McpClient {
    pub(super) calls: CallsUnderWay,
}

impl ClientHandler for McpClient {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("sederunt", env!("CARGO_PKG_VERSION"));
        let forms = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(forms);
        ClientConfig::new(capabilities, us)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let Some(call) = self.calls.only() else { return Ok(declined()) };
        let (Some(asker), Ok(Some(form))) = (&call.asker, form(String::new(), request)) else {
            return Ok(declined());
        };
        call.has_asked.store(true, Ordering::Relaxed);
        let mut ended = call.ended.clone();
        let ended = Box::pin(async move {
            tokio::select! {
                _ = ended.changed() => {}
                () = context.ct.cancelled() => {}
            }
        });
        let asked = asker.ask(&form, &call.tool, call.until, ended);
        Ok(match asked.await {
            InputAnswer::Accept(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(content.value())
            }
            InputAnswer::Decline => declined(),
            InputAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}
