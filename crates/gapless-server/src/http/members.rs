//! Who is in a conversation.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use gapless_core::{Append, AppendRefusal, Operation};
use gapless_proto::{ConvId, UserId};
use gapless_store::{AppendError, Reader};

use super::answers::{AppendAnswer, MembersAnswer};
use super::conversations::Listing;
use super::query::Query;
use super::request::InPath;
use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};

/// The present members, in the order of their ids; only members may ask.
#[utoipa::path(
    get, path = "/v1/conversations/{conv}/members", tag = "members", operation_id = "list_members",
    params(
        ("conv" = String, Path, description = "the conversation"),
        ("after" = Option<String>, Query, description = "begin after this user"),
        ("limit" = Option<u32>, Query, description = "how many at most, 1 or more: 50 when left out, never more than 200"),
    ),
    responses((status = 200, body = MembersAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(conv): InPath<ConvId>,
    RawQuery(query): RawQuery,
) -> Result<Json<MembersAnswer>, Refusal> {
    let Listing { after, limit } = Listing::parse(query.as_deref())?;
    check_member(&gateway, &identity, &conv).await?;
    let members = gateway.store().members(&conv, after.as_ref(), limit + 1).await?;
    Ok(Json(MembersAnswer::new(conv, members, limit as usize)))
}

/// Adds a member. Members add others; those who left by themselves may so come back.
#[utoipa::path(
    put, path = "/v1/conversations/{conv}/members/{user}", tag = "members", operation_id = "add_member",
    params(
        ("conv" = String, Path, description = "the conversation"),
        ("user" = String, Path, description = "who becomes a member"),
        ("by" = Option<String>, Query, description = "who adds them, if not the caller; only for the scope `service`"),
    ),
    responses((status = 200, body = AppendAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn add(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath((conv, user)): InPath<(ConvId, UserId)>,
    RawQuery(query): RawQuery,
) -> Result<Json<AppendAnswer>, Refusal> {
    let by = acting_user(&identity, query.as_deref())?;
    change(&gateway, &identity, conv, Operation::Join { user, by }).await
}

/// Ends a membership: one's own, or, for the conversation's creator and for the scope `service`, another's.
#[utoipa::path(
    delete, path = "/v1/conversations/{conv}/members/{user}", tag = "members", operation_id = "remove_member",
    params(
        ("conv" = String, Path, description = "the conversation"),
        ("user" = String, Path, description = "who ceases to be a member"),
        ("by" = Option<String>, Query, description = "who removes them, if not the caller; only for the scope `service`"),
    ),
    responses((status = 200, body = AppendAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn remove(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath((conv, user)): InPath<(ConvId, UserId)>,
    RawQuery(query): RawQuery,
) -> Result<Json<AppendAnswer>, Refusal> {
    let by = acting_user(&identity, query.as_deref())?;
    change(&gateway, &identity, conv, Operation::Leave { user, by }).await
}

fn acting_user(identity: &Identity, query: Option<&str>) -> Result<UserId, Refusal> {
    let mut query = Query::parse(query)?;
    let by = query.take("by")?;
    query.finish(&["by"])?;
    identity.acting_for(by)
}

async fn change(
    gateway: &Gateway,
    identity: &Identity,
    conv: ConvId,
    operation: Operation,
) -> Result<Json<AppendAnswer>, Refusal> {
    let append = Append { conv: conv.clone(), authority: identity.authority(), operation };
    let appended = gateway.store().append(append, None).await?;
    Ok(Json(AppendAnswer::new(conv, appended)))
}

/// Refuses those who aren't members now, as an append of theirs would be refused.
async fn check_member(gateway: &Gateway, identity: &Identity, conv: &ConvId) -> Result<(), Refusal> {
    let refusal = match identity.reader() {
        Reader::Service if gateway.store().info(conv).await?.is_some() => return Ok(()),
        Reader::Service => AppendRefusal::NotFound,
        Reader::User(user) => match gateway.store().membership(conv, &user).await? {
            Some(membership) if membership.latest.to.is_none() => return Ok(()),
            Some(_) => AppendRefusal::NoLongerMember,
            None => AppendRefusal::NotFound,
        },
    };
    Err(AppendError::from(refusal).into())
}
