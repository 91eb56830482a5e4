//! Who is at the other end.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use gapless_proto::{DeviceId, Timestamp, UserId};
use std::sync::Arc;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// Tells from a token whose it is.
#[derive(Debug, Default)]
pub struct Authenticator {}

/// Whose token it is, and what it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: UserId,
    /// The device.
    pub device: DeviceId,
    /// When the token expires; `None` when it never does.
    pub expires_at: Option<Timestamp>,
}

/// Why a token isn't taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// None was given.
    #[error("no token was given; send one as `Authorization: Bearer`")]
    Missing,
    /// It isn't one, or isn't ours.
    #[error("the token isn't valid; ask for a fresh one")]
    Invalid,
}

impl Authenticator {
    /// Checks a token as of `now`.
    pub fn authenticate(&self, token: &str, _now: Timestamp) -> Result<Identity, AuthError> {
        let (user, device) = token.split_once('/').ok_or(AuthError::Invalid)?;
        Ok(Identity {
            user: UserId::new(user).map_err(|_| AuthError::Invalid)?,
            device: DeviceId::new(device).map_err(|_| AuthError::Invalid)?,
            expires_at: None,
        })
    }
}

impl FromRequestParts<Arc<Gateway>> for Identity {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Self, Response> {
        let bearer = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| value.strip_prefix("Bearer ")).ok_or(AuthError::Missing);
        token
            .and_then(|token| gateway.authenticator().authenticate(token, Timestamp::default()))
            .map_err(|error| Refusal::from(error).into_response())
    }
}
