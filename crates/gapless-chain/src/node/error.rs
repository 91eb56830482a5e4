//! Why a node gave no answer.

use alloy_json_rpc::RpcError;
use alloy_transport::{TransportError, TransportErrorKind};

use super::http::AnswerTooLong;
use crate::errors::{RangeHint, Trouble, classify, classify_http};

/// A node gave no answer, or one that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct NodeError {
    pub(crate) trouble: Trouble,
    /// For the log. The address, which may hold a key, isn't in it.
    pub(crate) reason: String,
}

/// How much of what a node says is kept.
const REASON_CHARS_MAX: usize = 400;

impl NodeError {
    pub(crate) fn new(trouble: Trouble, reason: &str) -> Self {
        Self { trouble, reason: reason.chars().take(REASON_CHARS_MAX).collect() }
    }

    pub(crate) fn timed_out() -> Self {
        Self::new(Trouble::TimedOut, "no answer in time")
    }
}

impl From<TransportError> for NodeError {
    fn from(error: TransportError) -> Self {
        match error {
            RpcError::ErrorResp(payload) => {
                let data = payload.data.as_ref().map(|data| data.get()).unwrap_or_default();
                let text = format!("{} {data}", payload.message);
                Self::new(classify(payload.code, &text), &format!("{} {}", payload.code, text.trim_end()))
            }
            RpcError::NullResp => Self::new(Trouble::UnknownBlock, "null"),
            RpcError::DeserError { err, text: _ } => Self::new(Trouble::Untrustworthy, &err.to_string()),
            RpcError::Transport(kind) => Self::of_transport(&kind),
            error @ (RpcError::UnsupportedFeature(_)
            | RpcError::LocalUsageError(_)
            | RpcError::SerError(_)) => Self::new(Trouble::Fatal, &error.to_string()),
        }
    }
}

impl NodeError {
    fn of_transport(kind: &TransportErrorKind) -> Self {
        if let Some(http) = kind.as_http_error() {
            let trouble = classify_http(http.status, &http.body, kind.retry_after());
            return Self::new(trouble, &format!("HTTP {} {}", http.status, http.body));
        }
        if kind.as_custom().is_some_and(|error| error.is::<AnswerTooLong>()) {
            return Self::new(Trouble::RangeTooLarge(RangeHint::default()), &kind.to_string());
        }
        // The outer errors of the HTTP client name the address.
        let mut cause: &dyn std::error::Error = kind;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        Self::new(Trouble::Passing, &cause.to_string())
    }
}
