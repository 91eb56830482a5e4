//! The loop that keeps a copy equal.

use std::time::Duration;

use gapless_core::{Backoff, BackoffConfig};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::page::{Answer, Page};
use super::position::Position;
use super::report::{Report, Side};
use super::sink::{Sink, SinkError};
use super::source_client::{Question, SourceClient};
use super::source_fault::SourceFault;
use crate::wire::TableDescription;

/// How a copy is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The most rows of a page.
    pub page_rows: u32,
    /// Rows that were changed at this time or later are read once more first.
    pub since: Option<String>,
    /// All rows of the target are taken away first, and copied anew.
    pub anew: bool,
    /// Whether to end when nothing more is there.
    pub once: bool,
    /// Whatever differs between replicators, so that they don't all ask at the same time.
    pub seed: u64,
}

/// Keeps one copy equal.
pub struct Replicator {
    source: SourceClient,
    sink: Box<dyn Sink>,
    config: ReplicaConfig,
    reports: mpsc::Sender<Report>,
    backoff: Backoff,
    pace: Backoff,
    failures: u32,
    failing_since: Option<Instant>,
}

/// What went wrong, and where.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The source doesn't answer as it should.
    #[error("source: {0}")]
    Source(SourceFault),
    /// The target doesn't take what it should.
    #[error("target: {0}")]
    Target(SinkError),
}

impl From<SourceFault> for Fault {
    fn from(fault: SourceFault) -> Self {
        Self::Source(fault)
    }
}

impl From<SinkError> for Fault {
    fn from(error: SinkError) -> Self {
        Self::Target(error)
    }
}

/// Why a replicator has ended that should have gone on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something that won't pass by itself.
    #[error(transparent)]
    Stopped(Fault),
    /// Something that may pass has not, for as long as one who wants to end waits.
    #[error("it was tried again and again for {seconds} s", seconds = GIVE_UP_AFTER.as_secs())]
    GaveUp(#[source] Fault),
}

/// How a stretch of work has ended without a fault.
enum End {
    UpToDate,
    /// The table is another than was described.
    Reshaped,
}

/// Between two questions when nothing is new: spread, that is 5 to 15 s.
const PACE: BackoffConfig = BackoffConfig { base: Duration::from_secs(10), cap: Duration::from_secs(10) };
/// How long one who wants to end tries again.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// However long a server wants to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

impl Replicator {
    /// Prepares to work; nothing is asked yet. What happens is told to `reports`, which must be read.
    pub fn new(
        source: SourceClient,
        sink: Box<dyn Sink>,
        config: ReplicaConfig,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let seed = config.seed;
        Self {
            source,
            sink,
            config,
            reports,
            backoff: Backoff::new(BackoffConfig::REQUEST, seed),
            pace: Backoff::new(PACE, seed),
            failures: 0,
            failing_since: None,
        }
    }

    /// Works until something stops it, or, if it should end, until nothing more is there. It may be dropped at any time: a page is in
    /// the target with its position, or not at all.
    pub async fn run(mut self) -> Result<(), RunError> {
        loop {
            match self.work().await {
                Ok(End::UpToDate) => return Ok(()),
                Ok(End::Reshaped) => {
                    // The servers behind one address may notice it one after the other.
                    sleep(self.backoff.next_delay()).await;
                }
                // The target tells where to go on, and the page is asked for again.
                Err(Fault::Target(SinkError::Repaired)) => self.tell(Report::Repaired).await,
                Err(fault) => self.pause_after(fault).await?,
            }
        }
    }

    /// Waits until a fault may have passed, if it may.
    async fn pause_after(&mut self, fault: Fault) -> Result<(), RunError> {
        let (side, kind, is_retryable, retry_after) = match &fault {
            Fault::Source(fault) => (Side::Source, fault.kind(), fault.is_retryable(), fault.retry_after()),
            Fault::Target(fault) => (Side::Target, fault.kind(), fault.is_retryable(), None),
        };
        if !is_retryable {
            return Err(RunError::Stopped(fault));
        }
        self.failures = self.failures.saturating_add(1);
        let failing_since = *self.failing_since.get_or_insert_with(Instant::now);
        if self.config.once && failing_since.elapsed() >= GIVE_UP_AFTER {
            return Err(RunError::GaveUp(fault));
        }
        let pause = self.backoff.next_delay().max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        let reason = fault.to_string();
        self.tell(Report::Failed { side, kind, reason, pause, failures: self.failures }).await;
        sleep(pause).await;
        Ok(())
    }

