//! What a peer is told when something can't be done: the one place where errors become codes, and codes statuses.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gapless_core::{AppendRefusal, BlockRefusal};
use gapless_proto::{ErrorCode, ErrorReply, Rid};
use gapless_store::{AppendError, CreateError, IngestError, PageError, StoreError};
use gapless_tables::{CursorError, SourceError};
use serde::Serialize;

use crate::auth::AuthError;
use crate::chains::TopicNameError;
use crate::http::QueryError;
use crate::store_trouble;

/// A refusal as the peer gets it, over WebSocket or HTTP.
///
/// Its texts are ours. What the database said is kept apart, and goes to the log when the refusal is answered.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: Cow<'static, str>,
    pub(crate) retry_after: Option<Duration>,
    status: StatusCode,
    cause: Option<Arc<StoreError>>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after: None, status: status_of(code), cause: None }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    pub(crate) fn forbidden(message: &'static str) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }

    /// There is no such conversation, or the caller may not know of it. Always the same bytes.
    pub(crate) fn no_conversation() -> Self {
        AppendError::from(AppendRefusal::NotFound).into()
    }

    /// The body is over the limit, or will be.
    pub(crate) fn too_large(bytes_max: usize) -> Self {
        let message =
            format!("the body of a message may have {bytes_max} bytes and this has more; make it smaller");
        Self::new(ErrorCode::TooLarge, message)
    }

    /// The whole request is over its limit, which is above that of a message's body.
    pub(crate) fn request_too_large(bytes_max: usize, body_bytes_max: usize) -> Self {
        let message = format!(
            "the request has more than the {bytes_max} bytes that one may have; make it smaller: the body of a message may have \
             {body_bytes_max}"
        );
        Self::new(ErrorCode::TooLarge, message)
    }

    pub(crate) fn no_route() -> Self {
        Self::new(ErrorCode::NotFound, "there is no such route; see /v1/openapi.json for those there are")
    }

    pub(crate) fn wrong_method() -> Self {
        let message = "this route doesn't take this method; the header `Allow` has those it takes";
        Self { status: StatusCode::METHOD_NOT_ALLOWED, ..Self::bad_request(message) }
    }

    pub(crate) fn wrong_content_type() -> Self {
        let message = "the body must be JSON; send it with `Content-Type: application/json`";
        Self { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..Self::bad_request(message) }
    }

    /// It took too long. Whether it took effect isn't known.
    pub(crate) fn timed_out() -> Self {
        StoreError::Busy.into()
    }

    /// A fault of ours that is in the log already.
    pub(crate) fn fault() -> Self {
        Self::new(ErrorCode::Internal, FAULT)
    }

    /// The refusal as a frame. Tells the log what the peer isn't told.
    pub(crate) fn into_reply(self, rid: Option<Rid>) -> ErrorReply {
        self.log();
        ErrorReply {
            rid,
            code: self.code,
            retry_after_ms: self.retry_after_ms(),
            message: self.message.into_owned(),
        }
    }

    /// Writes the cause down, if there is one.
    pub(crate) fn log(&self) {
        if let Some(cause) = &self.cause {
            store_trouble::tell(cause, "answer a request");
        }
    }

    fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
    }
}

/// When to ask again if the source of a table can't be read.
const SOURCE_RETRY_AFTER: Duration = Duration::from_secs(1);

const FAULT: &str = "a fault of the server; its log has the details";

/// The HTTP status of a code.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::BadRequest | ErrorCode::CursorInvalid => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::CursorAhead
        | ErrorCode::EpochChanged
        | ErrorCode::KeyConflict
        | ErrorCode::MissingParent
        | ErrorCode::DeepReorg => StatusCode::CONFLICT,
        ErrorCode::CursorExpired => StatusCode::GONE,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal | ErrorCode::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Arc::new(error).into()
    }
}

impl From<Arc<StoreError>> for Refusal {
    fn from(error: Arc<StoreError>) -> Self {
        let refusal = if error.is_retryable() {
            let message = "the server can't serve this at the moment; try again, a send with the same key";
            Self::new(ErrorCode::Unavailable, message)
        } else {
            Self::new(ErrorCode::Internal, FAULT)
        };
        Self { retry_after: error.is_retryable().then(|| error.retry_after()), cause: Some(error), ..refusal }
    }
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Store(error) => error.into(),
            AppendError::Refused(refusal) => {
                let code = match refusal {
                    AppendRefusal::NotFound | AppendRefusal::NeverMember => ErrorCode::NotFound,
                    AppendRefusal::NoLongerMember | AppendRefusal::NotAllowed => ErrorCode::Forbidden,
                    AppendRefusal::KeyConflict { .. } => ErrorCode::KeyConflict,
                };
                Self::new(code, refusal.to_string())
            }
        }
    }
}

