//! Requests to values: each extractor refuses with what is wrong, as JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use futures_util::StreamExt as _;
use gapless_proto::ErrorCode;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// What stands in the path.
pub(crate) struct InPath<T>(pub(crate) T);

/// A body of JSON.
pub(crate) struct Json<T>(pub(crate) T);

/// A body of JSON that may be large: only backends send such.
pub(crate) struct LargeJson<T>(pub(crate) T);

/// How many bytes a large body may have.
const LARGE_BYTES_MAX: usize = 16 << 20;
/// What a request has beside the body of a message, at most: ids and names of fields, with escapes.
const ENVELOPE_BYTES_MAX: usize = 4 << 10;
/// A request may have at least this many bytes, however short the bodies of messages must be.
const REQUEST_BYTES_MIN: usize = 64 << 10;
/// Longest error text of a parser that is passed on; it may quote the request.
const REASON_CHARS_MAX: usize = 200;

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<Gateway>> for InPath<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, gateway).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Refusal::bad_request(reason(rejection))),
        }
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Gateway>> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, gateway: &Arc<Gateway>) -> Result<Self, Refusal> {
        let body_bytes_max = gateway.config().session.body_bytes_max;
        let bytes_max = body_bytes_max.max(REQUEST_BYTES_MIN) + ENVELOPE_BYTES_MAX;
        let too_large = || Refusal::request_too_large(bytes_max, body_bytes_max);
        read_json(request, bytes_max).await?.ok_or_else(too_large).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Gateway>> for LargeJson<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _gateway: &Arc<Gateway>) -> Result<Self, Refusal> {
        let too_large = || {
            let message =
                format!("the request has more than {LARGE_BYTES_MAX} bytes; send fewer blocks at once");
            Refusal::new(ErrorCode::TooLarge, message)
        };
        read_json(request, LARGE_BYTES_MAX).await?.ok_or_else(too_large).map(Self)
    }
}

/// `None` when there is more than that.
async fn read_json<T: DeserializeOwned>(request: Request, bytes_max: usize) -> Result<Option<T>, Refusal> {
    if !is_json(request.headers()) {
        return Err(Refusal::wrong_content_type());
    }
    let Some(bytes) = read(request, bytes_max).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Refusal {
    let reason: String = error.to_string().chars().take(REASON_CHARS_MAX).collect();
    Refusal::bad_request(match error.classify() {
        Category::Syntax | Category::Eof => {
            format!("the body isn't JSON ({reason}); send JSON, as /v1/openapi.json describes it")
        }
        Category::Data | Category::Io => format!("the body can't be read: {reason}"),
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// Reads a body of at most `bytes_max` bytes; `None` if it is longer. One that says so isn't read at all.
async fn read(request: Request, bytes_max: usize) -> Result<Option<Vec<u8>>, Refusal> {
    if announced_length(request.headers()).is_some_and(|length| length > bytes_max) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let mut chunks = Body::into_data_stream(request.into_body());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Refusal::bad_request("the body ended early; send all of it"))?;
        if bytes.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What is wrong with a path. Doesn't repeat it.
fn reason(rejection: PathRejection) -> String {
    if let PathRejection::FailedToDeserializePathParams(error) = rejection
        && let ErrorKind::Message(message) | ErrorKind::DeserializeError { message, .. } = error.into_kind()
    {
        return message;
    }
    "the path can't be read; see /v1/openapi.json".to_owned()
}
