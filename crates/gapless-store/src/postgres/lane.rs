//! A lane: one task with one connection, through which all writes to its feeds go.
//!
//! A feed belongs to one lane of a gateway, so its news leaves in commit order. Another gateway's lane may write to the
//! same feed at any time; the lock on the feed's row keeps the two apart.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gapless_core::{Append, Appended};
use gapless_proto::{ChainId, ConvId, Position, Seq, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;
use tracing::debug;

use super::chain::ingest::{Failed, KnownTree, Taken, ingest};
use super::chain::maintenance;
use super::commit::{CommitError, Committed, Keys, commit_appends};
use super::connection::Connector;
use super::creation::create;
use super::fault::{Fault, within};
use super::link::{LOCKED_PATIENCE, Link};
use super::upkeep::{TrimStep, raise_epochs, trim_step};
use crate::commit_queue::{CommitQueue, Committer, Waiting};
use crate::news::NewsSender;
use crate::{
    AppendError, ChainInfo, Creation, Generation, INGESTION_BLOCKS_MAX, IngestError, Ingested, Ingestion,
    StoreError,
};

/// How many jobs may wait for a lane; one more is refused as [`StoreError::Busy`].
const JOBS_WAITING_MAX: usize = 256;
/// How many feeds are kept in mind whose commit may or may not have happened. Of others, later news tells.
const IN_DOUBT_MAX: usize = 4_096;
/// Fails where nothing can be written, as on a server that isn't the primary any more.
const CHECK: &str = "BEGIN READ WRITE; ROLLBACK";
/// For how many commits keys are looked up at once after that was necessary.
const LOOK_UPS: u32 = 64;
/// How long after a commit in doubt it is looked up, when nothing else is to be done.
const IN_DOUBT_PAUSE: Duration = Duration::from_millis(200);

/// A lane, for those who have something written.
#[derive(Debug)]
pub(super) struct Lane {
    appends: CommitQueue,
    jobs: mpsc::Sender<Job>,
}

/// Something to be written that isn't an append.
#[derive(Debug)]
enum Job {
    Create { creation: Creation, reply: Reply<Option<Position>> },
    TrimStep { conv: ConvId, below: Seq, reply: Reply<Option<TrimStep>> },
    RaiseEpochs { convs: Vec<ConvId>, reply: Reply<u64> },
    Ingest { chain: ChainId, ingestion: Ingestion, reply: oneshot::Sender<Result<Ingested, IngestError>> },
    TrimChain { chain: ChainId, below: Seq, reply: Reply<Option<(Seq, bool)>> },
    RaiseChainEpochs { reply: Reply<u64> },
    RestartChain { chain: ChainId, reply: Reply<Option<ChainInfo>> },
    ClearChain { chain: ChainId, reply: Reply<bool> },
    Check { reply: Reply<()> },
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl Lane {
    /// Starts a lane, which ends when `closing` says so and what waits is done.
    pub(super) fn start(
        connector: Connector,
        news: NewsSender,
        closing: watch::Receiver<bool>,
    ) -> (Self, JoinHandle<()>) {
        let (appends, committer) = CommitQueue::new();
        let (jobs, waiting_jobs) = mpsc::channel(JOBS_WAITING_MAX);
        let driver = Driver {
            committer,
            jobs: waiting_jobs,
            closing,
            link: Link::new(connector),
            news,
            is_closing: false,
            in_doubt: BTreeSet::new(),
            look_ups_left: 0,
            trees: HashMap::new(),
        };
        (Self { appends, jobs }, tokio::spawn(driver.run()))
    }

    pub(super) fn generation(&self) -> Generation {
        self.appends.generation()
    }

    pub(super) async fn append(
        &self,
        append: Append,
        generation: Option<Generation>,
    ) -> Result<Appended, AppendError> {
        self.appends.append(append, generation).await
    }

    /// Creates a conversation; `None` when there is one of that name.
    pub(super) async fn create(&self, creation: Creation) -> Result<Option<Position>, StoreError> {
        self.job(|reply| Job::Create { creation, reply }).await
    }

    /// Deletes some of the entries below `below`; `None` when there is no such conversation.
    pub(super) async fn trim_step(&self, conv: &ConvId, below: Seq) -> Result<Option<TrimStep>, StoreError> {
        let conv = conv.clone();
        self.job(|reply| Job::TrimStep { conv, below, reply }).await
    }

    /// Raises the epochs of feeds that are this lane's; says how many of them exist.
    pub(super) async fn raise_epochs(&self, convs: Vec<ConvId>) -> Result<u64, StoreError> {
        self.job(|reply| Job::RaiseEpochs { convs, reply }).await
    }

    /// Takes blocks of a chain that is this lane's.
    pub(super) async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        self.job(|reply| Job::Ingest { chain, ingestion, reply }).await
    }

    /// Takes one step of a trim of a chain's feed; answers with the oldest seq kept, and whether that was the last step.
    pub(super) async fn trim_chain(
        &self,
        chain: ChainId,
        below: Seq,
    ) -> Result<Option<(Seq, bool)>, StoreError> {
        self.job(|reply| Job::TrimChain { chain, below, reply }).await
    }

    /// Raises the epochs of all chains.
    pub(super) async fn raise_chain_epochs(&self) -> Result<u64, StoreError> {
        self.job(|reply| Job::RaiseChainEpochs { reply }).await
    }

    /// Begins the feed of a chain anew.
    pub(super) async fn restart_chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        self.job(|reply| Job::RestartChain { chain, reply }).await
    }

    /// Takes one step of deleting what the feed of a chain that was given up has left; answers whether nothing is left.
    pub(super) async fn clear_chain(&self, chain: ChainId) -> Result<bool, StoreError> {
        self.job(|reply| Job::ClearChain { chain, reply }).await
    }

    /// Whether the lane could write now.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        self.job(|reply| Job::Check { reply }).await
    }

    async fn job<T, E: From<StoreError>>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Job,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(job(reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })?;
        answer.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

