//! The loop that compares a copy.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_core::{Backoff, BackoffConfig};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::Key;
use super::ahead::{Ahead, reshaped};
use super::by_keys::{ByKeys, KeyStep};
use super::checked_copy::CheckedCopy;
use super::listing::Listing;
use super::suspects::{Look, Settled, Suspects};
use super::verdict::Verdict;
use super::walk::{LISTED_ROWS, Step, Walk};
use crate::replicate::{Fault, RunError, SourceClient};
use crate::source::PAGE_ROWS_MAX;
use crate::wire::{Consistency, KeyRange, RowDigest, TableDescription};

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
    source: SourceClient,
    copy: Box<dyn CheckedCopy>,
    config: VerifyConfig,
    backoff: Backoff,
    failing_since: Option<Instant>,
    suspects: Suspects,
    /// The keys of rows that are still to be made equal.
    to_mend: Vec<Key>,
    ahead: Option<Ahead>,
    verdict: Verdict,
    told_at: Instant,
}

/// What is compared next.
enum Course {
    Walk(Walk),
    ByKeys(ByKeys),
}

/// How many rows of one side are looked up in the other at once.
const LOOKED_UP: u32 = 1_000;
/// How many bytes of keys are sent at once; a server takes at least twice as much.
const KEY_BYTES_MAX: usize = 32 << 10;
/// How many keys may be suspected; with more, those are settled first.
const SUSPECTS_MAX: usize = 5_000;
/// Between two looks at rows that aren't settled.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How long nobody else writes while rows are fetched.
const FETCH_MAX: Duration = Duration::from_secs(5);
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

    /// Takes a step where ranges are the same on both sides. Returns whether there is none.
    async fn walk(&mut self, walk: &mut Walk) -> Result<bool, Fault> {
        match walk.next() {
            None => return Ok(true),
            Some(Step::Sum(range, rows)) => {
                let begun_at = Instant::now();
                let source = self.source.digest(&range, Some(rows)).await?;
                let stretch = KeyRange { up_to: source.up_to.clone().or(range.up_to), after: range.after };
                let copy = self.copy.digest(&stretch).await?;
                if walk.handle_sums(&source, &copy, begun_at.elapsed()) {
                    self.verdict.rows += u64::try_from(source.rows).unwrap_or_default();
                }
            }
            Some(Step::List(range)) => {
                let copied = self.copy.row_digests(&range, LISTED_ROWS * 2).await?;
                let copied_to = last_if_full(&copied, LISTED_ROWS * 2);
                let range = KeyRange { up_to: copied_to.clone().or(range.up_to), after: range.after };
                let rows = self.source.row_digests(&range, PAGE_ROWS_MAX).await?;
                let up_to = last_if_full(&rows, PAGE_ROWS_MAX).or(copied_to);
                self.verdict.rows += rows.len() as u64;
                let mut listing = Listing::new(rows);
                let now = Instant::now();
                self.suspects.handle_suspects(listing.handle_copy(copied), now);
                self.suspects.handle_suspects(listing.finish(), now);
                walk.handle_listed(up_to);
            }
        }
        Ok(false)
    }

    /// Takes a step where they aren't. Returns whether there is none.
    async fn look_up(&mut self, by_keys: &mut ByKeys) -> Result<bool, Fault> {
        match by_keys.next() {
            None => return Ok(true),
            Some(KeyStep::Add(range, rows)) => {
                let source = self.source.digest(&range, Some(rows)).await?;
                self.verdict.rows += u64::try_from(source.rows).unwrap_or_default();
                by_keys.handle_added(&source);
            }
            Some(KeyStep::Total) => by_keys.handle_total(&self.copy.digest(&KeyRange::default()).await?),
            Some(KeyStep::SourceKeys(range)) => {
                let rows = self.source.row_digests(&range, LOOKED_UP).await?;
                let last = last_if_full(&rows, LOOKED_UP);
                let keys: Vec<Key> = rows.iter().map(|row| row.key.clone()).collect();
                let (_, copied) = self.copy.look(&keys).await?;
                let mut listing = Listing::new(rows);
                let now = Instant::now();
                self.suspects.handle_suspects(listing.handle_copy(copied), now);
                self.suspects.handle_suspects(listing.finish(), now);
                by_keys.handle_keys(last);
            }
            Some(KeyStep::CopyKeys(range)) => {
                let rows = self.copy.row_digests(&range, LOOKED_UP).await?;
                let last = last_if_full(&rows, LOOKED_UP);
                let keys: Vec<Key> = rows.into_iter().map(|row| row.key).collect();
                let mut extra = Vec::new();
                for keys in parts(&keys) {
                    let found = by_key(self.source.key_digests(keys).await?);
                    extra.extend(keys.iter().filter(|key| !found.contains_key(*key)).cloned());
                }
                self.suspects.handle_suspects(extra, Instant::now());
                by_keys.handle_keys(last);
            }
        }
        Ok(false)
    }

    /// Looks at suspected rows until only so many are left that aren't settled.
    async fn settle(&mut self, description: &TableDescription, left: usize) -> Result<(), Fault> {
        self.mend(description).await?;
        while self.suspects.len() > left {
            for keys in parts(&self.suspects.keys()) {
                self.look(keys, description).await?;
                self.mend(description).await?;
            }
            if self.suspects.len() > left {
                sleep(LOOK_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Looks at some rows: at the source, in the copy, at what the source still tells such a copy, and at the source again.
    async fn look(&mut self, keys: &[Key], description: &TableDescription) -> Result<(), Fault> {
        let before = by_key(self.source.key_digests(keys).await?);
        let (position, copy) = self.copy.look(keys).await?;
        let copy = by_key(copy);
        let ahead = match self.ahead.take().filter(|ahead| ahead.is_from(&position)) {
            Some(ahead) => self.ahead.insert(ahead),
            None => {
                self.suspects.handle_moved(Instant::now());
                self.ahead.insert(Ahead::new(position))
            }
        };
        ahead.read_on(&self.source, description).await?;
        let after = by_key(self.source.key_digests(keys).await?);
        let now = Instant::now();
        for key in keys {
            let look = Look {
                before: before.get(key).map(String::as_str),
                copy: copy.get(key).map(String::as_str),
                is_ahead: ahead.has(key),
                after: after.get(key).map(String::as_str),
            };
            let Some(settled) = self.suspects.handle_look(key, &look, now) else { continue };
            self.verdict.handle_settled(key, settled);
            if self.config.repair && matches!(settled, Settled::Differs(_) | Settled::Behind(_)) {
                self.to_mend.push(key.clone());
            }
        }
        Ok(())
    }

    /// Makes the rows equal that are to be.
    async fn mend(&mut self, description: &TableDescription) -> Result<(), Fault> {
        loop {
            let keys = parts(&self.to_mend).next().map(<[Key]>::to_vec);
            let Some(keys) = keys else { return Ok(()) };
            let (source, values) = (&self.source, self.copy.values());
            let fetch = async move {
                let asked = source.rows(&keys, description.columns.len(), values);
                let (head, records) = timeout(FETCH_MAX, asked).await.map_err(|_| source.silent())??;
                match head.schema_version == description.schema_version {
                    true => Ok(records),
                    false => Err(reshaped().into()),
                }
            };
            let mended = self.copy.mend(Box::pin(fetch)).await?;
            self.to_mend.drain(..mended.min(self.to_mend.len()));
            self.verdict.repaired += mended as u64;
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

/// The key of the last of some rows, if there are as many as were asked for.
fn last_if_full(rows: &[RowDigest], asked: u32) -> Option<Key> {
    rows.last().filter(|_| rows.len() >= asked as usize).map(|row| row.key.clone())
}

fn by_key(rows: Vec<RowDigest>) -> BTreeMap<Key, String> {
    rows.into_iter().map(|row| (row.key, row.digest)).collect()
}

/// Keys in parts that may be sent at once.
fn parts(keys: &[Key]) -> impl Iterator<Item = &[Key]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |key: &&Key| {
            // As they are written in JSON, where each byte may take six.
            bytes += key.iter().map(|text| 6 * text.len() + 4).sum::<usize>();
            bytes <= KEY_BYTES_MAX
        };
        let fitting = rest.iter().take(LOOKED_UP as usize).take_while(fits).count().max(1);
        let (part, behind) = rest.split_at(fitting.min(rest.len()));
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}
