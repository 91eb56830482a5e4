//! The table over HTTP, as a reader without a replicator asks for it.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::disk::{histogram, micros_since};
use crate::http::Connection;

/// Where pages are asked for.
pub(super) const SYNC: &str = "/v1/tables/events/sync?user=lab";

/// The cursor of a page.
pub(super) fn next_cursor(answer: &str) -> anyhow::Result<String> {
    let (_, rest) = answer.split_once(r#""next_cursor":""#).with_context(|| answer.to_owned())?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

/// When a row was changed.
pub(super) fn moment(row: u64) -> String {
    let micros = row * 137;
    let (minute, second) = (micros / 60_000_000, micros / 1_000_000 % 60);
    format!("2026-01-01T00:{minute:02}:{second:02}.{:06}Z", micros % 1_000_000)
}

/// How many milliseconds it takes to learn that there is nothing: p50 of so many polls of a table of so many rows, none of which was
/// changed since it was made.
pub(super) async fn empty_poll(server: SocketAddr, rows: u64, polls: usize) -> anyhow::Result<f64> {
    let mut connection = Connection::open(server).await?;
    let body = format!(r#"{{"since":"{}"}}"#, moment(rows + 1));
    let mut cursor = next_cursor(&connection.post(SYNC, &body).await?)?;
    let mut durations = histogram()?;
    for _ in 0..polls {
        let body = format!(r#"{{"cursor":"{cursor}"}}"#);
        let start = Instant::now();
        let answer = connection.post(SYNC, &body).await?;
        durations.saturating_record(micros_since(start));
        ensure!(answer.contains(r#""records":[]"#), "there is something: {answer}");
        cursor = next_cursor(&answer)?;
    }
    Ok(durations.value_at_quantile(0.5) as f64 / 1_000.0)
}
