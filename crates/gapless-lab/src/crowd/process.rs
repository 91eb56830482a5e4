//! One process of a crowd.

use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::member::Member;
use super::{HEARD, Pause, READY, Reunion};
use crate::server;

/// Who is in it.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Membership {
    /// Where the server is
    #[arg(long)]
    server: SocketAddr,
    /// How many clients
    #[arg(long)]
    members: u64,
    /// Where they come from
    #[arg(long)]
    source: Ipv4Addr,
    /// How they wait before they come back
    #[arg(long)]
    pause: Pause,
}

/// How many connect at the same time in the beginning.
const CONNECTS_AT_ONCE: usize = 64;

/// Has all clients subscribe, says so, is told the last event's number, and tells what became of them once all have that event.
pub(crate) async fn live(membership: Membership) -> anyhow::Result<()> {
    let Membership { server, members, source, pause } = membership;
    server::raise_open_files()?;
    let last = watch::Sender::new(None);
    let (subscribed, mut all_subscribed) = mpsc::channel::<()>(1);
    let turn = Arc::new(Semaphore::new(CONNECTS_AT_ONCE));
    let mut lives = JoinSet::new();
    for _ in 0..members {
        let member = Member::new(server, source, pause, last.subscribe());
        lives.spawn(member.live(Arc::clone(&turn), subscribed.clone()));
    }
    drop(subscribed);
    // It ends when every client has dropped its end.
    while all_subscribed.recv().await.is_some() {}
    say(READY)?;
    let number = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().lock().read_line(&mut line)?;
        line.trim().parse::<u64>().context("reading the last event's number")
    });
    last.send_replace(Some(number.await??));
    say(HEARD)?;
    let mut reunion = Reunion::default();
    while let Some(lived) = lives.join_next().await {
        reunion.include(lived??);
    }
    say(&serde_json::to_string(&reunion)?)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
