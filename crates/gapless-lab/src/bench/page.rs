//! `page`: pages of 50 out of a long conversation, over WebSocket.

mod log;
mod raw;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::Scale;
use super::disk::{histogram, micros_since};
use super::frames::{self, Incoming};
use super::places;
use crate::database::{Databases, StoreKind};
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;
use crate::raw_client::{Socket, connect_socket};
use crate::server;

const BENCH: &str = "page";
const PAGE_ENTRIES: u32 = 50;
/// How many connections ask at the same time, each for one page after the other.
const CONNECTIONS: usize = 8;
/// How far the slowest place may be from the fastest, and how much of the raw query's rate is asked for.
const PLACES_RATIO_MAX: f64 = 1.2;
const RAW_RATIO_MIN: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
struct Plan {
    entries: u64,
    rounds: usize,
    round: Duration,
    pages_a_place: usize,
}

/// Where in the log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Beginning,
    Middle,
    End,
    Anywhere,
}

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        entries: scale.pick(5_000_000, 20_000),
        rounds: scale.pick(5, 1),
        round: scale.pick(Duration::from_secs(4), Duration::from_millis(200)),
        pages_a_place: scale.pick(400, 10),
    };
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let database = databases.fresh().await?;
    log::fill(&database, plan.entries).await?;
    let raw = raw::RawPages::connect(&database, CONNECTIONS).await?;
    let server = server::serve(&database.url()).await?;
    let figures = measure(plan, server.address(), &raw).await?;
    server::stop(server).await?;
    drop(raw);
    database.discard().await?;
    Ok(figures)
}

async fn measure(plan: Plan, server: SocketAddr, raw: &raw::RawPages) -> anyhow::Result<Vec<Figure>> {
    let progress = Progress::new(2 * plan.rounds);
    let places = [Place::Beginning, Place::Middle, Place::End];
    let mut durations = Vec::new();
    for _ in places {
        durations.push(histogram()?);
    }
    let mut socket = connect_socket(server, log::READER, "places").await?;
    let mut dice = SmallRng::seed_from_u64(1);
    for _ in 0..plan.rounds {
        progress.begin("pages at the beginning, in the middle and at the end");
        for _ in 0..plan.pages_a_place {
            for (place, durations) in places.iter().zip(&mut durations) {
                let start = Instant::now();
                page(&mut socket, place.cursor(plan.entries, &mut dice)).await?;
                durations.saturating_record(micros_since(start));
            }
        }
        progress.step();
    }
    let (mut ours, mut theirs, mut is_same) = (Vec::new(), Vec::new(), true);
    for _ in 0..plan.rounds {
        progress.begin("pages from anywhere");
        ours.push(pages_a_second(plan, server).await?);
        is_same &= raw.are_ours().await?;
        theirs.push(raw.pages_a_second(plan).await?);
        progress.step();
    }
    let p50s: Vec<_> = durations.iter().map(|place| place.value_at_quantile(0.5) as f64 / 1_000.0).collect();
    let versus = if is_same {
        "the same query on the driver"
    } else {
        "a like query on the driver (the store's has changed since)"
    };
    let pages = Figure::new(BENCH, format!("pages, {CONNECTIONS} connections"), "1/s", median(&ours))
        .versus(versus, median(&theirs))
        .target(Target::RatioAtLeast(RAW_RATIO_MIN));
    let mut figures = place_figures(plan, &p50s);
    figures.push(pages);
    Ok(figures)
}

fn place_figures(plan: Plan, p50s: &[f64]) -> Vec<Figure> {
    let entries = plan.entries;
    let named = places::NAMES.into_iter().zip(p50s);
    let mut figures: Vec<_> = named
        .map(|(place, p50)| {
            Figure::new(BENCH, format!("page of {PAGE_ENTRIES} of {entries}, {place}, p50"), "ms", *p50)
        })
        .collect();
    figures.push(places::slowest_against_fastest(BENCH, p50s, PLACES_RATIO_MAX));
    figures
}

impl Place {
    /// A cursor there; never the same twice in a row, so that nothing can remember the page.
    fn cursor(self, entries: u64, dice: &mut SmallRng) -> u64 {
        let last = entries - u64::from(PAGE_ENTRIES);
        let width = last / 50;
        let start = match self {
            Self::Beginning => 0,
            Self::Middle => last / 2,
            Self::End => last - width,
            Self::Anywhere => return dice.random_range(0..=last),
        };
        start + dice.random_range(0..=width)
    }
}

/// How many pages a second all connections get together.
async fn pages_a_second(plan: Plan, server: SocketAddr) -> anyhow::Result<f64> {
    let mut sockets = Vec::new();
    for number in 0..CONNECTIONS {
        sockets.push(connect_socket(server, log::READER, &format!("pages-{number}")).await?);
    }
    let start = Instant::now();
    let mut readers = JoinSet::new();
    for (number, mut socket) in sockets.into_iter().enumerate() {
        readers.spawn(async move {
            let mut dice = SmallRng::seed_from_u64(number as u64);
            let mut pages = 0_u64;
            while start.elapsed() < plan.round {
                page(&mut socket, Place::Anywhere.cursor(plan.entries, &mut dice)).await?;
                pages += 1;
            }
            anyhow::Ok(pages)
        });
    }
    let mut pages = 0;
    while let Some(read) = readers.join_next().await {
        pages += read??;
    }
    Ok(pages as f64 / start.elapsed().as_secs_f64())
}

/// Asks for one page and waits for it.
async fn page(socket: &mut Socket, after: u64) -> anyhow::Result<()> {
    socket.send(Message::text(frames::sync(log::CONVERSATION, 1, after, PAGE_ENTRIES))).await?;
    loop {
        let frame = socket.next().await.context("the connection ended")??;
        let Message::Text(text) = frame else { bail!("unexpected: {frame:?}") };
        match frames::read(&text) {
            Incoming::Page => return Ok(()),
            Incoming::Ping => socket.send(Message::text(frames::PONG)).await?,
            Incoming::Other { is_error: true } => bail!("the server refused: {text}"),
            Incoming::Sent { .. }
            | Incoming::Event { .. }
            | Incoming::Subscribed
            | Incoming::Revoke
            | Incoming::Other { is_error: false } => {}
        }
    }
}
