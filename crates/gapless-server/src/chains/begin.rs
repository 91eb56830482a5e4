//! How a subscription begins.

use std::collections::BTreeSet;
use std::sync::Arc;

use gapless_core::Subscription;
use gapless_proto::{
    ChainCursor, ChainId, ChainPoint, Cursor, ErrorCode, Mode, Seq, Topic, TopicResetReason,
};
use gapless_store::ChainInfo;
use tokio::time::Instant;

use super::Chains;
use super::follow::Follow;
use super::followed::FollowedChain;
use super::reads::{ToldValues, ValuesQuestion};
use crate::refusal::Refusal;

/// What a reader wants to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) chain: ChainId,
    pub(crate) topics: Vec<Topic>,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) mode: Mode,
    pub(crate) snapshot: bool,
}

/// Where a reader goes on.
pub(super) struct Place {
    pub(super) passed: Seq,
    pub(super) point: ChainPoint,
    pub(super) snapshot: Option<Arc<ToldValues>>,
}

impl Begin {
    /// Finds where the reader goes on; beside the stream, where that is. A position that can't be served is one reset, and then the stream's end.
    pub(crate) async fn begin(self, chains: &Chains) -> Result<(Follow, Cursor), Refusal> {
        let (chain, mode, held) = (self.chain, self.mode, self.cursor.clone());
        let topics: BTreeSet<Topic> = self.topics.iter().cloned().collect();
        let (followed, info, found) = self.find(chains).await?;
        let (Place { passed, point, snapshot }, reset) = match found {
            Ok(place) => (place, None),
            Err(reason) => {
                (Place { passed: info.head, point: ChainPoint::default(), snapshot: None }, Some(reason))
            }
        };
        let cursor = ChainCursor { chain, point, seq: Some(passed) };
        let now = Instant::now().into_std();
        let subscription = Subscription::new(topics, mode, info.epoch, passed, now);
        let mut follow = Follow::new(followed, subscription);
        if let Some(values) = snapshot {
            follow.handle_values(&values);
        }
        if let Some(reason) = reset {
            follow.reset(reason);
        }
        Ok((follow, held.unwrap_or_else(|| cursor.into())))
    }

    /// The chain, where its feed is, and where the reader goes on, or why that can't be.
    pub(super) async fn find(
        self,
        chains: &Chains,
    ) -> Result<(Arc<FollowedChain>, ChainInfo, Result<Place, TopicResetReason>), Refusal> {
        let Self { chain, topics, cursor, mode, snapshot } = self;
        let held = cursor.map(|cursor| read_cursor(&cursor, chain)).transpose()?;
        let (followed, info) = feed(chains, chain, held).await?;
        let found = match held {
            Some(cursor) => resumed(chains, cursor, &info).await?,
            None if snapshot => Ok(at_values(&followed, topics, info).await?),
            None => Ok(newest(chains, &followed, mode, &info).await?),
        };
        Ok((followed, info, found))
    }
}

/// The chain and where its feed is. Who comes back to a place that is known to be there needs no read for that.
async fn feed(
    chains: &Chains,
    chain: ChainId,
    held: Option<ChainCursor>,
) -> Result<(Arc<FollowedChain>, ChainInfo), Refusal> {
    let known = chains.known(chain).map(|followed| (followed.info(), followed));
    if let (Some((info, followed)), Some(seq)) = (known, held.and_then(|cursor| cursor.seq))
        && check(seq, &info).is_ok()
    {
        return Ok((followed, info));
    }
    let followed = chains.follow(chain).await?;
    followed.ok_or_else(|| {
        let message = format!("there is no feed of the chain {chain}; its blocks have to come first");
        Refusal::new(ErrorCode::NotFound, message)
    })
}

fn read_cursor(cursor: &Cursor, chain: ChainId) -> Result<ChainCursor, Refusal> {
    let cursor: ChainCursor =
        cursor.as_str().parse().map_err(|error| Refusal::bad_request(format!("{error}")))?;
    if cursor.chain != chain {
        let message = format!("the cursor is of the chain {}, the topics of {chain}", cursor.chain);
        return Err(Refusal::bad_request(message));
    }
    Ok(cursor)
}

/// Goes on where a reader was.
async fn resumed(
    chains: &Chains,
    cursor: ChainCursor,
    info: &ChainInfo,
) -> Result<Result<Place, TopicResetReason>, Refusal> {
    let passed = match cursor.seq {
        Some(seq) => seq,
        // The beginning, as far as it is kept.
        None if cursor.point == ChainPoint::default() => info.min_seq.prev(),
        None if info.block.is_none_or(|block| block.number < cursor.point.block) => {
            return Ok(Err(TopicResetReason::CursorAhead));
        }
        None => match chains.store().chain_seq_at(cursor.chain, cursor.point).await? {
            Some(seq) => seq,
            None => return Ok(Err(TopicResetReason::CursorExpired)),
        },
    };
    Ok(check(passed, info).map(|()| Place { passed, point: cursor.point, snapshot: None }))
}

/// Says why a seq can't be a reader's position, if it can't.
fn check(passed: Seq, info: &ChainInfo) -> Result<(), TopicResetReason> {
    if info.rewound.is_some_and(|rewound| rewound.has(passed)) {
        return Err(TopicResetReason::EpochChanged);
    }
    if info.anew_after.is_some_and(|newest| passed <= newest) {
        return Err(TopicResetReason::DeepReorg);
    }
    if passed > info.head {
        return Err(TopicResetReason::CursorAhead);
    }
    if passed.next() < info.min_seq {
        return Err(TopicResetReason::CursorExpired);
    }
    Ok(())
}

/// Begins with the values after the newest block that is confirmed.
async fn at_values(followed: &FollowedChain, topics: Vec<Topic>, info: ChainInfo) -> Result<Place, Refusal> {
    let topics = topics.into();
    let up_to = followed.head_of(&info).safe.unwrap_or_default();
    let values = followed.reads().values(ValuesQuestion { topics, up_to, told: None }, info).await?;
    let Some(values) = values else {
        return Ok(Place { passed: info.head, point: ChainPoint::default(), snapshot: None });
    };
    let ChainCursor { point, seq, .. } = values.cursor;
    Ok(Place { passed: seq.unwrap_or(info.head), point, snapshot: Some(values) })
}

/// Begins with what comes next.
async fn newest(
    chains: &Chains,
    followed: &FollowedChain,
    mode: Mode,
    info: &ChainInfo,
) -> Result<Place, Refusal> {
    let head = followed.head_of(info);
    let block = match mode {
        Mode::Instant => head.block,
        Mode::Confirmed => head.safe,
    };
    let point = ChainPoint { block: block.unwrap_or_default(), log: 0 };
    let confirmed = match (mode, block) {
        (Mode::Instant, _) => Some(info.head),
        (Mode::Confirmed, Some(block)) => {
            let end = ChainPoint { block, log: u32::MAX };
            chains.store().chain_seq_at(followed.chain(), end).await?
        }
        (Mode::Confirmed, None) => None,
    };
    Ok(Place { passed: confirmed.unwrap_or_else(|| info.min_seq.prev()), point, snapshot: None })
}
