//! How a subscription begins.

use std::collections::BTreeSet;
use std::sync::Arc;

use gapless_core::Subscription;
use gapless_proto::{
    BlockNumber, ChainCursor, ChainId, ChainPoint, Cursor, ErrorCode, Mode, Seq, Topic, TopicResetReason,
};
use gapless_store::{ChainInfo, ChainValuesRequest, Store};
use tokio::time::Instant;

use super::Chains;
use super::follow::{Follow, SnapshotLeft};
use super::followed::FollowedChain;
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

/// A subscription that has begun.
pub(crate) struct Begun {
    pub(crate) follow: Follow,
    /// Where it begins.
    pub(crate) cursor: Cursor,
}

/// Where a reader goes on.
struct Place {
    passed: Seq,
    point: ChainPoint,
    snapshot: Option<BlockNumber>,
}

impl Begin {
    /// Finds where the reader goes on. A position that can't be served is one reset, and then the stream's end.
    pub(crate) async fn begin(self, chains: &Chains, store: &Arc<dyn Store>) -> Result<Begun, Refusal> {
        let Self { chain, topics, cursor, mode, snapshot } = self;
        let Some((followed, info)) = chains.follow(&**store, chain).await? else {
            let message = format!("there is no feed of the chain {chain}; its blocks have to come first");
            return Err(Refusal::new(ErrorCode::NotFound, message));
        };
        let held = cursor.map(|cursor| read_cursor(&cursor, chain)).transpose()?;
        let found = match held {
            Some(cursor) => resumed(&**store, cursor, &info).await?,
            None if snapshot => {
                let safe = followed.head_of(&info).safe.unwrap_or_default();
                Ok(at_values(&**store, chain, &topics, safe, &info).await?)
            }
            None => Ok(newest(&**store, &followed, mode, &info).await?),
        };
        let (place, reset) = match found {
            Ok(place) => (place, None),
            Err(reason) => {
                (Place { passed: info.head, point: ChainPoint::default(), snapshot: None }, Some(reason))
            }
        };
        let cursor = ChainCursor { chain, point: place.point, seq: Some(place.passed) };
        let left = place.snapshot.map(|up_to| SnapshotLeft { cursor, up_to, after: None });
        let now = Instant::now().into_std();
        let topics: BTreeSet<Topic> = topics.into_iter().collect();
        let subscription = Subscription::new(topics, mode, info.epoch, place.passed, now);
        let mut follow = Follow::new(followed, Arc::clone(store), subscription, left);
        if let Some(reason) = reset {
            follow.reset(reason);
        }
        Ok(Begun { follow, cursor: held.unwrap_or(cursor).into() })
    }
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
    store: &dyn Store,
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
        None => match store.chain_seq_at(cursor.chain, cursor.point).await? {
            Some(seq) => seq,
            None => return Ok(Err(TopicResetReason::CursorExpired)),
        },
    };
    if info.rewound.is_some_and(|rewound| rewound.has(passed)) {
        return Ok(Err(TopicResetReason::EpochChanged));
    }
    if passed > info.head {
        return Ok(Err(TopicResetReason::CursorAhead));
    }
    if passed.next() < info.min_seq {
        return Ok(Err(TopicResetReason::CursorExpired));
    }
    Ok(Ok(Place { passed, point: cursor.point, snapshot: None }))
}

/// Begins with the values after a block.
async fn at_values(
    store: &dyn Store,
    chain: ChainId,
    topics: &[Topic],
    safe: BlockNumber,
    info: &ChainInfo,
) -> Result<Place, Refusal> {
    let topics = topics.to_vec();
    let request = ChainValuesRequest { chain, topics, up_to: Some(safe), after: None, limit: 1 };
    let place = store.chain_values(request).await?.map(|values| (values.seq, values.point));
    let (passed, point) = place.unwrap_or((info.head, ChainPoint::default()));
    Ok(Place { passed, point, snapshot: Some(safe) })
}

/// Begins with what comes next.
async fn newest(
    store: &dyn Store,
    followed: &FollowedChain,
    mode: Mode,
    info: &ChainInfo,
) -> Result<Place, Refusal> {
    let head = followed.head_of(info);
    let block = match mode {
        Mode::Instant => head.block,
        Mode::Confirmed => head.safe,
    };
    let point = ChainPoint { block: block.unwrap_or_default(), log: u32::MAX };
    let passed = match mode {
        Mode::Instant => info.head,
        Mode::Confirmed => {
            let confirmed = store.chain_seq_at(followed.chain(), point).await?;
            confirmed.unwrap_or_else(|| info.min_seq.prev())
        }
    };
    Ok(Place { passed, point: ChainPoint { log: 0, ..point }, snapshot: None })
}