    /// Works from the position that the target tells until something fails or the table is another.
    async fn work(&mut self) -> Result<End, Fault> {
        let description = self.source.describe().await?;
        let mut position = self.begin(&description).await?;
        let mut answer = self.ask(&position, Duration::ZERO).await?;
        loop {
            if answer.head.schema_version != description.schema_version {
                self.tell(Report::Reshaped).await;
                return Ok(End::Reshaped);
            }
            let page = Page::new(answer, description.columns.len(), self.sink.values())
                .map_err(SourceFault::from)?;
            let next = position.after(&page.head);
            if position.has_more_after(&page.head) {
                // The next page is on its way while this one is written.
                let question = question(&next, self.config.page_rows, Duration::ZERO);
                let values = self.sink.values();
                let (written, asked) = tokio::join!(
                    self.sink.apply(&page, &position, &next),
                    self.source.page(&question, values)
                );
                written?;
                self.handle_progress(&page).await;
                answer = asked?;
            } else {
                if page.head.records > 0 || next != position {
                    self.sink.apply(&page, &position, &next).await?;
                }
                self.handle_progress(&page).await;
                self.tell(Report::UpToDate).await;
                if self.config.once {
                    return Ok(End::UpToDate);
                }
                drop(page);
                answer = self.wait(&next).await?;
            }
            position = next;
        }
    }

    /// Prepares the target, and does once what was asked to be done first.
    async fn begin(&mut self, description: &TableDescription) -> Result<Position, Fault> {
        let mut position = self.sink.prepare(description).await?;
        if self.config.anew {
            self.sink.clear().await?;
            self.config.anew = false;
            position = self.sink.prepare(description).await?;
        }
        let goes_on = position.next_cursor().is_some();
        if let Some(since) = self.config.since.clone() {
            let mut to = position.replaying(&since);
            if !self.is_good(&position).await? {
                // The server can't go on from there, so whoever chose the time knows from when on rows may be missing.
                to.cursor = None;
            }
            if to != position {
                self.sink.note(&position, &to).await?;
            }
            self.config.since = None;
            position = to;
        }
        self.tell(Report::Ready { goes_on, rows_estimate: description.rows_estimate }).await;
        Ok(position)
    }

    /// Whether the server goes on from the cursor of a position. If it doesn't because deletes aren't known any more, that is a fault: no
    /// time to read again from brings those.
    async fn is_good(&mut self, position: &Position) -> Result<bool, SourceFault> {
        let Some(cursor) = position.cursor.as_deref() else { return Ok(true) };
        let question = Question { cursor: Some(cursor), since: None, limit: 1, wait_ms: 0 };
        match self.source.page(&question, self.sink.values()).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_about_the_cursor() && !fault.is_expired() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    async fn ask(&mut self, position: &Position, wait: Duration) -> Result<Answer, SourceFault> {
        self.source.page(&question(position, self.config.page_rows, wait), self.sink.values()).await
    }

    /// Asks for what comes next, which the server tells when it is there. It isn't asked again at once, whatever it does.
    async fn wait(&mut self, position: &Position) -> Result<Answer, SourceFault> {
        let pause = self.pace.next_delay();
        let asked_at = Instant::now();
        let answer = self.ask(position, pause).await?;
        if answer.head.records == 0 && !answer.head.has_more {
            sleep(pause.saturating_sub(asked_at.elapsed())).await;
        }
        Ok(answer)
    }

    async fn handle_progress(&mut self, page: &Page) {
        self.backoff.reset();
        self.failures = 0;
        self.failing_since = None;
        self.tell(Report::Applied {
            upserts: page.records.upserts,
            deletes: page.records.deletes,
            lag: Duration::from_millis(page.head.lag_ms),
            has_more: page.head.has_more,
            held_by: page.head.held_by.clone(),
        })
        .await;
    }

    async fn tell(&mut self, report: Report) {
        // Whoever doesn't want to know any more doesn't stop the work.
        self.reports.send(report).await.ok();
    }
}

fn question(position: &Position, limit: u32, wait: Duration) -> Question<'_> {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or_default();
    Question { cursor: position.next_cursor(), since: position.since(), limit, wait_ms }
}

#[cfg(test)]
mod tests;
