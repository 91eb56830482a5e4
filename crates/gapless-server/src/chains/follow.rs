//! One subscription under way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use gapless_core::{ChainHead, Slice, Step, Subscription};
use gapless_proto::{BlockNumber, ChainCursor, ChainPoint, Seq, Topic, TopicResetReason, ValueKey};
use gapless_store::{ChainLogRequest, ChainSlice, ChainValues, ChainValuesRequest, Store, StoreError};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::Told;
use super::followed::{FollowedChain, Wake};
use crate::store_trouble;

/// How many entries are read at a time.
const SLICE_ENTRIES: u32 = 200;
/// How many values are told in one message.
const SNAPSHOT_VALUES: u32 = 200;
/// How long to wait after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Tells one reader what happens on a chain, as a stream that ends with a reset. Whoever doesn't poll it costs nothing.
pub(crate) struct Follow {
    chain: Arc<FollowedChain>,
    store: Arc<dyn Store>,
    wake: Wake,
    subscription: Subscription,
    topics: Vec<Topic>,
    /// The values that are still to be told.
    snapshot: Option<SnapshotLeft>,
    /// What was read and isn't told yet.
    queued: VecDeque<Told>,
    reading: Option<BoxFuture<'static, Read>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether it has once told all there was. Until then the reader catches up, and is as slow as it is.
    is_live: bool,
    is_ended: bool,
}

/// Where a snapshot is.
pub(super) struct SnapshotLeft {
    pub(super) cursor: ChainCursor,
    pub(super) up_to: BlockNumber,
    pub(super) after: Option<(Topic, ValueKey)>,
}

/// What the store has answered.
enum Read {
    Slice { up_to: Option<BlockNumber>, slice: Result<Option<ChainSlice>, StoreError> },
    Values(Result<Option<ChainValues>, StoreError>),
}

impl Follow {
    pub(super) fn new(
        chain: Arc<FollowedChain>,
        store: Arc<dyn Store>,
        subscription: Subscription,
        snapshot: Option<SnapshotLeft>,
    ) -> Self {
        let topics = subscription.topics().iter().cloned().collect();
        Self {
            wake: chain.wait(),
            chain,
            store,
            subscription,
            topics,
            snapshot,
            queued: VecDeque::new(),
            reading: None,
            timer: None,
            is_live: false,
            is_ended: false,
        }
    }

    /// Drops what waits and ends with a reset.
    pub(crate) fn reset(&mut self, reason: TopicResetReason) {
        self.queued = VecDeque::from([Told::reset(reason)]);
        self.reading = None;
        self.is_ended = true;
    }

    /// Looks whether too much waits for a reader who takes nothing; if so, all of it goes. Has the task woken when more comes.
    pub(crate) fn check_overrun(&mut self, context: &Context<'_>, frames_max: usize, bytes_max: usize) {
        self.wake.waker.register(context.waker());
        if self.is_live
            && !self.is_ended
            && self.subscription.is_overrun(&self.chain.tail(), frames_max, bytes_max)
        {
            self.reset(TopicResetReason::SlowConsumer);
        }
    }

    /// Does what there is to do; `Some` when there is something to tell.
    fn advance(&mut self) -> Option<Poll<Told>> {
        if let Some(left) = &self.snapshot {
            self.reading = Some(self.read_values(left, Duration::ZERO));
            return None;
        }
        let tail = self.chain.tail();
        let told = match self.subscription.next(&tail, Instant::now().into_std()) {
            Step::Event(remembered) => remembered.frame.clone(),
            Step::Revoke { to, seq } => Told::revoke(self.chain.chain(), to, seq),
            Step::Progress(head) => progress(&self.chain, head),
            Step::Read { after, up_to } => {
                drop(tail);
                self.reading = Some(self.read_log(after, up_to, Duration::ZERO));
                return None;
            }
            Step::Reset(reason) => {
                drop(tail);
                self.reset(reason);
                return None;
            }
            Step::Wait { until } => {
                drop(tail);
                self.is_live = true;
                self.timer = until.map(|until| Box::pin(sleep_until(until.into())));
                return Some(Poll::Pending);
            }
        };
        drop(tail);
        Some(Poll::Ready(told))
    }

