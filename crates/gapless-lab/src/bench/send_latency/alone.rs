//! One after the other, with nothing else going on: the least that a message takes, with and without gapless.

use std::net::SocketAddr;
use std::time::Instant;

use futures_util::{SinkExt as _, StreamExt as _};
use hdrhistogram::Histogram;

use super::{PLAIN_CONVERSATION, SENDER, Script, next};
use crate::bench::disk::micros_since;
use crate::bench::frames::Incoming;
use crate::bench::plain_sender::PlainSender;
use crate::raw_client::connect_socket;

/// Sends so many messages, each when the one before is acknowledged, and adds how long each took in microseconds.
pub(super) async fn sends(
    server: SocketAddr,
    count: usize,
    durations: &mut Histogram<u64>,
) -> anyhow::Result<()> {
    let (mut sink, mut stream) = connect_socket(server, SENDER, "alone").await?.split();
    let mut script = Script::new();
    for _ in 0..count {
        let start = Instant::now();
        sink.send(script.next_frame()).await?;
        while !matches!(next(&mut stream, &mut sink).await?, Incoming::Sent { .. }) {}
        durations.saturating_record(micros_since(start));
    }
    Ok(())
}

/// Lets PostgreSQL store so many messages, one statement after the other.
pub(super) async fn statements(
    plain: &PlainSender,
    count: usize,
    durations: &mut Histogram<u64>,
) -> anyhow::Result<()> {
    for _ in 0..count {
        let start = Instant::now();
        plain.append_in_one_statement(PLAIN_CONVERSATION, SENDER).await?;
        durations.saturating_record(micros_since(start));
    }
    Ok(())
}