/// The task of a lane.
struct Driver {
    committer: Committer,
    jobs: mpsc::Receiver<Job>,
    closing: watch::Receiver<bool>,
    is_closing: bool,
    link: Link,
    news: NewsSender,
    /// Feeds of which it isn't known whether the last commit happened.
    in_doubt: BTreeSet<ConvId>,
    /// For how many further commits keys are looked up before anything speaks for it.
    look_ups_left: u32,
    /// The blocks that are kept of each chain, as of its last ingestion here.
    trees: HashMap<ChainId, KnownTree>,
}

/// What can wake a lane.
enum Input {
    Appends(Vec<Waiting>),
    Job(Job),
    LookUpDoubt,
    Close,
    End,
}

impl Driver {
    async fn run(mut self) {
        loop {
            match self.next_input().await {
                Input::Appends(waiting) => self.append(waiting).await,
                Input::Job(job) => self.carry_out(job).await,
                Input::LookUpDoubt => self.append(Vec::new()).await,
                Input::Close => {
                    self.is_closing = true;
                    self.committer.close();
                    self.jobs.close();
                }
                Input::End => return,
            }
        }
    }

    async fn next_input(&mut self) -> Input {
        if self.is_closing {
            return match self.jobs.recv().await {
                Some(job) => Input::Job(job),
                None => match self.committer.next_batch().await {
                    Some(waiting) => Input::Appends(waiting),
                    None => Input::End,
                },
            };
        }
        tokio::select! {
            Some(waiting) = self.committer.next_batch() => Input::Appends(waiting),
            Some(job) = self.jobs.recv() => Input::Job(job),
            () = sleep(IN_DOUBT_PAUSE), if !self.in_doubt.is_empty() => Input::LookUpDoubt,
            _ = self.closing.changed() => Input::Close,
        }
    }

    async fn append(&mut self, waiting: Vec<Waiting>) {
        if waiting.is_empty() && self.in_doubt.is_empty() {
            return;
        }
        match self.commit(&waiting).await {
            Ok(Committed { outcomes, news, keys }) => {
                self.in_doubt.clear();
                self.note_keys(keys);
                for (waiting, outcome) in waiting.into_iter().zip(outcomes) {
                    waiting.answer(outcome);
                }
                self.news.publish(news);
                // Whoever was answered and sends again at once is in time for the next batch.
                yield_now().await;
            }
            Err(error) => {
                self.committer.commit_failed();
                let fault = Arc::new(self.note(error));
                for waiting in waiting {
                    waiting.fail((&fault).into());
                }
            }
        }
    }

    /// Where keys had to be looked up, it is done at once for a while: whoever sends one message again mostly sends several.
    fn note_keys(&mut self, keys: Keys) {
        self.look_ups_left = match (keys, self.look_ups_left) {
            (Keys::TakenForNew, _) => 0,
            (Keys::LookedUp, 0) => LOOK_UPS,
            (Keys::LookedUp, left) => left - 1,
        };
    }

    /// Commits; once more on a new connection when the old one broke before the commit was asked for.
    async fn commit(&mut self, waiting: &[Waiting]) -> Result<Committed, CommitError> {
        let appends: Vec<&Append> = waiting.iter().map(|waiting| &waiting.append).collect();
        match self.try_commit(&appends).await {
            Err(CommitError::NotWritten(fault)) if fault.is_of_connection() => {
                self.try_commit(&appends).await
            }
            outcome => outcome,
        }
    }

    async fn try_commit(&mut self, appends: &[&Append]) -> Result<Committed, CommitError> {
        let keys = if self.look_ups_left > 0 { Keys::LookedUp } else { Keys::TakenForNew };
        let session = self.link.session().await?;
        let outcome = commit_appends(session, appends, &self.in_doubt, keys, now()).await;
        if outcome.is_err() {
            self.link.hang_up();
        }
        outcome
    }

