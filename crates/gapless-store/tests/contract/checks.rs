//! What must be true of what was read; [`crate::controls`] proves that these notice when it isn't.

/// What a check has found wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    Doubled(u64),
    Skipped(u64),
    Unknown(u64),
}

/// That what was read is 1 ..= head, each seq once and in order.
pub(crate) fn each_once_in_order(read: &[u64], head: u64) -> Result<(), Flaw> {
    let mut expected = 1;
    for seq in read.iter().copied() {
        match seq.cmp(&expected) {
            std::cmp::Ordering::Less => return Err(Flaw::Doubled(seq)),
            std::cmp::Ordering::Greater => return Err(Flaw::Skipped(expected)),
            std::cmp::Ordering::Equal => expected += 1,
        }
    }
    match expected.cmp(&(head + 1)) {
        std::cmp::Ordering::Less => Err(Flaw::Skipped(expected)),
        std::cmp::Ordering::Greater => Err(Flaw::Unknown(head + 1)),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// That what was read is 1 ..= head, each seq once, in whatever order.
pub(crate) fn each_once(read: &[u64], head: u64) -> Result<(), Flaw> {
    let mut sorted = read.to_vec();
    sorted.sort_unstable();
    each_once_in_order(&sorted, head)
}
