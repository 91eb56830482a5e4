//! Whether headers that were asked for by their heights are a chain.

use gapless_proto::{BlockHash, BlockNumber};

use crate::wire::Header;

/// Why headers aren't a stretch of the chain that the store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Break {
    /// The first isn't on the block before it: there was a reorg below.
    Fork(Header),
    /// They don't follow each other: they are of several nodes, or there is a reorg right now.
    Torn {
        /// The height at which it shows.
        at: BlockNumber,
    },
}

/// Takes the headers that follow on a block, in the order of their heights; heights without a block are `None`.
///
/// A height may be left out only if the blocks around it follow each other; those at the end are cut off, since they may yet come.
pub fn chained(after: BlockHash, headers: Vec<Option<Header>>) -> Result<Vec<Header>, Break> {
    let headers: Vec<Header> = headers.into_iter().flatten().collect();
    if let Some(first) = headers.first()
        && first.parent != after
    {
        return Err(Break::Fork(first.clone()));
    }
    let torn = headers.windows(2).find_map(|pair| {
        let [below, above] = pair else { return None };
        let follows = above.parent == below.at.hash && above.at.number > below.at.number;
        (!follows).then_some(above.at.number)
    });
    match torn {
        Some(at) => Err(Break::Torn { at }),
        None => Ok(headers),
    }
}

#[cfg(test)]
mod tests {
    use gapless_proto::BlockRef;

    use super::*;

    #[test]
    fn headers_that_follow_each_other_are_a_chain() {
        let all = [header(2, 2, 1), header(3, 3, 2)];
        assert_eq!(chained(hash(1), all.clone().map(Some).to_vec()), Ok(all.to_vec()));
        assert_eq!(chained(hash(1), vec![]), Ok(vec![]));
    }

    // Chain behaviour 14
    #[test]
    fn a_height_without_a_block_may_be_left_out_and_the_end_may_be_missing() {
        let all = vec![None, Some(header(3, 3, 1)), None, Some(header(5, 5, 3)), None, None];
        let numbers = |headers: Vec<Header>| headers.iter().map(|header| header.at.number.get()).collect();
        assert_eq!(chained(hash(1), all).map(numbers), Ok(vec![3, 5]));
    }

    // Chain behaviours 9, 11
    #[test]
    fn headers_of_two_forks_are_no_chain() {
        let torn = vec![Some(header(2, 2, 1)), Some(header(3, 3, 9))];
        assert_eq!(chained(hash(1), torn), Err(Break::Torn { at: BlockNumber::new(3).unwrap() }));
        let missing = vec![Some(header(2, 2, 1)), None, Some(header(4, 4, 3))];
        assert_eq!(chained(hash(1), missing), Err(Break::Torn { at: BlockNumber::new(4).unwrap() }));
        let fork = header(2, 2, 8);
        assert_eq!(chained(hash(1), vec![Some(fork.clone())]), Err(Break::Fork(fork)));
    }

    fn hash(byte: u8) -> BlockHash {
        BlockHash([byte; 32])
    }

    fn header(number: u64, own: u8, parent: u8) -> Header {
        let at = BlockRef { number: BlockNumber::new(number).unwrap(), hash: hash(own) };
        Header { at, parent: hash(parent), time: 0, bloom: None }
    }
}
