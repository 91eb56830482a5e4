//! Ranges of a backfill, fetched and read ahead of the store.

use std::sync::Arc;

use gapless_proto::{BlockNumber, BlockRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::gather::{Gather, GatherError, Gathered};
use crate::node::error::NodeError;
use crate::range::ReadBlock;
use crate::range_policy::{Heights, RangePolicy, RangeStep};

/// How many ranges wait to be ingested, and how many bytes a node has sent for them; beside them one is being fetched.
const RANGES_WAITING_MAX: usize = 2;
const BYTES_WAITING_MAX: u32 = 32 << 20;

/// Fetches ranges, as long as those that wait leave room. Each is read by a thread of its own while the next is fetched.
pub(crate) struct Ahead<'a> {
    gather: Gather<'a>,
    /// The newest block that was fetched, or that the store has.
    last: BlockRef,
    to: BlockNumber,
    room: Arc<Semaphore>,
    fetched: mpsc::Sender<Result<Fetched, GatherError>>,
}

/// A range that was fetched.
pub(crate) struct Fetched {
    pub(crate) range: FetchedRange,
    /// Its part of what may wait, until it is ingested.
    pub(crate) room: OwnedSemaphorePermit,
}

pub(crate) enum FetchedRange {
    Reading(JoinHandle<Result<Vec<ReadBlock>, NodeError>>),
    Blocks(Vec<Gathered>),
}

struct Next {
    range: FetchedRange,
    newest: BlockRef,
    bytes: usize,
}

impl<'a> Ahead<'a> {
    /// Prepares to fetch what follows on a block, up to a height.
    pub(crate) fn new(
        gather: Gather<'a>,
        have: BlockRef,
        to: BlockNumber,
    ) -> (Self, mpsc::Receiver<Result<Fetched, GatherError>>) {
        let (fetched, receiver) = mpsc::channel(RANGES_WAITING_MAX);
        let room = Arc::new(Semaphore::new(BYTES_WAITING_MAX as usize));
        (Self { gather, last: have, to, room, fetched }, receiver)
    }

    /// Fetches until the end, or until something goes wrong; that is the last that is said.
    pub(crate) async fn fetch(mut self, policy: &mut RangePolicy) {
        while self.last.number < self.to {
            let next = match self.next(policy).await {
                Ok(None) => return,
                Ok(Some(next)) => next,
                Err(error) => return drop(self.fetched.send(Err(error)).await),
            };
            self.last = next.newest;
            let bytes = u32::try_from(next.bytes).unwrap_or(u32::MAX).min(BYTES_WAITING_MAX);
            let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
            let room = room.expect("the semaphore is never closed");
            if self.fetched.send(Ok(Fetched { range: next.range, room })).await.is_err() {
                return;
            }
        }
    }

    /// The next blocks, as many as the node gives at once; none when all heights up to the end are left out.
    async fn next(&self, policy: &mut RangePolicy) -> Result<Option<Next>, GatherError> {
        let mut from = following(self.last.number);
        while from <= self.to {
            let heights = policy.next(Heights { from, to: self.to });
            match self.gather.range(self.last.hash, heights).await {
                Ok(unread) => {
                    let Some(newest) = unread.last() else {
                        // All of these heights are left out.
                        from = following(heights.to);
                        continue;
                    };
                    policy.handle_answer();
                    let (bytes, topics) = (unread.logs.bytes(), Arc::clone(self.gather.topics));
                    let range = FetchedRange::Reading(spawn_blocking(move || unread.read(&topics)));
                    return Ok(Some(Next { range, newest, bytes }));
                }
                Err(error) => match policy.handle_trouble(heights, error.trouble()) {
                    RangeStep::AskForLess => {}
                    RangeStep::OneByOne => {
                        let blocks = self.gather.one_by_one(self.last.hash, heights).await?;
                        let newest = blocks.last().map(|gathered| gathered.block.at());
                        let bytes = bytes(&blocks);
                        return Ok(newest.map(|newest| Next {
                            range: FetchedRange::Blocks(blocks),
                            newest,
                            bytes,
                        }));
                    }
                    RangeStep::GiveUp => return Err(error),
                },
            }
        }
        Ok(None)
    }
}

impl FetchedRange {
    /// Its blocks; those that fail a check are fetched again.
    pub(crate) async fn gathered(self, gather: Gather<'_>) -> Result<Vec<Gathered>, GatherError> {
        match self {
            Self::Blocks(gathered) => Ok(gathered),
            Self::Reading(reading) => {
                let read = reading.await.expect("reading never panics and is never aborted")?;
                gather.range_blocks(read).await
            }
        }
    }
}

/// About how many bytes the events of blocks have.
fn bytes(blocks: &[Gathered]) -> usize {
    let events = blocks.iter().flat_map(|gathered| &gathered.block.events);
    events.map(|event| event.payload.as_str().len()).sum()
}

fn following(number: BlockNumber) -> BlockNumber {
    BlockNumber::new(number.get() + 1).unwrap_or(number)
}
