//! What a peer is told when something can't be done: the one place where errors become codes.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gapless_core::AppendRefusal;
use gapless_proto::ErrorCode;
use gapless_store::{AppendError, PageError, StoreError};

use crate::auth::AuthError;

/// A refusal as the peer gets it, over WebSocket or HTTP. Never holds texts of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        if error.is_retryable() {
            Self {
                code: ErrorCode::Unavailable,
                message: "the server can't serve this at the moment; try again".to_owned(),
                retry_after: Some(error.retry_after()),
            }
        } else {
            Self::new(ErrorCode::Internal, "a fault of the server; its log has the details")
        }
    }
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Store(error) => error.into(),
            AppendError::Refused(refusal) => {
                let code = match refusal {
                    AppendRefusal::NotFound => ErrorCode::NotFound,
                    AppendRefusal::NoLongerMember | AppendRefusal::NotAllowed(_) => ErrorCode::Forbidden,
                    AppendRefusal::KeyConflict { .. } => ErrorCode::KeyConflict,
                };
                Self::new(code, refusal.to_string())
            }
        }
    }
}

impl From<PageError> for Refusal {
    fn from(error: PageError) -> Self {
        let code = match error {
            PageError::NotFound => ErrorCode::NotFound,
            PageError::EpochChanged { .. } => ErrorCode::EpochChanged,
            PageError::CursorAhead { .. } => ErrorCode::CursorAhead,
            PageError::Store(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        Self::new(ErrorCode::Unauthenticated, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (StatusCode::UNAUTHORIZED, self.message).into_response()
    }
}