    fn handle_read(&mut self, read: Read) {
        match read {
            Read::Slice { up_to, slice } => match slice {
                Ok(Some(slice)) => self.handle_slice(slice, up_to),
                Ok(None) => self.reset(TopicResetReason::EpochChanged),
                Err(error) => {
                    store_trouble::tell(&error, "read the log of a chain");
                    let after = self.subscription.passed();
                    self.reading = Some(self.read_log(after, up_to, STORE_PAUSE));
                }
            },
            Read::Values(Ok(Some(values))) => self.handle_values(values),
            Read::Values(Ok(None)) => self.reset(TopicResetReason::EpochChanged),
            Read::Values(Err(error)) => {
                store_trouble::tell(&error, "read the values of a chain");
                let again = self.snapshot.as_ref().map(|left| self.read_values(left, STORE_PAUSE));
                self.reading = again;
            }
        }
    }

    fn handle_slice(&mut self, slice: ChainSlice, up_to: Option<BlockNumber>) {
        let ChainSlice { chain: info, entries, has_more } = slice;
        let head = self.chain.head_of(&info);
        let slice = Slice { head, min_seq: info.min_seq, entries, has_more, up_to };
        match self.subscription.handle_slice(slice, Instant::now().into_std()) {
            Ok(entries) => {
                let chain = self.chain.chain();
                self.queued.extend(entries.iter().map(|entry| Told::of_entry(chain, entry)));
            }
            Err(reason) => self.reset(reason),
        }
    }

    fn handle_values(&mut self, values: ChainValues) {
        let Some(left) = self.snapshot.take() else {
            return;
        };
        if values.has_more {
            let after = values.values.last().map(|(topic, key, _)| (topic.clone(), key.clone()));
            self.snapshot = Some(SnapshotLeft { after, ..left });
        }
        self.queued.push_back(Told::snapshot(left.cursor, values.values, values.has_more));
    }

    fn read_log(&self, after: Seq, up_to: Option<BlockNumber>, pause: Duration) -> BoxFuture<'static, Read> {
        let store = Arc::clone(&self.store);
        let request = ChainLogRequest {
            chain: self.chain.chain(),
            topics: self.topics.clone(),
            after,
            up_to,
            limit: SLICE_ENTRIES,
        };
        Box::pin(async move {
            sleep(pause).await;
            Read::Slice { up_to, slice: store.chain_log(request).await }
        })
    }

    fn read_values(&self, left: &SnapshotLeft, pause: Duration) -> BoxFuture<'static, Read> {
        let store = Arc::clone(&self.store);
        let request = ChainValuesRequest {
            chain: self.chain.chain(),
            topics: self.topics.clone(),
            up_to: Some(left.up_to),
            after: left.after.clone(),
            limit: SNAPSHOT_VALUES,
        };
        Box::pin(async move {
            sleep(pause).await;
            Read::Values(store.chain_values(request).await)
        })
    }
}

fn progress(chain: &FollowedChain, head: ChainHead) -> Told {
    let point = ChainPoint { block: head.block.unwrap_or_default(), log: 0 };
    Told::progress(chain.chain(), point, head.seq)
}

impl Stream for Follow {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Told>> {
        loop {
            if let Some(told) = self.queued.pop_front() {
                return Poll::Ready(Some(told));
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            if let Some(reading) = &mut self.reading {
                let Poll::Ready(read) = reading.as_mut().poll(context) else {
                    return Poll::Pending;
                };
                self.reading = None;
                self.handle_read(read);
                continue;
            }
            // Before the look at the tail, so that nothing comes unnoticed between.
            self.wake.waker.register(context.waker());
            match self.advance() {
                Some(Poll::Ready(told)) => return Poll::Ready(Some(told)),
                Some(Poll::Pending) => {
                    let Some(timer) = &mut self.timer else { return Poll::Pending };
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.timer = None;
                }
                None => {}
            }
        }
    }
}
