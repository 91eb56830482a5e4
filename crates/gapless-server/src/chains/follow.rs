//! One subscription under way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream};
use gapless_core::{Slice, Step, Subscription};
use gapless_proto::{BlockNumber, ChainPoint, Seq, Topic, TopicResetReason};
use gapless_store::{CHAIN_ENTRIES_MAX, ChainInfo};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::TopicName;
use super::followed::FollowedChain;
use super::reads::{LogQuestion, ToldValues, ValuesQuestion, ValuesTold};
use super::shared_reads::Answer;
use crate::store_trouble;
use crate::told::Told;
use crate::wakers::Wake;

/// How long to wait after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Tells one reader what happens on a chain, as a stream that ends with a reset. Whoever doesn't poll it costs nothing.
pub(crate) struct Follow {
    chain: Arc<FollowedChain>,
    wake: Wake,
    subscription: Subscription,
    topics: Arc<[Topic]>,
    /// The values that are still to be told.
    snapshot: Option<SnapshotLeft>,
    queue: Queue,
    reading: Option<BoxFuture<'static, Read>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether it has once told all there was. Until then the reader catches up, and is as slow as it is.
    is_live: bool,
    is_ended: bool,
}

/// Where a snapshot is.
struct SnapshotLeft {
    /// Where the feed was when it began.
    info: ChainInfo,
    up_to: BlockNumber,
    told: ValuesTold,
}

/// What the store has answered.
enum Read {
    Slice { up_to: Option<BlockNumber>, slice: Answer<Slice<Told>> },
    Values(Answer<ToldValues>),
}

impl Follow {
    pub(super) fn new(chain: Arc<FollowedChain>, subscription: Subscription) -> Self {
        let topics = subscription.topics().iter().cloned().collect();
        Self {
            wake: chain.wait(),
            chain,
            subscription,
            topics,
            snapshot: None,
            queue: Queue::default(),
            reading: None,
            timer: None,
            is_live: false,
            is_ended: false,
        }
    }

    /// The whole names of its topics.
    pub(crate) fn topics(&self) -> impl Iterator<Item = Topic> {
        self.topics.iter().map(|topic| TopicName::whole(self.chain.chain(), topic))
    }

    /// Drops what waits and ends with a reset.
    pub(crate) fn reset(&mut self, reason: TopicResetReason) {
        self.queue = Queue::default();
        self.queue.push(Told::reset(reason));
        (self.reading, self.snapshot) = (None, None);
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
            Step::Progress { block, seq } => {
                Told::quiet(self.chain.chain(), ChainPoint { block, log: 0 }, seq)
            }
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
                Ok(Some(slice)) => self.handle_slice(slice),
                Ok(None) => self.reset(TopicResetReason::EpochChanged),
                Err(error) => {
                    store_trouble::tell(&error, "read the log of a chain");
                    let after = self.subscription.passed();
                    self.reading = Some(self.read_log(after, up_to, STORE_PAUSE));
                }
            },
            Read::Values(Ok(Some(values))) => self.handle_values(&values),
            Read::Values(Ok(None)) => self.reset(TopicResetReason::EpochChanged),
            Read::Values(Err(error)) => {
                store_trouble::tell(&error, "read the values of a chain");
                let again = self.snapshot.as_ref().map(|left| self.read_values(left, STORE_PAUSE));
                self.reading = again;
            }
        }
    }

    fn handle_slice(&mut self, slice: Arc<Slice<Told>>) {
        match self.subscription.handle_slice(&slice, Instant::now().into_std()) {
            Ok(()) => self.queue.push_slice(slice),
            Err(reason) => self.reset(reason),
        }
    }

    /// Takes in a part of a snapshot, with which a subscription may begin.
    pub(super) fn handle_values(&mut self, values: &ToldValues) {
        if let Some(reason) = self.subscription.ended_by(self.chain.head_of(&values.info)) {
            return self.reset(reason);
        }
        self.queue.push(values.told.clone());
        let up_to = values.up_to;
        let left = values.more.clone();
        self.snapshot = left.map(|told| SnapshotLeft { info: values.info, up_to, told });
    }

    /// Asks for the next stretch of the log when the last one is half told, so that the reader needn't wait for it.
    fn read_ahead(&mut self, context: &mut Context<'_>) {
        if self.reading.is_none()
            && let Some(up_to) = self.queue.wants_more()
        {
            let mut reading = self.read_log(self.subscription.passed(), up_to, Duration::ZERO);
            // It begins now, and is looked at again when all is told.
            match reading.poll_unpin(context) {
                Poll::Ready(read) => self.handle_read(read),
                Poll::Pending => self.reading = Some(reading),
            }
        }
    }

    fn read_log(&self, after: Seq, up_to: Option<BlockNumber>, pause: Duration) -> BoxFuture<'static, Read> {
        let chain = Arc::clone(&self.chain);
        let question =
            LogQuestion { topics: Arc::clone(&self.topics), after, up_to, limit: CHAIN_ENTRIES_MAX };
        Box::pin(async move {
            pause_for(pause).await;
            let known = chain.tail().head();
            Read::Slice { up_to, slice: chain.reads().slice(question, known).await }
        })
    }

    fn read_values(&self, left: &SnapshotLeft, pause: Duration) -> BoxFuture<'static, Read> {
        let (chain, info) = (Arc::clone(&self.chain), left.info);
        let (topics, told) = (Arc::clone(&self.topics), Some(left.told.clone()));
        let question = ValuesQuestion { topics, up_to: left.up_to, told };
        Box::pin(async move {
            pause_for(pause).await;
            Read::Values(chain.reads().values(question, info).await)
        })
    }
}

async fn pause_for(pause: Duration) {
    if !pause.is_zero() {
        sleep(pause).await;
    }
}

/// What was read and isn't told yet: at most one stretch of the log and a half, which others may hold, too.
#[derive(Default)]
struct Queue {
    first: VecDeque<Told>,
    slices: VecDeque<(Arc<Slice<Told>>, usize)>,
}

impl Queue {
    /// Adds something that goes before the log.
    fn push(&mut self, told: Told) {
        self.first.push_back(told);
    }

    fn push_slice(&mut self, slice: Arc<Slice<Told>>) {
        self.slices.push_back((slice, 0));
    }

    fn pop(&mut self) -> Option<Told> {
        if let Some(told) = self.first.pop_front() {
            return Some(told);
        }
        loop {
            let (slice, next) = self.slices.front_mut()?;
            if let Some((_, told)) = slice.entries.get(*next) {
                *next += 1;
                return Some(told.clone());
            }
            self.slices.pop_front();
        }
    }

    /// Up to which height more of the log is wanted, if it is: when the last stretch isn't the end, and half of it is told.
    fn wants_more(&self) -> Option<Option<BlockNumber>> {
        let (slice, next) = self.slices.back()?;
        (slice.has_more && 2 * next >= slice.entries.len()).then_some(slice.up_to)
    }
}

impl Stream for Follow {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Told>> {
        loop {
            if let Some(told) = self.queue.pop() {
                self.read_ahead(context);
                return Poll::Ready(Some(told));
            }
            if let Some(reading) = &mut self.reading
                && let Poll::Ready(read) = reading.poll_unpin(context)
            {
                self.reading = None;
                self.handle_read(read);
                continue;
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            if self.reading.is_some() {
                return Poll::Pending;
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
