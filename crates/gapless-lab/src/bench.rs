//! The benchmarks: each measures gapless and what it is held against in the same run, in turns.

mod append;
mod big_table;
mod chain_backfill;
mod chain_latency;
mod disk;
mod filled_node;
mod frames;
mod idle;
mod logical_replication;
mod metronome;
mod page;
mod places;
mod plain_sender;
mod reading_session;
mod replay;
mod replicator;
mod rows;
mod send_latency;
mod table_copy;
mod table_cost;
mod table_ends;
mod table_increment;
mod table_page;
mod table_sync;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::figure::Figure;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bench {
    /// 64 senders to one conversation, through the store
    AppendHot,
    /// 256 senders to 1,000 conversations, through the store
    AppendSpread,
    /// How long a send takes until it is acknowledged, and pushed, over WebSocket at half of what it can take
    SendLatency,
    /// Pages of 50 out of a conversation of 5 million entries, over WebSocket
    Page,
    /// The memory of 15,000 connections on which nothing happens
    Idle,
    /// 100,000 events of a chain from a node into PostgreSQL
    ChainBackfill,
    /// How long an event, and a reorg, takes from a node through PostgreSQL to a client
    ChainLatency,
    /// 100,000 missed events over WebSocket, and what 1,000 clients that come back cost the database
    Replay,
    /// Pages of 100 rows of a table of a million, from the source and over HTTP
    TablePage,
    /// The first copy of a table of a million rows, against a pipe, logical replication, and other tools
    TableCopy,
    /// 50,000 changed rows until a copy has them, against logical replication
    TableIncrement,
    /// What being read in strict mode costs the writers of a table
    TableCost,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Enough to judge by.
    Full,
    /// Enough to see that it works.
    Tiny,
}

impl Scale {
    /// One of two, as the scale is.
    const fn pick<T: Copy>(self, full: T, tiny: T) -> T {
        match self {
            Self::Full => full,
            Self::Tiny => tiny,
        }
    }
}

/// Measures.
pub(crate) async fn run(
    bench: Bench,
    scale: Scale,
    postgres_url: Option<String>,
    peers: Option<PathBuf>,
) -> anyhow::Result<Vec<Figure>> {
    let figures = match bench {
        Bench::AppendHot => append::run(append::Pattern::Hot, scale, postgres_url).await,
        Bench::AppendSpread => append::run(append::Pattern::Spread, scale, postgres_url).await,
        Bench::SendLatency => send_latency::run(scale, postgres_url).await,
        Bench::Page => page::run(scale, postgres_url).await,
        Bench::Idle => idle::run(scale).await,
        Bench::ChainBackfill => chain_backfill::run(scale, postgres_url).await,
        Bench::ChainLatency => chain_latency::run(scale, postgres_url).await,
        Bench::Replay => replay::run(scale, postgres_url).await,
        Bench::TablePage => table_page::run(scale, postgres_url).await,
        Bench::TableCopy => table_copy::run(scale, peers).await,
        Bench::TableIncrement => table_increment::run(scale).await,
        Bench::TableCost => table_cost::run(scale, postgres_url).await,
    }?;
    Ok(match scale {
        Scale::Full => figures,
        Scale::Tiny => figures.into_iter().map(Figure::tiny).collect(),
    })
}
