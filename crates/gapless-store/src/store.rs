//! What a store promises.

use async_trait::async_trait;
use gapless_core::{Append, Appended, History, Interval};
use gapless_proto::{ConvId, Entry, Epoch, Page, Position, Seq, UserId};

use crate::{AppendError, ChainStore, CreateError, Generation, PageError, StoreError};

/// The most entries a page has.
pub const PAGE_ENTRIES_MAX: u32 = 200;
/// How many entries a page has when the reader doesn't say.
pub const PAGE_ENTRIES_DEFAULT: u32 = 50;

/// Keeps the logs.
///
/// An append that is answered with `Ok` is on disk (G6) and visible to every later read, and so is everything before it (G2). Each
/// read is one statement: what it returns belongs to one moment. Dropping a future that awaits an append doesn't take the append
/// back.
#[async_trait]
pub trait Store: ChainStore + Send + Sync + 'static {
    /// Creates a conversation with its first members: the creator first, then the others in the order given, each with
    /// a join entry. All or nothing.
    async fn create(&self, creation: Creation) -> Result<Position, CreateError>;

    /// Appends, and answers once it is on disk. Appends to one feed take effect in the order in which this is called.
    ///
    /// With a `generation`, the append is refused as unavailable if any commit failed since [`Store::generation`] returned it: a
    /// connection that pipelines its sends hands in the generation from before the first of them, so that a later send never
    /// overtakes one that failed.
    async fn append(&self, append: Append, generation: Option<Generation>) -> Result<Appended, AppendError>;

    /// How many commits have failed so far, in the lane that serves `conv`.
    fn generation(&self, conv: &ConvId) -> Generation;

    /// What a reader may see after a cursor: at most `limit` entries, clamped to 1 ..= [`PAGE_ENTRIES_MAX`].
    ///
    /// Checked in this order: the conversation exists and the reader is or was a member, else `NotFound`; the epoch,
    /// if given, else `EpochChanged`; the cursor isn't beyond the head, else `CursorAhead`. What it costs grows with the entries
    /// it returns, not with those that the reader may not see, nor with how often they came and went.
    async fn page(&self, request: PageRequest) -> Result<Page, PageError>;

    /// What comes after `after`, for everyone; for the gateway's own use. `None` when there is no such conversation.
    async fn log(&self, conv: &ConvId, after: Seq, limit: u32) -> Result<Option<LogSlice>, StoreError>;

    /// The conversations that a user is or was in, in id order, beginning after `after`; at most `limit`.
    async fn memberships(
        &self,
        user: &UserId,
        after: Option<&ConvId>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError>;

    /// One user's standing in one conversation; `None` when they never were in it, or it doesn't exist.
    async fn membership(&self, conv: &ConvId, user: &UserId) -> Result<Option<Membership>, StoreError>;

    /// The present members of a conversation in id order, beginning after `after`; at most `limit`.
    async fn members(
        &self,
        conv: &ConvId,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Vec<UserId>, StoreError>;

    /// Where these feeds are now, in one statement. Those that don't exist are left out.
    async fn heads(&self, convs: &[ConvId]) -> Result<Vec<(ConvId, FeedHead)>, StoreError>;

    /// A conversation's row; `None` when there is none.
    async fn info(&self, conv: &ConvId) -> Result<Option<FeedInfo>, StoreError>;

    /// Deletes the entries below `below`, at most up to the head, in bounded steps. The keys of trimmed messages stay known, so
    /// that a late re-send is still recognised. `None` when there is no such conversation.
    async fn trim(&self, conv: &ConvId, below: Seq) -> Result<Option<TrimmedTo>, StoreError>;

    /// Raises the epoch of one conversation, or of all: what must be done after a restore from backup. Returns
    /// how many were raised.
    async fn raise_epoch(&self, conv: Option<&ConvId>) -> Result<u64, StoreError>;

    /// Whether the store can be read and written now.
    async fn check(&self) -> Result<(), StoreError>;

    /// Finishes the commits that wait, and ends the store's own tasks and connections. Appends after this are refused
    /// as unavailable.
    async fn close(&self);
}

/// A conversation to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// Its name.
    pub conv: ConvId,
    /// Who creates it; its first member.
    pub creator: UserId,
    /// Further members. The creator and doubles are passed over.
    pub members: Vec<UserId>,
    /// What joiners may see.
    pub history: History,
}

/// A question for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Which conversation.
    pub conv: ConvId,
    /// Who reads.
    pub reader: Reader,
    /// The cursor.
    pub after: Seq,
    /// The life of the log that the cursor is from; `None` when the reader holds nothing.
    pub epoch: Option<Epoch>,
    /// How many entries at most.
    pub limit: u32,
}

/// Who reads, and so what they may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// A user: the union of their membership intervals.
    User(UserId),
    /// A trusted backend: everything.
    Service,
}

/// A stretch of a log, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSlice {
    /// Where the feed is.
    pub feed: FeedHead,
    /// The entries, in seq order.
    pub entries: Vec<Entry>,
}

/// Where a feed is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedHead {
    /// The life of the log.
    pub epoch: Epoch,
    /// The newest seq.
    pub head: Seq,
    /// How many members there are.
    pub members: u64,
}

/// One user's standing in one conversation, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The conversation.
    pub conv: ConvId,
    /// Where the feed was at that moment.
    pub feed: FeedHead,
    /// The latest of their intervals.
    pub latest: Interval,
}

/// A conversation's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedInfo {
    /// Where the feed is.
    pub feed: FeedHead,
    /// The oldest seq kept.
    pub min_seq: Seq,
    /// What joiners may see.
    pub history: History,
}

/// What a trim came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimmedTo {
    /// The oldest seq that is kept now.
    pub min_seq: Seq,
    /// How many entries were deleted.
    pub deleted: u64,
}
