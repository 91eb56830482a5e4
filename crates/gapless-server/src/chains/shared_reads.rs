//! Reads of the store that all who ask for the same share.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::panic;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use gapless_store::StoreError;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::meters::ReadMeters;

/// How long an answer is kept for those who come a little later: readers who come back at once don't run in step for long.
const KEPT_FOR: Duration = Duration::from_secs(2);
/// How many answers are kept, and how many bytes of them.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 8 << 20;

/// What a read came to; `None` when the chain has no feed.
pub(super) type Answer<V> = Result<Option<Arc<V>>, Arc<StoreError>>;

/// A question that is being answered.
pub(super) type Reading<V> = BoxFuture<'static, Answer<V>>;

/// Reads of one kind. Equal questions that are asked while one of them is being answered get the same answer, and so do those that are asked
/// shortly after, as long as it still is an answer to them. A read that nobody waits for any more is given up.
pub(super) struct SharedReads<K, V> {
    shelf: Arc<Mutex<Shelf<K, V>>>,
    turns: Arc<Semaphore>,
    meters: ReadMeters,
}

struct Shelf<K, V> {
    next: u64,
    under_way: HashMap<K, UnderWay<V>>,
    kept: VecDeque<Kept<K, V>>,
    kept_bytes: usize,
}

struct UnderWay<V> {
    number: u64,
    reading: WeakShared<Reading<V>>,
}

struct Kept<K, V> {
    question: K,
    answer: Arc<V>,
    bytes: usize,
    at: Instant,
}

/// What can be kept for others.
pub(super) trait Weighed {
    /// About how many bytes it has; `None` when it is of no use to those who ask later.
    fn bytes(&self) -> Option<usize>;
}

impl<K, V> SharedReads<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Weighed + Send + Sync + 'static,
{
    /// Reads when `turns` has one.
    pub(super) fn new(turns: Arc<Semaphore>, meters: ReadMeters) -> Arc<Self> {
        let shelf = Shelf { next: 0, under_way: HashMap::new(), kept: VecDeque::new(), kept_bytes: 0 };
        Arc::new(Self { shelf: Arc::new(Mutex::new(shelf)), turns, meters })
    }

    /// Answers a question, with a read that has begun already if what that brings `is_answer` to it; otherwise with one that begins now.
    pub(super) fn ask(
        self: &Arc<Self>,
        question: K,
        is_answer: impl Fn(&V) -> bool + Send + 'static,
        read: impl Future<Output = Result<Option<V>, StoreError>> + Send + 'static,
    ) -> Reading<V> {
        let reads = Arc::clone(self);
        Box::pin(async move {
            if let Some(kept) = reads.kept(&question, &is_answer) {
                return Ok(Some(kept));
            }
            let under_way = lock(&reads.shelf).join(&question);
            if let Some(under_way) = under_way {
                let answer = under_way.await;
                if answer.as_ref().is_ok_and(|answer| answer.as_ref().is_some_and(|answer| is_answer(answer)))
                {
                    reads.meters.shared.increment(1);
                    return answer;
                }
                // It began too early. Somebody else may have been through with the next one meanwhile.
                if let Some(kept) = reads.kept(&question, &is_answer) {
                    return Ok(Some(kept));
                }
            }
            // One that is under way now has begun after the question was asked.
            reads.join_or_begin(question, read).await
        })
    }

    /// Forgets what was kept for long enough.
    pub(super) fn handle_time(&self) {
        lock(&self.shelf).forget_old(Instant::now());
    }

    fn kept(&self, question: &K, is_answer: &impl Fn(&V) -> bool) -> Option<Arc<V>> {
        let kept = lock(&self.shelf).kept(question, is_answer)?;
        self.meters.shared.increment(1);
        Some(kept)
    }

    fn join_or_begin(
        &self,
        question: K,
        read: impl Future<Output = Result<Option<V>, StoreError>> + Send + 'static,
    ) -> Shared<Reading<V>> {
        let mut shelf = lock(&self.shelf);
        if let Some(reading) = shelf.join(&question) {
            self.meters.shared.increment(1);
            return reading;
        }
        let number = shelf.next;
        shelf.next += 1;
        let leaving = Leaving { shelf: Arc::clone(&self.shelf), question: question.clone(), number };
        let (turns, reads) = (Arc::clone(&self.turns), self.meters.reads.clone());
        let reading = async move {
            let _turn = turns.acquire().await.expect("the semaphore is never closed");
            reads.increment(1);
            // A task of its own, so that it goes on while those who wait for it write what they have.
            let read = AbortOnDropHandle::new(tokio::spawn(read));
            let answer = read.await.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()));
            let answer = answer.map(|answer| answer.map(Arc::new)).map_err(Arc::new);
            leaving.keep(&answer);
            answer
        };
        let reading = reading.boxed().shared();
        let weak = reading.downgrade().expect("it hasn't been polled");
        shelf.under_way.insert(question, UnderWay { number, reading: weak });
        reading
    }
}

/// Takes a read off the shelf when it ends, or when nobody waits for it any more.
struct Leaving<K: Eq + Hash, V> {
    shelf: Arc<Mutex<Shelf<K, V>>>,
    question: K,
    number: u64,
}

impl<K: Clone + Eq + Hash, V: Weighed> Leaving<K, V> {
    fn keep(&self, answer: &Answer<V>) {
        if let Ok(Some(answer)) = answer
            && let Some(bytes) = answer.bytes()
        {
            lock(&self.shelf).keep(self.question.clone(), Arc::clone(answer), bytes);
        }
    }
}

impl<K: Eq + Hash, V> Drop for Leaving<K, V> {
    fn drop(&mut self) {
        let mut shelf = lock(&self.shelf);
        if shelf.under_way.get(&self.question).is_some_and(|under_way| under_way.number == self.number) {
            shelf.under_way.remove(&self.question);
        }
    }
}

impl<K: Clone + Eq + Hash, V> Shelf<K, V> {
    fn join(&self, question: &K) -> Option<Shared<Reading<V>>> {
        self.under_way.get(question)?.reading.upgrade()
    }

    fn kept(&mut self, question: &K, is_answer: &impl Fn(&V) -> bool) -> Option<Arc<V>> {
        self.forget_old(Instant::now());
        let found = self.kept.iter().find(|kept| kept.question == *question && is_answer(&kept.answer))?;
        Some(Arc::clone(&found.answer))
    }

    fn keep(&mut self, question: K, answer: Arc<V>, bytes: usize) {
        let now = Instant::now();
        if let Some(place) = self.kept.iter().position(|kept| kept.question == question)
            && let Some(older) = self.kept.remove(place)
        {
            self.kept_bytes -= older.bytes;
        }
        self.kept_bytes += bytes;
        self.kept.push_back(Kept { question, answer, bytes, at: now });
        while self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|oldest| oldest.at + KEPT_FOR <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.kept_bytes -= oldest.bytes;
        }
    }
}

/// Never hold it while a read is dropped: that takes it, too.
fn lock<T>(shelf: &Mutex<T>) -> MutexGuard<'_, T> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
