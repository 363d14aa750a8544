//! Answers to callers: results, refusals as results of a tool, and errors of the protocol.

use axum::body::Body;
use axum::response::Response;
use http::{StatusCode, header};
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, JsonRpcError};
use sederunt_core::Error;
use serde_json::json;

use super::tool::ToolOutput;
use crate::http::error::RequestError;
use crate::http::request_id::RequestId;

/// The result of a tool.
pub fn given(ToolOutput { value, text }: ToolOutput) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(value);
    result
}

/// Arguments that name a thing, and its noun.
const NAMED: [(&str, &str); 3] =
    [("taskId", "task"), ("sessionId", "session"), ("feedbackEventId", "feedback")];

/// The sentence of a 404 for the thing that a call names.
pub fn missing(arguments: Option<&JsonObject>) -> Option<String> {
    NAMED.iter().find_map(|(argument, noun)| {
        let name = arguments?.get(*argument)?.as_str()?;
        Some(Error::missing(noun, name))
    })
}

/// A tool's refusal: for programs the envelope of HTTP, for the model the sentence.
pub fn refused(error: Error, missing: Option<String>, request_id: &RequestId) -> CallToolResult {
    let refused = match (error, missing) {
        (Error::NotFound, Some(sentence)) => RequestError::Missing(sentence),
        (error, _) => RequestError::from(error),
    };
    refused.log(request_id.as_str(), super::PATH);
    let mut result = CallToolResult::error(vec![ContentBlock::text(refused.message())]);
    result.structured_content = Some(json!(refused.body(request_id.as_str())));
    result
}

/// A resource's refusal. Resources have no results of their own for that.
pub fn refusal(error: Error, request_id: &RequestId) -> ErrorData {
    let refused = RequestError::from(error);
    refused.log(request_id.as_str(), super::PATH);
    let (message, data) = (refused.message(), Some(json!(refused.body(request_id.as_str()))));
    let RequestError::Core(error) = refused else { return ErrorData::internal_error(message, data) };
    match error {
        Error::NotFound => ErrorData::resource_not_found(message, data),
        Error::Invalid { .. }
        | Error::ValuesInvalid { .. }
        | Error::BadJson(_)
        | Error::TooLarge { .. }
        | Error::IdempotencyMismatch => ErrorData::invalid_params(message, data),
        Error::Denied(_)
        | Error::Unauthenticated(_)
        | Error::Conflict(_)
        | Error::OutputInvalid { .. }
        | Error::QuotaExceeded { .. }
        | Error::HardBlocked { .. } => ErrorData::invalid_request(message, data),
        Error::RateLimited(_) | Error::Unavailable(_) | Error::Internal(_) => {
            ErrorData::internal_error(message, data)
        }
    }
}

/// The answer to a body that holds no message.
pub fn unreadable(error: ErrorData) -> Response {
    let body = serde_json::to_vec(&JsonRpcError::new(None, error)).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(header::CONTENT_TYPE, crate::http::JSON);
    response
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rmcp::model::ErrorCode;
    use sederunt_core::Conflict;

    use super::*;

    #[test]
    fn what_is_missing_is_named_as_the_caller_named_it() {
        let request_id = RequestId(HeaderValue::from_static("r1"));
        let table = [
            (json!({"taskId": "nope"}), "there is no task `nope`, or it is not yours to see"),
            (json!({"sessionId": "s"}), "there is no session `s`, or it is not yours to see"),
            (json!({}), "there is no such thing, or it is not yours to see"),
        ];
        for (arguments, said) in table {
            let result = refused(Error::NotFound, missing(arguments.as_object()), &request_id);
            assert_eq!(result.content[0].as_text().unwrap().text, said);
            assert_eq!(result.structured_content.unwrap()["error"]["code"], "not_found");
        }
    }

    #[test]
    fn every_refusal_is_said_and_nothing_that_lies_under_it() {
        let request_id = RequestId(HeaderValue::from_static("r1"));
        let cause = || std::io::Error::other("the disk is on fire");
        type Make = fn(std::io::Error) -> Error;
        let table: [(Make, &str, ErrorCode); 6] = [
            (|_| Error::NotFound, "not_found", ErrorCode::RESOURCE_NOT_FOUND),
            (|_| Error::invalid("cursor", "is bad"), "invalid", ErrorCode::INVALID_PARAMS),
            (|_| Error::denied("no"), "denied", ErrorCode::INVALID_REQUEST),
            (|_| Conflict::SessionBusy.into(), "session_busy", ErrorCode::INVALID_REQUEST),
            (|cause| Error::unavailable(cause), "unavailable", ErrorCode::INTERNAL_ERROR),
            (|cause| Error::internal(cause), "internal", ErrorCode::INTERNAL_ERROR),
        ];
        for (error, code, protocol) in table {
            let result = refused(error(cause()), None, &request_id);
            let text = &result.content[0].as_text().unwrap().text;
            let told = &result.structured_content.as_ref().unwrap()["error"];
            assert_eq!((result.is_error, told["code"].as_str()), (Some(true), Some(code)));
            assert_eq!(
                (told["message"].as_str(), told["request_id"].as_str()),
                (Some(text.as_str()), Some("r1"))
            );
            let refusal = refusal(error(cause()), &request_id);
            assert_eq!((refusal.code, refusal.message.as_ref()), (protocol, text.as_str()));
            for told in [json!(result).to_string(), json!(refusal).to_string()] {
                assert!(!told.contains("fire"), "{told}");
            }
        }
    }
}
