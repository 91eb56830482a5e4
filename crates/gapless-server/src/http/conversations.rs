//! Conversations: making them, and which there are.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use gapless_core::History;
use gapless_proto::{ConvId, Epoch, Seq, UserId};
use gapless_store::{Creation, FeedInfo, Membership, PAGE_ENTRIES_DEFAULT, PAGE_ENTRIES_MAX, Reader};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::answers::{ConversationsAnswer, visible_head};
use super::query::{Query, QueryError};
use super::request::{InPath, Json};
use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};

/// A conversation to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    /// Its id; only for the scope `service`. Left out, one is made that can't be guessed.
    #[schema(value_type = Option<String>)]
    conv: Option<ConvId>,
    /// What those may see who join later: `from_join` (nothing that came before; the default) or `all`.
    #[serde(default, deserialize_with = "history")]
    #[schema(value_type = Option<String>, example = "from_join")]
    history: History,
    /// Further members; 1,000 at most.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    members: Vec<UserId>,
    /// Who makes it, and so is its first member; another than the caller only for the scope `service`.
    #[schema(value_type = Option<String>)]
    creator: Option<UserId>,
}

/// A conversation that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreateAnswer {
    /// Its id.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The life of its log.
    #[schema(value_type = u64)]
    epoch: Epoch,
    /// The newest seq: that of the last of the members' join entries.
    #[schema(value_type = u64)]
    head: Seq,
}

/// A conversation, as the caller may see it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConversationAnswer {
    /// Its id.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The life of its log.
    #[schema(value_type = u64)]
    epoch: Epoch,
    /// The newest seq that the caller may see.
    #[schema(value_type = u64)]
    head: Seq,
    /// The oldest seq that is kept.
    #[schema(value_type = u64)]
    min_seq: Seq,
    /// What those may see who join later: `from_join` or `all`.
    history: &'static str,
    /// Whether the caller is a member now.
    is_member: bool,
    /// How many members there are; only members are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    member_count: Option<u64>,
}

/// How many members a conversation may be made with.
const CREATED_MEMBERS_MAX: usize = 1_000;

/// Makes a conversation, with the creator as its first member and a join entry for each.
#[utoipa::path(
    post, path = "/v1/conversations", tag = "conversations", operation_id = "create_conversation",
    request_body = CreateRequest,
    responses((status = 201, body = CreateAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn create(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    Json(request): Json<CreateRequest>,
) -> Result<(StatusCode, axum::Json<CreateAnswer>), Refusal> {
    let CreateRequest { conv, history, members, creator } = request;
    if conv.is_some() && !identity.acts_for_others() {
        return Err(Refusal::forbidden(
            "only a token with the scope `service` may choose the id of a conversation; leave out `conv`, or make such a \
             token with `gapless token --user NAME --scope service`",
        ));
    }
    if members.len() > CREATED_MEMBERS_MAX {
        return Err(Refusal::bad_request("more than 1000 `members`; add the others one by one afterwards"));
    }
    let conv = conv.unwrap_or_else(random_conv);
    let creator = identity.acting_for(creator)?;
    let position = gateway.store().create(Creation { conv: conv.clone(), creator, members, history }).await?;
    let answer = CreateAnswer { conv, epoch: position.epoch, head: position.seq };
    Ok((StatusCode::CREATED, axum::Json(answer)))
}

/// The conversations that the caller is or was in, in the order of their ids.
#[utoipa::path(
    get, path = "/v1/conversations", tag = "conversations", operation_id = "list_conversations",
    params(
        ("after" = Option<String>, Query, description = "begin after this id"),
        ("limit" = Option<u32>, Query, description = "how many at most, 1 or more: 50 when left out, never more than 200"),
    ),
    responses((status = 200, body = ConversationsAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<ConversationsAnswer>, Refusal> {
    let Listing { after, limit } = Listing::<ConvId>::parse(query.as_deref())?;
    let memberships = gateway.store().memberships(&identity.user, after.as_ref(), limit + 1).await?;
    Ok(axum::Json(ConversationsAnswer::new(memberships, limit as usize)))
}

/// One conversation.
#[utoipa::path(
    get, path = "/v1/conversations/{conv}", tag = "conversations", operation_id = "get_conversation",
    params(("conv" = String, Path, description = "the conversation")),
    responses((status = 200, body = ConversationAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(conv): InPath<ConvId>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<ConversationAnswer>, Refusal> {
    Query::parse(query.as_deref())?.finish(&[])?;
    let membership = gateway.store().membership(&conv, &identity.user).await?;
    let may_see = membership.is_some() || identity.reader() == Reader::Service;
    let info = if may_see { gateway.store().info(&conv).await? } else { None };
    let info = info.ok_or_else(Refusal::no_conversation)?;
    Ok(axum::Json(match (identity.reader(), membership) {
        (Reader::User(_), Some(membership)) => ConversationAnswer::to_user(info, membership),
        (Reader::User(_) | Reader::Service, membership) => {
            ConversationAnswer::to_service(conv, info, membership.as_ref())
        }
    }))
}

impl ConversationAnswer {
    /// What somebody may see who is or was a member: as of when they left.
    fn to_user(info: FeedInfo, membership: Membership) -> Self {
        let is_member = membership.latest.to.is_none();
        Self {
            head: visible_head(&membership),
            conv: membership.conv,
            epoch: membership.feed.epoch,
            min_seq: info.min_seq,
            history: info.history.as_str(),
            is_member,
            member_count: is_member.then_some(membership.feed.members),
        }
    }

    fn to_service(conv: ConvId, info: FeedInfo, membership: Option<&Membership>) -> Self {
        Self {
            conv,
            epoch: info.feed.epoch,
            head: info.feed.head,
            min_seq: info.min_seq,
            history: info.history.as_str(),
            is_member: membership.is_some_and(|membership| membership.latest.to.is_none()),
            member_count: Some(info.feed.members),
        }
    }
}

/// Which part of a list is asked for.
pub(super) struct Listing<T> {
    pub(super) after: Option<T>,
    /// How many at most.
    pub(super) limit: u32,
}

impl<T: std::str::FromStr<Err: std::fmt::Display>> Listing<T> {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, QueryError> {
        let mut query = Query::parse(query)?;
        let (after, limit) = (query.take("after")?, query.take_limit()?);
        query.finish(&["after", "limit"])?;
        Ok(Self { after, limit: limit.unwrap_or(PAGE_ENTRIES_DEFAULT).min(PAGE_ENTRIES_MAX) })
    }
}

/// An id that nobody guesses: 128 random bits.
fn random_conv() -> ConvId {
    ConvId::new(&format!("{:032x}", rand::random::<u128>())).expect("hex digits are an id")
}

fn history<'de, D: Deserializer<'de>>(deserializer: D) -> Result<History, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map_or(Ok(History::default()), |name| {
        let unknown = || serde::de::Error::custom("`history` must be \"from_join\" or \"all\"");
        History::from_name(&name).ok_or_else(unknown)
    })
}
