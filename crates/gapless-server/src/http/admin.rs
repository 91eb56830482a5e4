//! What operators do.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use gapless_proto::{ConvId, DeviceId, Seq, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{InPath, Json};
use crate::auth::{Identity, Scopes, TokenRequest, unix_now};
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};

/// Up to where to trim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrimRequest {
    /// Entries with a smaller seq go.
    #[schema(value_type = u64)]
    below: Seq,
}

/// What a trim came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrimAnswer {
    /// The conversation.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The oldest seq that is kept now.
    #[schema(value_type = u64)]
    min_seq: Seq,
    /// How many entries went.
    deleted: u64,
}

/// How many logs began a new life.
#[derive(Serialize, ToSchema)]
pub(crate) struct EpochAnswer {
    /// How many there were.
    raised: u64,
}

/// How many connections were ended.
#[derive(Serialize, ToSchema)]
pub(crate) struct KickAnswer {
    /// How many there were on this server.
    closed: u64,
}

/// Whose token to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MintRequest {
    /// The user; another than the caller takes both scopes, `service` and `admin`.
    #[schema(value_type = String)]
    user: UserId,
    /// The device; `default` when left out.
    #[schema(value_type = Option<String>)]
    device: Option<DeviceId>,
    /// What it allows beyond what every user may: `service`, `admin` or both, with a space between.
    #[serde(default)]
    scope: String,
    /// How long it holds, in seconds; an hour when left out.
    #[schema(minimum = 1)]
    ttl_s: Option<u32>,
}

/// A token.
#[derive(Serialize, ToSchema)]
pub(crate) struct MintAnswer {
    /// The token.
    token: String,
    /// When it expires, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    expires_at: Timestamp,
}

/// How long a token holds for which nobody says.
const TTL_S_DEFAULT: u32 = 3600;

/// Deletes the oldest entries of a log. Its head stays.
#[utoipa::path(
    post, path = "/v1/admin/conversations/{conv}/trim", tag = "admin", operation_id = "trim",
    params(("conv" = String, Path, description = "the conversation")),
    request_body = TrimRequest,
    responses((status = 200, body = TrimAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn trim(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
    InPath(conv): InPath<ConvId>,
    Json(TrimRequest { below }): Json<TrimRequest>,
) -> Result<axum::Json<TrimAnswer>, Refusal> {
    let trimmed = gateway.store().trim(&conv, below).await?.ok_or_else(Refusal::no_conversation)?;
    tracing::info!(%conv, min_seq = %trimmed.min_seq, deleted = trimmed.deleted, by = %identity.user, "trimmed");
    Ok(axum::Json(TrimAnswer { conv, min_seq: trimmed.min_seq, deleted: trimmed.deleted }))
}

/// Begins a new life of a log, so that every reader starts it over: after it was rewound by a restore from backup.
#[utoipa::path(
    post, path = "/v1/admin/conversations/{conv}/epoch", tag = "admin", operation_id = "raise_epoch",
    params(("conv" = String, Path, description = "the conversation")),
    responses((status = 200, body = EpochAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn raise_epoch(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
    InPath(conv): InPath<ConvId>,
) -> Result<axum::Json<EpochAnswer>, Refusal> {
    let raised = gateway.store().raise_epoch(Some(&conv)).await?;
    if raised == 0 {
        return Err(Refusal::no_conversation());
    }
    tracing::info!(%conv, by = %identity.user, "raised the epoch");
    Ok(axum::Json(EpochAnswer { raised }))
}

/// Begins a new life of every log: what must be done after a restore from backup.
#[utoipa::path(
    post, path = "/v1/admin/epoch", tag = "admin", operation_id = "raise_all_epochs",
    responses((status = 200, body = EpochAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn raise_all_epochs(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
) -> Result<axum::Json<EpochAnswer>, Refusal> {
    let raised = gateway.store().raise_epoch(None).await? + gateway.store().raise_chain_epochs().await?;
    tracing::info!(raised, by = %identity.user, "raised all epochs");
    Ok(axum::Json(EpochAnswer { raised }))
}

/// Ends all connections of a user to this server. They aren't kept from coming back.
#[utoipa::path(
    post, path = "/v1/admin/users/{user}/kick", tag = "admin", operation_id = "kick",
    params(("user" = String, Path, description = "the user")),
    responses((status = 200, body = KickAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn kick(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
    InPath(user): InPath<UserId>,
) -> Result<axum::Json<KickAnswer>, Refusal> {
    let closed = gateway.hub().kick(&user) as u64;
    tracing::info!(%user, closed, by = %identity.user, "ended a user's connections");
    Ok(axum::Json(KickAnswer { closed }))
}

/// Makes a token with at most the scopes of the caller's own. For oneself it takes the scope `admin`, for another user
/// `service` as well.
#[utoipa::path(
    post, path = "/v1/admin/tokens", tag = "admin", operation_id = "mint_token",
    request_body = MintRequest,
    responses((status = 200, body = MintAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn mint(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
    Json(request): Json<MintRequest>,
) -> Result<axum::Json<MintAnswer>, Refusal> {
    let MintRequest { user, device, scope, ttl_s } = request;
    if user != identity.user && !identity.acts_for_others() {
        return Err(Refusal::forbidden(
            "to make a token for another user takes both scopes; ask with a token as `gapless token --user NAME --scope \
             service,admin` makes one",
        ));
    }
    if ttl_s == Some(0) {
        return Err(Refusal::bad_request(
            "a token with `ttl_s` 0 has ended before anyone can use it; give it 1 or more, or leave `ttl_s` out for an hour",
        ));
    }
    let scopes = Scopes::parse(&scope).map_err(Refusal::bad_request)?;
    if !scopes.are_within(&identity.scopes()) {
        return Err(Refusal::forbidden(
            "a token can't be given a scope that yours doesn't have; leave it out",
        ));
    }
    let ttl = Duration::from_secs(ttl_s.unwrap_or(TTL_S_DEFAULT).into());
    let minted = gateway.authenticator().mint(&TokenRequest { user, device, scopes, ttl }, unix_now())?;
    tracing::info!(expires_at = %minted.expires_at, by = %identity.user, "made a token");
    Ok(axum::Json(MintAnswer { token: minted.token, expires_at: minted.expires_at }))
}

/// An operator. Whoever isn't one is refused, whether what they ask for exists or not.
pub(crate) struct Admin(pub(super) Identity);

impl FromRequestParts<Arc<Gateway>> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Self, Refusal> {
        let identity = Identity::from_request_parts(parts, gateway).await?;
        if identity.administers() {
            return Ok(Self(identity));
        }
        Err(Refusal::forbidden(
            "this needs a token with the scope `admin`, as `gapless token --user NAME --scope admin` makes one",
        ))
    }
}
