//! Which blocks are told to those who wait until nothing can take them back.

use gapless_proto::BlockNumber;

/// The newest block that is safe: it lies at least `confirmations` below the head, or is final. `None` when there is none yet.
///
/// What is final counts up to the head at most, since what lies above isn't there.
pub fn safe_block(
    head: Option<BlockNumber>,
    finalized: Option<BlockNumber>,
    confirmations: u64,
) -> Option<BlockNumber> {
    let confirmed = head.filter(|head| head.get() >= confirmations).map(|head| head.below(confirmations));
    let finalized = finalized.map(|finalized| head.map_or(finalized, |head| finalized.min(head)));
    confirmed.max(finalized)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Chain behaviour 13
    #[test]
    fn a_block_is_safe_exactly_when_the_head_is_so_many_above_it_or_it_is_final() {
        for (head, finalized, confirmations, safe) in [
            (None, None, 0, None),
            (Some(11), None, 12, None),
            (Some(12), None, 12, Some(0)),
            (Some(13), None, 12, Some(1)),
            (Some(5), None, 0, Some(5)),
            (Some(11), Some(3), 12, Some(3)),
            (Some(20), Some(3), 12, Some(8)),
            (Some(20), Some(15), 12, Some(15)),
            (Some(20), Some(99), 12, Some(20)),
        ] {
            let [head_block, final_block, expected] =
                [head, finalized, safe].map(|number| number.map(|number| BlockNumber::new(number).unwrap()));
            let found = safe_block(head_block, final_block, confirmations);
            assert_eq!(found, expected, "{head:?} {finalized:?} {confirmations}");
        }
    }
}
