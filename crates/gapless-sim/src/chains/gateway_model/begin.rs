//! How a subscription begins, step by step as in the server's `chains/begin.rs`.

use std::time::Instant;

use gapless_proto::{
    ChainCursor, ChainId, ChainPoint, Cursor, Epoch, ErrorCode, Mode, Seq, Topic, TopicResetReason,
};
use gapless_store::{ChainInfo, ChainValuesRequest};

use super::{ChainGatewayConfig, StoreAsk, StoreFound, head_of, safe_of};
use crate::chains::errand::{Desk, Errand};
use crate::chains::fault::ChainFault;
use crate::chains::gateway_model::follow::SnapshotLeft;
use crate::store_model::Down;

/// What a reader wants to follow.
#[derive(Debug, Clone)]
pub(super) struct Begin {
    pub(super) chain: ChainId,
    pub(super) topics: Vec<Topic>,
    pub(super) cursor: Option<Cursor>,
    pub(super) mode: Mode,
    pub(super) snapshot: bool,
    pub(super) config: ChainGatewayConfig,
    pub(super) fault: Option<ChainFault>,
}

/// A subscription that is about to begin.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) chain: ChainId,
    pub(super) errand: Errand<StoreAsk, Result<StoreFound, Down>, Result<Begun, ErrorCode>>,
}

/// A subscription that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) begin: Begin,
    pub(super) epoch: Epoch,
    pub(super) passed: Seq,
    pub(super) snapshot: Option<SnapshotLeft>,
    pub(super) reset: Option<TopicResetReason>,
    /// Where it begins, as the reader is told.
    pub(super) cursor: Cursor,
}

/// Where a reader goes on.
struct Place {
    passed: Seq,
    point: ChainPoint,
    snapshot: Option<gapless_proto::BlockNumber>,
}

type StoreDesk = Desk<StoreAsk, Result<StoreFound, Down>>;

impl Beginning {
    pub(super) fn new(begin: Begin, now: Instant) -> Self {
        Self { chain: begin.chain, errand: Errand::new(now, |desk| begin.run(desk)) }
    }
}

impl Begin {
    async fn run(self, desk: StoreDesk) -> Result<Begun, ErrorCode> {
        let info = info(&desk).await?.ok_or(ErrorCode::NotFound)?;
        let held = self.cursor.as_ref().map(|cursor| cursor.as_str().parse::<ChainCursor>()).transpose();
        let held = held.map_err(|_| ErrorCode::BadRequest)?;
        let found = match held {
            Some(cursor) if cursor.chain != self.chain => return Err(ErrorCode::BadRequest),
            Some(cursor) => resumed(&desk, cursor, &info).await?,
            None if self.snapshot => Ok(self.at_values(&desk, &info).await?),
            None => Ok(self.newest(&desk, &info).await?),
        };
        let (place, reset) = match found {
            Ok(place) => (place, None),
            Err(reason) => {
                (Place { passed: info.head, point: ChainPoint::default(), snapshot: None }, Some(reason))
            }
        };
        let cursor = ChainCursor { chain: self.chain, point: place.point, seq: Some(place.passed) };
        let snapshot =
            place.snapshot.map(|up_to| SnapshotLeft { cursor, up_to, after: None, began_at: info.head });
        let cursor = held.unwrap_or(cursor).into();
        Ok(Begun { begin: self, epoch: info.epoch, passed: place.passed, snapshot, reset, cursor })
    }

    async fn at_values(&self, desk: &StoreDesk, info: &ChainInfo) -> Result<Place, ErrorCode> {
        let safe = safe_of(info, &self.config, self.fault);
        let request = ChainValuesRequest {
            chain: self.chain,
            topics: self.topics.clone(),
            up_to: Some(safe),
            after: None,
            limit: 1,
        };
        let place = match desk.ask(StoreAsk::Values(request)).await {
            Ok(StoreFound::Values(values)) => values.map(|values| (values.seq, values.point)),
            Ok(other) => unreachable!("{other:?} are no values"),
            Err(Down) => return Err(ErrorCode::Unavailable),
        };
        let (mut passed, point) = place.unwrap_or((info.head, ChainPoint::default()));
        if self.fault == Some(ChainFault::SnapshotBeforeSubscribing) {
            passed = self::info(desk).await?.map_or(passed, |now| now.head);
        }
        Ok(Place { passed, point, snapshot: Some(safe) })
    }

    async fn newest(&self, desk: &StoreDesk, info: &ChainInfo) -> Result<Place, ErrorCode> {
        let head = head_of(info, &self.config, self.fault);
        let block = match self.mode {
            Mode::Instant => head.block,
            Mode::Confirmed => head.safe,
        };
        let point = ChainPoint { block: block.unwrap_or_default(), log: u32::MAX };
        let passed = match self.mode {
            Mode::Instant => info.head,
            Mode::Confirmed => seq_at(desk, point).await?.unwrap_or_else(|| info.min_seq.prev()),
        };
        Ok(Place { passed, point: ChainPoint { log: 0, ..point }, snapshot: None })
    }
}

async fn resumed(
    desk: &StoreDesk,
    cursor: ChainCursor,
    info: &ChainInfo,
) -> Result<Result<Place, TopicResetReason>, ErrorCode> {
    let passed = match cursor.seq {
        Some(seq) => seq,
        None if cursor.point == ChainPoint::default() => info.min_seq.prev(),
        None if info.block.is_none_or(|block| block.number < cursor.point.block) => {
            return Ok(Err(TopicResetReason::CursorAhead));
        }
        None => match seq_at(desk, cursor.point).await? {
            Some(seq) => seq,
            None => return Ok(Err(TopicResetReason::CursorExpired)),
        },
    };
    if info.rewound.is_some_and(|rewound| rewound.has(passed)) {
        return Ok(Err(TopicResetReason::EpochChanged));
    }
    if info.anew_after.is_some_and(|newest| passed <= newest) {
        return Ok(Err(TopicResetReason::DeepReorg));
    }
    if passed > info.head {
        return Ok(Err(TopicResetReason::CursorAhead));
    }
    if passed.next() < info.min_seq {
        return Ok(Err(TopicResetReason::CursorExpired));
    }
    Ok(Ok(Place { passed, point: cursor.point, snapshot: None }))
}

async fn info(desk: &StoreDesk) -> Result<Option<ChainInfo>, ErrorCode> {
    match desk.ask(StoreAsk::Info).await {
        Ok(StoreFound::Info(info)) => Ok(info),
        Ok(other) => unreachable!("{other:?} doesn't say where a feed is"),
        Err(Down) => Err(ErrorCode::Unavailable),
    }
}

async fn seq_at(desk: &StoreDesk, point: ChainPoint) -> Result<Option<Seq>, ErrorCode> {
    match desk.ask(StoreAsk::SeqAt(point)).await {
        Ok(StoreFound::SeqAt(seq)) => Ok(seq),
        Ok(other) => unreachable!("{other:?} is no seq"),
        Err(Down) => Err(ErrorCode::Unavailable),
    }
}