    async fn carry_out(&mut self, job: Job) {
        // That nobody waits any more is all right.
        match job {
            Job::Create { creation, reply } => {
                let _ = reply.send(self.create(&creation).await);
            }
            Job::TrimStep { conv, below, reply } => {
                let _ = reply.send(self.trim_step(&conv, below).await);
            }
            Job::RaiseEpochs { convs, reply } => {
                let _ = reply.send(self.raise_epochs(&convs).await);
            }
            Job::Ingest { chain, ingestion, reply } => {
                let _ = reply.send(self.ingest(chain, ingestion).await);
            }
            Job::TrimChain { chain, below, reply } => {
                let _ = reply.send(self.trim_chain(chain, below).await);
            }
            Job::RaiseChainEpochs { reply } => {
                let _ = reply.send(self.raise_chain_epochs().await);
            }
            Job::RestartChain { chain, reply } => {
                let _ = reply.send(self.restart_chain(chain).await);
            }
            Job::ClearChain { chain, reply } => {
                let _ = reply.send(self.clear_chain(chain).await);
            }
            Job::Check { reply } => {
                let _ = reply.send(self.check().await);
            }
        }
    }

    async fn create(&mut self, creation: &Creation) -> Result<Option<Position>, StoreError> {
        let session = self.link.session().await?;
        let created = create(session, creation, now()).await;
        let Some((position, news)) = self.concluded(created)? else {
            return Ok(None);
        };
        self.news.publish(news);
        Ok(Some(position))
    }

    async fn trim_step(&mut self, conv: &ConvId, below: Seq) -> Result<Option<TrimStep>, StoreError> {
        let session = self.link.session().await?;
        let trimmed = trim_step(session, conv, below).await;
        self.concluded(trimmed)
    }

    async fn raise_epochs(&mut self, convs: &[ConvId]) -> Result<u64, StoreError> {
        let session = self.link.session().await?;
        let raised = raise_epochs(session, convs, now()).await;
        let news = self.concluded(raised)?;
        let count = news.len() as u64;
        self.news.publish(news);
        Ok(count)
    }

    async fn ingest(&mut self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        let blocks = ingestion.blocks.len();
        if blocks > INGESTION_BLOCKS_MAX {
            return Err(IngestError::TooMany { blocks });
        }
        let known = self.trees.remove(&chain);
        let session = self.link.session().await.map_err(StoreError::from)?;
        match ingest(session, chain, ingestion, known, now()).await {
            Ok(Taken { ingested, news, known }) => {
                self.trees.insert(chain, known);
                self.news.publish_chain(news);
                Ok(ingested)
            }
            Err(Failed::Refused(refusal)) => Err(refusal),
            Err(Failed::Clearing) => {
                self.clear_chain(chain).await?;
                Err(StoreError::Busy.into())
            }
            Err(Failed::Fault(fault)) => {
                self.link.hang_up();
                Err(StoreError::from(fault).into())
            }
        }
    }

    async fn trim_chain(&mut self, chain: ChainId, below: Seq) -> Result<Option<(Seq, bool)>, StoreError> {
        let session = self.link.session().await?;
        let step = maintenance::trim_step(session, chain, below).await;
        if step.is_err() {
            self.link.hang_up();
        }
        Ok(step?)
    }

    async fn raise_chain_epochs(&mut self) -> Result<u64, StoreError> {
        let session = self.link.session().await?;
        let raised = maintenance::raise_epochs(session, now()).await;
        if raised.is_err() {
            self.link.hang_up();
        }
        let news = raised?;
        let raised = news.len() as u64;
        for news in news {
            self.news.publish_chain(news);
        }
        Ok(raised)
    }

    async fn restart_chain(&mut self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        self.trees.remove(&chain);
        let session = self.link.session().await?;
        let restarted = maintenance::restart(session, chain, now()).await;
        if restarted.is_err() {
            self.link.hang_up();
        }
        Ok(restarted?.map(|news| {
            let info = news.info;
            self.news.publish_chain(news);
            info
        }))
    }

    async fn clear_chain(&mut self, chain: ChainId) -> Result<bool, StoreError> {
        let session = self.link.session().await?;
        let step = maintenance::clear_step(session, chain).await;
        if step.is_err() {
            self.link.hang_up();
        }
        Ok(step?)
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        let session = self.link.session().await?;
        let answer = within(LOCKED_PATIENCE, session.command(CHECK)).await;
        self.concluded(answer.map_err(CommitError::NotWritten))
    }

    /// Ends the session if something failed in it.
    fn concluded<T>(&mut self, outcome: Result<T, CommitError>) -> Result<T, StoreError> {
        outcome.map_err(|error| {
            self.link.hang_up();
            self.note(error).into()
        })
    }

    /// Notes a failed transaction, and gives its cause. Who asked for the transaction decides what is worth a warning.
    fn note(&mut self, error: CommitError) -> Fault {
        let fault = match error {
            CommitError::NotWritten(fault) | CommitError::Refused(fault) => fault,
            CommitError::InDoubt { fault, convs } => {
                let room = IN_DOUBT_MAX.saturating_sub(self.in_doubt.len());
                self.in_doubt.extend(convs.into_iter().take(room));
                fault
            }
        };
        debug!(error = &fault as &dyn std::error::Error, "a transaction failed");
        fault
    }
}

fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    Timestamp::new(milliseconds).unwrap_or_default()
}
