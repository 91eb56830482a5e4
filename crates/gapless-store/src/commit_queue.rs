//! The appends that wait for the next group commit.
//!
//! While one commit is being flushed, what arrives gathers here; the committer then takes all of it into the next
//! transaction. So the busier a store, the larger its batches, and a flush is shared by many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gapless_core::{Append, AppendOutcome, Appended};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{AppendError, StoreError};

/// How many appends may wait; one more is refused as [`StoreError::Busy`].
const APPENDS_WAITING_MAX: usize = 8_192;
/// How many bytes of bodies may wait or be under way; one append more is refused as [`StoreError::Busy`].
const BYTES_WAITING_MAX: usize = 64 << 20;
/// How many appends one commit takes at most, so that a reader of the feed's row isn't kept waiting for long.
pub(crate) const BATCH_APPENDS_MAX: usize = 1_024;
/// How many bytes of bodies one commit takes at most, give or take one append.
pub(crate) const BATCH_BYTES_MAX: usize = 8 << 20;

/// How many commits of a lane have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(u64);

/// One append that waits, and whom to answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) append: Append,
    generation: Option<Generation>,
    reply: oneshot::Sender<Result<Appended, AppendError>>,
    /// Its share of [`BYTES_WAITING_MAX`], given back with the answer.
    _room: OwnedSemaphorePermit,
}

impl Waiting {
    /// Answers; that nobody waits any more is all right.
    pub(crate) fn answer(self, outcome: AppendOutcome) {
        let _ = self.reply.send(outcome.map_err(AppendError::from));
    }

    /// Answers that the store failed.
    pub(crate) fn fail(self, error: StoreError) {
        let _ = self.reply.send(Err(AppendError::Store(error)));
    }
}

/// The end where appends come in. A clone shares the queue.
#[derive(Debug, Clone)]
pub(crate) struct CommitQueue {
    sender: mpsc::Sender<Waiting>,
    generation: Arc<AtomicU64>,
    room: Arc<Semaphore>,
}

/// The end where a committer takes them.
#[derive(Debug)]
pub(crate) struct Committer {
    receiver: mpsc::Receiver<Waiting>,
    generation: Arc<AtomicU64>,
    /// The append that would have made the last batch too large.
    held_back: Option<Waiting>,
}

impl CommitQueue {
    pub(crate) fn new() -> (Self, Committer) {
        let (sender, receiver) = mpsc::channel(APPENDS_WAITING_MAX);
        let generation = Arc::new(AtomicU64::new(0));
        let committer = Committer { receiver, generation: Arc::clone(&generation), held_back: None };
        (Self { sender, generation, room: Arc::new(Semaphore::new(BYTES_WAITING_MAX)) }, committer)
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Queues an append at once, in the order of the calls, and waits for its outcome.
    pub(crate) async fn append(
        &self,
        append: Append,
        generation: Option<Generation>,
    ) -> Result<Appended, AppendError> {
        let bytes = u32::try_from(append.bytes()).map_err(|_| StoreError::Busy)?;
        let _room = Arc::clone(&self.room).try_acquire_many_owned(bytes).map_err(|_| StoreError::Busy)?;
        let (reply, outcome) = oneshot::channel();
        self.sender.try_send(Waiting { append, generation, reply, _room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })?;
        outcome.await.unwrap_or(Err(AppendError::Store(StoreError::Closed)))
    }
}

impl Committer {
    /// Waits for the next batch: all that waits, up to the bounds. `None` once the queue is closed and empty.
    ///
    /// Appends that must not follow a failed commit are answered here and left out; a batch may so be empty.
    pub(crate) async fn next_batch(&mut self) -> Option<Vec<Waiting>> {
        let first = match self.held_back.take() {
            Some(waiting) => waiting,
            None => self.receiver.recv().await?,
        };
        Some(self.gather(first))
    }

    /// Notes that a commit failed, so that later appends of the same pipelines are refused. Call it before
    /// answering that commit's appends.
    pub(crate) fn commit_failed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Refuses all further appends; those that wait are still handed out.
    pub(crate) fn close(&mut self) {
        self.receiver.close();
    }

    fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let mut bytes = first.append.bytes();
        let mut batch = Vec::new();
        self.admit(first, &mut batch);
        while batch.len() < BATCH_APPENDS_MAX {
            let Ok(waiting) = self.receiver.try_recv() else {
                break;
            };
            bytes += waiting.append.bytes();
            if bytes > BATCH_BYTES_MAX {
                self.held_back = Some(waiting);
                break;
            }
            self.admit(waiting, &mut batch);
        }
        metrics::histogram!("gapless_commit_appends").record(batch.len() as f64);
        batch
    }

    fn admit(&self, waiting: Waiting, batch: &mut Vec<Waiting>) {
        let current = Generation(self.generation.load(Ordering::Acquire));
        if waiting.generation.is_some_and(|generation| generation < current) {
            waiting.fail(StoreError::Busy);
        } else {
            batch.push(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use gapless_core::{Authority, Operation};
    use gapless_proto::{Body, ConvId, Key, UserId};

    use super::*;

    fn append(body_bytes: usize) -> Append {
        let operation = Operation::Message {
            sender: UserId::new("alice").unwrap(),
            key: Key::new("k").unwrap(),
            body: Body::from_text(format!("\"{}\"", "x".repeat(body_bytes))).unwrap(),
        };
        Append { conv: ConvId::new("c").unwrap(), authority: Authority::Member, operation }
    }

    /// Queues an append without waiting for its outcome.
    async fn queue(
        queue: &CommitQueue,
        append: Append,
        generation: Option<Generation>,
    ) -> tokio::task::JoinHandle<Result<Appended, AppendError>> {
        let queue = queue.clone();
        let task = tokio::spawn(async move { queue.append(append, generation).await });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn a_batch_takes_all_that_waits() {
        let (entrance, mut committer) = CommitQueue::new();
        let mut tasks = Vec::new();
        for _ in 0..5 {
            tasks.push(queue(&entrance, append(1), None).await);
        }
        assert_eq!(committer.next_batch().await.map(|batch| batch.len()), Some(5));
    }

    #[tokio::test]
    async fn a_batch_is_bounded_in_bytes_and_loses_nothing() {
        let (entrance, mut committer) = CommitQueue::new();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            tasks.push(queue(&entrance, append(BATCH_BYTES_MAX / 2 + 1), None).await);
        }
        for _ in 0..3 {
            assert_eq!(committer.next_batch().await.map(|batch| batch.len()), Some(1));
        }
    }

    // Behaviour 12
    #[tokio::test]
    async fn nothing_of_a_pipeline_follows_a_failed_commit() {
        let (entrance, mut committer) = CommitQueue::new();
        let before = entrance.generation();
        let first = queue(&entrance, append(1), Some(before)).await;
        let batch = committer.next_batch().await.unwrap();
        let second = queue(&entrance, append(1), Some(before)).await;
        committer.commit_failed();
        for waiting in batch {
            waiting.fail(StoreError::Busy);
        }
        assert!(first.await.unwrap().is_err());
        assert_eq!(committer.next_batch().await.map(|batch| batch.len()), Some(0));
        assert!(second.await.unwrap().is_err());

        let fresh = queue(&entrance, append(1), Some(entrance.generation())).await;
        assert_eq!(committer.next_batch().await.map(|batch| batch.len()), Some(1));
        drop(committer);
        assert!(fresh.await.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let (entrance, _committer) = CommitQueue::new();
        let mut tasks = Vec::new();
        for _ in 0..APPENDS_WAITING_MAX {
            tasks.push(queue(&entrance, append(1), None).await);
        }
        let refused = entrance.append(append(1), None).await;
        assert!(matches!(refused, Err(AppendError::Store(StoreError::Busy))));
    }

    #[tokio::test]
    async fn many_bytes_are_refused_like_many_appends_until_some_are_answered() {
        let (entrance, mut committer) = CommitQueue::new();
        let mut tasks = Vec::new();
        for _ in 0..BYTES_WAITING_MAX / (1 << 20) - 1 {
            tasks.push(queue(&entrance, append(1 << 20), None).await);
        }
        let refused = entrance.append(append(1 << 20), None).await;
        assert!(matches!(refused, Err(AppendError::Store(StoreError::Busy))));

        for waiting in committer.next_batch().await.unwrap() {
            waiting.fail(StoreError::Busy);
        }
        let taken = queue(&entrance, append(1 << 20), None).await;
        assert!(!taken.is_finished());
    }
}
