//! One page of what a subscriber would be told, for those who ask again and again.

use gapless_core::Subscription;
use gapless_proto::{ChainCursor, ChainPoint, Cursor, ErrorCode, Mode, TopicResetReason};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Chains;
use super::begin::{Begin, Place};
use super::reads::LogQuestion;
use crate::refusal::Refusal;
use crate::told::{ReaderPosition, Told};

/// What comes after a position.
pub(crate) struct ChainPage {
    /// The position after it, also when nothing happened.
    pub(crate) cursor: Cursor,
    /// Whether there is more at once.
    pub(crate) has_more: bool,
    /// The events and revokes, as they are on the wire but for the subscription's number.
    pub(crate) events: Vec<Box<RawValue>>,
}

impl Begin {
    /// Reads what a subscriber would be told next, at most so many entries. A position that can't be served is refused, with the reason.
    pub(crate) async fn page(self, chains: &Chains, limit: u32) -> Result<ChainPage, Refusal> {
        let (chain, mode) = (self.chain, self.mode);
        let topics = self.topics.clone().into();
        let (followed, info, found) = self.find(chains).await?;
        let Place { passed, point, .. } = found.map_err(refused)?;
        let held = ChainCursor { chain, point, seq: Some(passed) };
        let head = followed.head_of(&info);
        let up_to = match mode {
            Mode::Instant => None,
            Mode::Confirmed if head.safe.is_none() => return Ok(ChainPage::empty(held)),
            Mode::Confirmed => head.safe,
        };
        let known = followed.tail().head();
        let question = LogQuestion { topics, after: passed, up_to, limit };
        let Some(slice) = followed.reads().slice(question, known).await? else {
            return Err(refused(TopicResetReason::EpochChanged));
        };
        // It decides as it does for who stays, so that both are told the same.
        let now = Instant::now().into_std();
        let mut subscription = Subscription::new(Default::default(), mode, info.epoch, passed, now);
        subscription.handle_slice(&slice, now).map_err(refused)?;
        let told = slice.entries.last().filter(|(last, _)| last.seq == subscription.passed());
        let cursor = match told.map(|(_, told)| told.position()) {
            Some(ReaderPosition::At(cursor)) => cursor.clone(),
            Some(ReaderPosition::Kept | ReaderPosition::Lost) | None if subscription.passed() == passed => {
                held.into()
            }
            Some(ReaderPosition::Kept | ReaderPosition::Lost) | None => {
                let block = up_to.or(slice.head.block).unwrap_or_default();
                let (point, seq) = (ChainPoint { block, log: 0 }, Some(subscription.passed()));
                ChainCursor { chain, point, seq }.into()
            }
        };
        let events = slice.entries.iter().map(|(_, told)| raw(told)).collect();
        Ok(ChainPage { cursor, has_more: slice.has_more, events })
    }
}

impl ChainPage {
    fn empty(cursor: ChainCursor) -> Self {
        Self { cursor: cursor.into(), has_more: false, events: Vec::new() }
    }
}

fn raw(told: &Told) -> Box<RawValue> {
    RawValue::from_string(told.object()).expect("what is told is JSON")
}

/// What a subscriber would be told as a reset.
fn refused(reason: TopicResetReason) -> Refusal {
    let (code, message) = match reason {
        TopicResetReason::CursorExpired => (
            ErrorCode::CursorExpired,
            "what follows the cursor isn't kept any more; drop what you hold, and begin with a snapshot (GET /v1/events) or at \
             the beginning",
        ),
        TopicResetReason::CursorAhead => (
            ErrorCode::CursorAhead,
            "the cursor is beyond the newest entry; drop what you hold, and begin with a snapshot (GET /v1/events) or at the \
             beginning",
        ),
        TopicResetReason::DeepReorg => (
            ErrorCode::DeepReorg,
            "what was final was taken back; drop what you hold, and begin with a snapshot (GET /v1/events) or at the beginning",
        ),
        TopicResetReason::EpochChanged | TopicResetReason::SlowConsumer | TopicResetReason::Unknown => (
            ErrorCode::EpochChanged,
            "the feed began anew; drop what you hold, and begin with a snapshot (GET /v1/events) or at the beginning",
        ),
    };
    Refusal::new(code, message)
}
