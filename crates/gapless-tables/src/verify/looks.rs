//! Looks at rows that are suspected, and makes those equal that differ.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Key;
use super::ahead::{Ahead, reshaped};
use super::keys::{by_key, parts};
use super::run::Verifier;
use super::suspects::{Look, Settled};
use crate::replicate::Fault;
use crate::wire::TableDescription;

/// Between two looks at rows that aren't settled.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How long nobody else writes while rows are fetched.
const FETCH_MAX: Duration = Duration::from_secs(5);

impl Verifier {
    /// Looks at suspected rows until only so many are left that aren't settled.
    pub(super) async fn settle(&mut self, description: &TableDescription, left: usize) -> Result<(), Fault> {
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
}
