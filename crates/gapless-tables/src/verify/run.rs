//! The loop that compares a copy.

use std::time::Duration;

use gapless_core::{Backoff, BackoffConfig};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::Key;
use super::ahead::{Ahead, reshaped};
use super::by_keys::ByKeys;
use super::checked_copy::CheckedCopy;
use super::suspects::Suspects;
use super::verdict::Verdict;
use super::walk::Walk;
use crate::replicate::{Fault, RunError, SourceClient};
use crate::wire::{Consistency, KeyRange, RangeDigest, TableDescription};

/// How a copy is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyConfig {
    /// How long a row may take to stand still and to arrive, before it counts as behind or changing.
    pub settle: Duration,
    /// Whether rows that differ are made equal.
    pub repair: bool,
    /// Whatever differs between those who ask, so that they don't all ask again at the same time.
    pub seed: u64,
}

/// Compares one copy with its source.
pub struct Verifier {
    pub(super) source: SourceClient,
    pub(super) copy: Box<dyn CheckedCopy>,
    pub(super) config: VerifyConfig,
    backoff: Backoff,
    failing_since: Option<Instant>,
    pub(super) suspects: Suspects,
    /// The keys of rows that are still to be made equal.
    pub(super) to_mend: Vec<Key>,
    pub(super) ahead: Option<Ahead>,
    /// A sum that was fetched before it was asked for.
    pub(super) fetched: Option<(KeyRange, RangeDigest)>,
    pub(super) verdict: Verdict,
    told_at: Instant,
}

/// What is compared next.
enum Course {
    Walk(Walk),
    ByKeys(ByKeys),
}

/// How many keys may be suspected; with more, those are settled first.
const SUSPECTS_MAX: usize = 5_000;
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Verifier {
    /// Prepares to compare; nothing is asked yet.
    pub fn new(source: SourceClient, copy: Box<dyn CheckedCopy>, config: VerifyConfig) -> Self {
        let now = Instant::now();
        Self {
            source,
            copy,
            backoff: Backoff::new(BackoffConfig::REQUEST, config.seed),
            failing_since: None,
            suspects: Suspects::new(config.settle, now),
            to_mend: Vec::new(),
            ahead: None,
            fetched: None,
            verdict: Verdict::default(),
            told_at: now,
            config,
        }
    }

    /// Compares all rows, and repairs those that differ if that was asked for. It may be dropped at any time: what was repaired until then stays.
    pub async fn run(mut self) -> Result<Verdict, RunError> {
        let mut begun = None;
        loop {
            match self.work(&mut begun).await {
                Ok(()) => return Ok(self.verdict),
                Err(fault) => self.pause_after(fault).await?,
            }
            if let Some((_, course)) = &mut begun {
                course.handle_failure();
            }
        }
    }

    /// Works until all is compared or something fails; then it goes on where it was.
    async fn work(&mut self, begun: &mut Option<(TableDescription, Course)>) -> Result<(), Fault> {
        let description = self.source.describe().await?;
        self.copy.open(&description).await?;
        if begun.as_ref().is_some_and(|(before, _)| before.schema_version != description.schema_version) {
            return Err(reshaped().into());
        }
        let (description, course) = begun.get_or_insert_with(|| {
            let course = match self.copy.is_in_order(&description) {
                true => Course::Walk(Walk::new()),
                false => Course::ByKeys(ByKeys::new()),
            };
            (description, course)
        });
        if description.consistency == Consistency::BestEffort {
            self.suspects.handle_late_source();
        }
        loop {
            let is_through = match course {
                Course::Walk(walk) => self.walk(walk).await?,
                Course::ByKeys(by_keys) => self.look_up(by_keys).await?,
            };
            self.handle_progress();
            self.settle(description, if is_through { 0 } else { SUSPECTS_MAX }).await?;
            if is_through {
                return Ok(());
            }
        }
    }

    fn handle_progress(&mut self) {
        self.failing_since = None;
        self.backoff.reset();
        if self.told_at.elapsed() >= TELL_EVERY {
            self.told_at = Instant::now();
            info!(rows = self.verdict.rows, suspected = self.suspects.len(), "comparing");
        }
    }

    /// Waits until a fault may have passed, if it may.
    async fn pause_after(&mut self, fault: Fault) -> Result<(), RunError> {
        let retry_after = match &fault {
            Fault::Source(source) if source.is_retryable() => source.retry_after().unwrap_or_default(),
            Fault::Target(target) if target.is_retryable() => Duration::ZERO,
            Fault::Source(_) | Fault::Target(_) => return Err(RunError::Stopped(fault)),
        };
        if self.failing_since.get_or_insert_with(Instant::now).elapsed() >= GIVE_UP_AFTER {
            return Err(RunError::GaveUp(fault));
        }
        let pause = self.backoff.next_delay().max(retry_after.min(GIVE_UP_AFTER));
        warn!(reason = %fault, ?pause, "it fails, and is tried again");
        sleep(pause).await;
        Ok(())
    }
}

impl Course {
    fn handle_failure(&mut self) {
        match self {
            Self::Walk(walk) => walk.handle_failure(),
            Self::ByKeys(by_keys) => by_keys.handle_failure(),
        }
    }
}
