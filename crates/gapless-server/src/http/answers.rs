//! What requests are answered with.

use gapless_core::Appended;
use gapless_proto::{ConvId, Entry, Epoch, Page, Seq, Timestamp, UserId};
use gapless_store::Membership;
use serde::Serialize;
use utoipa::ToSchema;

/// Where an append is in the log.
#[derive(Serialize, ToSchema)]
pub(crate) struct AppendAnswer {
    /// The conversation.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The entry's number.
    #[schema(value_type = u64)]
    seq: Seq,
    /// The life of the log.
    #[schema(value_type = u64)]
    epoch: Epoch,
    /// When the store took it, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    ts: Timestamp,
    /// Whether it was there already, from an earlier try.
    duplicate: bool,
}

impl AppendAnswer {
    pub(crate) fn new(conv: ConvId, appended: Appended) -> Self {
        let Appended { position, ts, duplicate } = appended;
        Self { conv, seq: position.seq, epoch: position.epoch, ts, duplicate }
    }
}

/// A stretch of a log, as the caller may see it; all of it from one moment.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageAnswer {
    /// The conversation.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The life of the log.
    #[schema(value_type = u64)]
    epoch: Epoch,
    /// The oldest seq that is kept; `head + 1` when all is trimmed.
    #[schema(value_type = u64)]
    min_seq: Seq,
    /// The newest seq, visible to the caller or not.
    #[schema(value_type = u64)]
    head: Seq,
    /// Where the next page starts.
    #[schema(value_type = u64)]
    next_after: Seq,
    /// Whether there is a next page.
    has_more: bool,
    /// Whether entries after the cursor are gone.
    trimmed: bool,
    /// The entries, oldest first.
    #[schema(value_type = Vec<EntrySchema>)]
    events: Vec<Entry>,
}

impl PageAnswer {
    pub(crate) fn new(conv: ConvId, page: Page) -> Self {
        let Page { epoch, min_seq, head, next_after, has_more, trimmed, events } = page;
        Self { conv, epoch, min_seq, head, next_after, has_more, trimmed, events }
    }
}

/// One entry of a conversation.
#[derive(ToSchema)]
#[schema(as = Entry)]
#[allow(dead_code, reason = "it describes `gapless_proto::Entry`, which knows nothing of OpenAPI")]
pub(crate) struct EntrySchema {
    /// Its number in the log.
    seq: u64,
    /// What it is: `message`, `join`, `leave`, and more to come.
    kind: String,
    /// Who caused it.
    sender: String,
    /// The sender's name for it; only messages have one.
    #[schema(required = false, nullable = false)]
    key: Option<String>,
    /// When the store took it, in milliseconds since the Unix epoch.
    ts: u64,
    /// Its content: the JSON that was sent, byte for byte; of a join or leave, `{"user"}`.
    body: serde_json::Value,
}

/// A conversation that the caller is or was in.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConversationItem {
    /// The conversation.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The life of the log.
    #[schema(value_type = u64)]
    epoch: Epoch,
    /// The newest seq that the caller may see.
    #[schema(value_type = u64)]
    head: Seq,
    /// Whether the caller is a member now.
    is_member: bool,
}

impl From<Membership> for ConversationItem {
    fn from(membership: Membership) -> Self {
        Self {
            head: visible_head(&membership),
            conv: membership.conv,
            epoch: membership.feed.epoch,
            is_member: membership.latest.to.is_none(),
        }
    }
}

/// The newest seq that a user may see.
pub(super) fn visible_head(membership: &Membership) -> Seq {
    let Membership { feed, latest, .. } = membership;
    latest.to.map_or(feed.head, |left| left.min(feed.head))
}

/// Conversations, in the order of their ids.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConversationsAnswer {
    /// The conversations.
    conversations: Vec<ConversationItem>,
    /// What to give as `after` for the next of them; left out when these are the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next_after: Option<ConvId>,
}

impl ConversationsAnswer {
    /// Of `memberships`, of which one more than `limit` was asked for.
    pub(crate) fn new(mut memberships: Vec<Membership>, limit: usize) -> Self {
        let has_more = memberships.len() > limit;
        memberships.truncate(limit);
        let last = memberships.last().filter(|_| has_more);
        Self {
            next_after: last.map(|membership| membership.conv.clone()),
            conversations: memberships.into_iter().map(ConversationItem::from).collect(),
        }
    }
}

/// Members, in the order of their ids.
#[derive(Serialize, ToSchema)]
pub(crate) struct MembersAnswer {
    /// The conversation.
    #[schema(value_type = String)]
    conv: ConvId,
    /// The members.
    #[schema(value_type = Vec<String>)]
    members: Vec<UserId>,
    /// What to give as `after` for the next of them; left out when these are the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next_after: Option<UserId>,
}

impl MembersAnswer {
    /// Of `members`, of whom one more than `limit` was asked for.
    pub(crate) fn new(conv: ConvId, mut members: Vec<UserId>, limit: usize) -> Self {
        let has_more = members.len() > limit;
        members.truncate(limit);
        Self { conv, next_after: members.last().filter(|_| has_more).cloned(), members }
    }
}
