//! What a token says, and its signature.

use gapless_proto::{DeviceId, Timestamp, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AuthError, Identity, Minted, Rights, Scopes, TokenRequest, default_device};
use crate::config::Secret;

/// The claims that are read; others are passed over. Times are seconds since the Unix epoch.
#[derive(Deserialize)]
struct Claims {
    sub: UserId,
    device: Option<DeviceId>,
    exp: f64,
    nbf: Option<f64>,
    scope: Option<String>,
}

/// The claims that are written. Whole seconds, since not everyone reads fractions.
#[derive(Serialize)]
struct NewClaims<'a> {
    sub: &'a UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a DeviceId>,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

/// Checks a token against each secret, and its times against `now`.
pub(super) fn verify(token: &str, secrets: &[Secret], now: Timestamp) -> Result<Identity, AuthError> {
    let signed = secrets.iter().find_map(|secret| decode(token, secret)).ok_or(AuthError::Invalid)?;
    let claims: Claims =
        serde_json::from_value(signed).map_err(|error| AuthError::Claims(error.to_string()))?;
    let expires_at = millis(claims.exp);
    if expires_at <= now {
        return Err(AuthError::Expired);
    }
    if claims.nbf.is_some_and(|nbf| now < millis(nbf)) {
        return Err(AuthError::Early);
    }
    Ok(Identity {
        user: claims.sub,
        device: claims.device.unwrap_or_else(default_device),
        expires_at: Some(expires_at),
        rights: Rights::Scopes(claims.scope.as_deref().map(Scopes::from_claim).unwrap_or_default()),
    })
}

/// Signs a token that holds for at least the time that is asked for, to the full second.
pub(super) fn sign(request: &TokenRequest, secret: &Secret, now: Timestamp) -> Result<Minted, AuthError> {
    let too_late = || AuthError::Claims("`exp` would be beyond all times".to_owned());
    let exp = request.ttl.as_millis().saturating_add(now.get().into()).div_ceil(1000);
    let exp = u64::try_from(exp).map_err(|_| too_late())?;
    let expires_at = Timestamp::new(exp.saturating_mul(1000)).map_err(|_| too_late())?;
    let claims = NewClaims {
        sub: &request.user,
        device: request.device.as_ref(),
        exp,
        scope: request.scopes.to_claim(),
    };
    let token = EncodingKey::from_secret(secret.as_bytes())
        .and_then(|key| jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key))
        .map_err(|_| AuthError::Invalid)?;
    Ok(Minted { token, expires_at })
}

/// The claims of a token that `secret` signed; `None` when it didn't.
fn decode(token: &str, secret: &Secret) -> Option<Value> {
    let key = DecodingKey::from_secret(secret.as_bytes()).ok()?;
    let decoded = jsonwebtoken::decode(token, &key, &only_the_signature());
    decoded.ok().map(|decoded| decoded.claims)
}

/// The times are checked by us, against a clock that is passed in.
fn only_the_signature() -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

/// A time in seconds as a timestamp; one beyond all timestamps as the last of them.
fn millis(seconds: f64) -> Timestamp {
    // A float that is cast stops at the bounds of the integer.
    let millis = (seconds * 1000.0) as u64;
    Timestamp::new(millis.min(MILLIS_MAX)).expect("it is within the bounds")
}

const MILLIS_MAX: u64 = (1 << 53) - 1;