impl From<CreateError> for Refusal {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Exists => Self::new(ErrorCode::KeyConflict, error.to_string()),
            CreateError::Store(error) => error.into(),
        }
    }
}

impl From<PageError> for Refusal {
    fn from(error: PageError) -> Self {
        match error {
            PageError::NotFound => Self::no_conversation(),
            PageError::EpochChanged { .. } => Self::new(ErrorCode::EpochChanged, error.to_string()),
            PageError::CursorAhead { .. } => Self::new(ErrorCode::CursorAhead, error.to_string()),
            PageError::Store(error) => error.into(),
        }
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        let code = match error {
            AuthError::Name(_) | AuthError::Open => ErrorCode::BadRequest,
            AuthError::Missing
            | AuthError::Invalid
            | AuthError::Expired
            | AuthError::Early
            | AuthError::Claims(_)
            | AuthError::Unnamed
            | AuthError::TokenInsteadOfName => ErrorCode::Unauthenticated,
        };
        Self::new(code, error.to_string())
    }
}

impl From<TopicNameError> for Refusal {
    fn from(error: TopicNameError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<IngestError> for Refusal {
    fn from(error: IngestError) -> Self {
        let code = match error {
            IngestError::Store(error) => return error.into(),
            IngestError::Block(BlockRefusal::MissingParent { .. } | BlockRefusal::UnknownHead) => {
                ErrorCode::MissingParent
            }
            IngestError::Block(BlockRefusal::DeepReorg { .. } | BlockRefusal::TooOld { .. }) => {
                ErrorCode::DeepReorg
            }
            IngestError::Block(BlockRefusal::NotAboveParent { .. })
            | IngestError::Event(_)
            | IngestError::TooMany { .. } => ErrorCode::BadRequest,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        let code = match &error {
            SourceError::Cursor(CursorError::Invalid | CursorError::OtherTable(_)) => {
                ErrorCode::CursorInvalid
            }
            SourceError::Cursor(
                CursorError::OtherCluster | CursorError::OtherIncarnation | CursorError::OtherMeaning,
            ) => ErrorCode::EpochChanged,
            SourceError::Cursor(CursorError::Expired { .. }) => ErrorCode::CursorExpired,
            SourceError::Request(_) => ErrorCode::BadRequest,
            SourceError::Crowded
            | SourceError::Setup(_)
            | SourceError::Changed(_)
            | SourceError::Unavailable(_) => {
                let message = "the table can't be read at the moment; the server's log has the reason";
                return Self {
                    retry_after: Some(SOURCE_RETRY_AFTER),
                    ..Self::new(ErrorCode::Unavailable, message)
                };
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// The body of an error.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorBody<'a> {
    error: ErrorContent<'a>,
}

/// What was refused, and what to do about it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ErrorContent<'a> {
    /// What kind of refusal, as in `NOT_FOUND`.
    #[schema(value_type = String)]
    code: ErrorCode,
    /// What to do about it, for people.
    message: &'a str,
    /// When to try again, if later may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.log();
        let error =
            ErrorContent { code: self.code, message: &self.message, retry_after_ms: self.retry_after_ms() };
        let mut response = (self.status, Json(ErrorBody { error })).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(after).into());
        }
        if self.code == ErrorCode::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Rounded up: a client that comes back a little late finds more than one that comes early.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use gapless_proto::Seq;

    use super::*;

    #[test]
    fn texts_of_the_database_never_reach_a_peer() {
        for error in [
            StoreError::Unreachable("password of ann is wrong".into()),
            StoreError::Broken("relation feeds does not exist".into()),
        ] {
            let reply = Refusal::from(AppendError::Store(error)).into_reply(None);
            assert!(!reply.message.contains("ann") && !reply.message.contains("feeds"), "{}", reply.message);
        }
    }

    #[test]
    fn only_what_passes_says_when_to_try_again() {
        let busy = Refusal::from(StoreError::Busy).into_response();
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(busy.headers()[header::RETRY_AFTER], "1");

        let broken = Refusal::from(StoreError::Broken("?".into())).into_response();
        assert_eq!(broken.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!broken.headers().contains_key(header::RETRY_AFTER));
    }

    #[test]
    fn an_unknown_conversation_is_refused_alike_by_reads_and_appends() {
        let read = Refusal::from(PageError::NotFound);
        let append = Refusal::from(AppendError::from(AppendRefusal::NotFound));
        assert_eq!((read.code, &read.message), (append.code, &append.message));
    }

    #[test]
    fn a_position_that_can_not_be_served_is_named() {
        let head = Seq::FIRST;
        let refusal = Refusal::from(PageError::CursorAhead { head });
        assert_eq!((refusal.code, refusal.status), (ErrorCode::CursorAhead, StatusCode::CONFLICT));
    }
}
