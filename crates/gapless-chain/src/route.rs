//! What to do about the head that a node has.

use gapless_proto::{BlockNumber, BlockRef};

/// With which block a feed begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the newest.
    Head,
    /// With that of a height, or the next above it if the chain leaves that out.
    Block(BlockNumber),
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The chain hasn't come to the first block yet.
    Wait,
    /// Take the first block, which is at this height or above.
    Begin(BlockNumber),
    /// Take blocks by ranges of heights, up to [`backfill_end`].
    Backfill,
    /// Walk back from the head by hash.
    Walk,
}

/// Decides what to do: `have` is the newest block of the store, `head` the newest of the node. What is at most `live_blocks` away is
/// followed block by block.
pub fn route(have: Option<BlockRef>, head: BlockRef, start: Start, live_blocks: u64) -> Route {
    match (have, start) {
        (None, Start::Head) => Route::Walk,
        (None, Start::Block(first)) if first > head.number => Route::Wait,
        (None, Start::Block(first)) => Route::Begin(first),
        (Some(have), _) if head.number.below(live_blocks) > have.number => Route::Backfill,
        (Some(_), _) => Route::Walk,
    }
}

/// The height up to which blocks are taken by ranges: what is finalized, or `live_blocks` below the head, whichever is higher.
pub fn backfill_end(head: BlockRef, finalized: Option<BlockNumber>, live_blocks: u64) -> BlockNumber {
    head.number.below(live_blocks).max(finalized.unwrap_or_default()).min(head.number)
}

#[cfg(test)]
mod tests {
    use gapless_proto::BlockHash;

    use super::*;

    #[test]
    fn a_feed_begins_where_it_should() {
        let first = Start::Block(number(10));
        assert_eq!(route(None, at(50), Start::Head, 5), Route::Walk);
        assert_eq!(route(None, at(50), first, 5), Route::Begin(number(10)));
        assert_eq!(route(None, at(10), first, 5), Route::Begin(number(10)));
        assert_eq!(route(None, at(9), first, 5), Route::Wait);
        assert_eq!(route(None, at(0), Start::Block(number(0)), 5), Route::Begin(number(0)));
    }

    #[test]
    fn what_is_far_behind_is_filled_by_ranges_and_the_rest_is_walked() {
        let route = |have, head| route(Some(at(have)), at(head), Start::Head, 5);
        for head in [0, 5, 10, 11, 15] {
            assert_eq!(route(10, head), Route::Walk, "{head}");
        }
        assert_eq!(route(10, 16), Route::Backfill);
        for (finalized, end) in [(None, 45), (Some(20), 45), (Some(48), 48), (Some(99), 50)] {
            assert_eq!(backfill_end(at(50), finalized.map(number), 5), number(end));
        }
        assert_eq!(backfill_end(at(3), None, 5), number(0));
    }

    fn at(height: u64) -> BlockRef {
        BlockRef { number: number(height), hash: BlockHash([0; 32]) }
    }

    fn number(height: u64) -> BlockNumber {
        BlockNumber::new(height).unwrap()
    }
}
