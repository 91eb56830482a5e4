//! How long the disk takes to keep something.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Instant;

use anyhow::Context as _;
use hdrhistogram::Histogram;

/// What is written before each flush: a page of PostgreSQL's write-ahead log.
const BLOCK_BYTES: usize = 8 << 10;
/// How large the file is; like a write-ahead log it is written over and not grown, which would flush more.
const FILE_BYTES: usize = 16 << 20;

/// A file on the disk for temporary files, where also the databases are.
pub(super) struct Disk {
    file: File,
    position: usize,
}

impl Disk {
    /// Makes the file.
    pub(super) fn open() -> anyhow::Result<Self> {
        let mut file = tempfile::tempfile().context("making a temporary file")?;
        file.write_all(&vec![0; FILE_BYTES])?;
        file.sync_all()?;
        Ok(Self { file, position: 0 })
    }

    /// Writes and flushes `times` times, and adds how long each took, in microseconds.
    pub(super) fn flush(&mut self, times: usize, durations: &mut Histogram<u64>) -> anyhow::Result<()> {
        for _ in 0..times {
            let start = Instant::now();
            self.file.seek(SeekFrom::Start(self.position as u64))?;
            self.file.write_all(&[1; BLOCK_BYTES])?;
            self.file.sync_data()?;
            durations.saturating_record(micros_since(start));
            self.position = (self.position + BLOCK_BYTES) % FILE_BYTES;
        }
        Ok(())
    }
}

/// Room for durations in microseconds, up to a minute.
pub(super) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}

/// How many microseconds have passed.
pub(super) fn micros_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}
