//! `gapless tail`: the entries of a conversation, as they come.

mod patience;
mod print;
mod topics;

use std::future::pending;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use gapless_client::{
    Advance, Client, ClientConfig, ClientEvent, Events, FileState, HandleFirst, Handled, LocalState,
    MemoryState, StopReason, WatchError,
};
use gapless_proto::{ConvId, Seq};
use tokio::time::Instant;

use crate::connection::{Connection, Weather, block_on, complain};
use crate::output::reader_gone;

use patience::{Patience, WaitsFor};
use print::{Failure, Printer, Screen};

/// Print the entries of a conversation in order, none missed: first those there are, then new ones as they come.
///
/// It goes on through restarts of the server, lost networks and laptop sleep. With --state it goes on where the last run
/// ended, whatever ended that: an entry is printed before it counts as seen, so a kill loses none, but the last lines
/// may be printed twice.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The conversation.
    #[arg(required_unless_present = "topics")]
    conv: Option<ConvId>,

    #[command(flatten)]
    topics: topics::TopicArgs,

    /// Begin after this seq instead of at the beginning. A position in --state goes before it.
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    after: Option<Seq>,

    /// End at what is the newest entry now, instead of waiting for more.
    #[arg(long)]
    no_follow: bool,

    /// Give up, with exit code 1, after this time without a connection, as in `30s`; with --no-follow, if it hasn't ended by
    /// then. By default it is tried until it works.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    timeout: Option<Duration>,

    /// A folder that remembers how far you are. One process at a time uses it.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Print each entry as one JSON object on a line of its own.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let config = args.connection.config()?;
        let Some(conv) = args.conv.clone() else {
            return topics::tail(&args.topics, &args.connection, config, args.json).await;
        };
        match &args.state {
            Some(folder) => tail(&args, &conv, config, FileState::open(folder)?).await,
            None => tail(&args, &conv, config, MemoryState::new()).await,
        }
    })
}

async fn tail(
    args: &Args,
    conv: &ConvId,
    config: ClientConfig,
    state: impl LocalState,
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new();
    let mut printer = Printer::new(screen.clone(), args.json, args.after);
    let failure = printer.failure();
    let state = HandleFirst::new(state, move |what: Handled<'_>| printer.print(what));
    let (client, mut events) = Client::start(config, state).await?;
    match client.watch_after(conv, args.after.unwrap_or(Seq::ZERO)).await {
        // If it has stopped already, the events say why.
        Ok(()) | Err(WatchError::Stopped) => {}
        Err(error @ WatchError::TooMany { .. }) => return Err(error.into()),
    }

    let end = follow(args, &screen, &mut events).await;
    screen.finish();
    client.close().await;
    match end {
        End::Interrupted | End::ReaderGone | End::CaughtUp => Ok(ExitCode::SUCCESS),
        End::OutOfTime(message) => anyhow::bail!(message),
        End::Refused(message) => {
            complain(&message);
            Ok(ExitCode::FAILURE)
        }
        End::Stopped(reason) => match failure.take() {
            Some(Failure::NoReader) => Ok(ExitCode::SUCCESS),
            Some(failure) => Err(failure.into()),
            None => anyhow::bail!(args.connection.advice(&reason)),
        },
    }
}

/// What ends a tail.
enum End {
    Interrupted,
    /// As usual for a command whose reader has seen enough.
    ReaderGone,
    /// With `--no-follow`: everything is printed that there was.
    CaughtUp,
    /// With `--timeout`: nothing came of it for so long.
    OutOfTime(String),
    /// The server won't serve the conversation.
    Refused(String),
    Stopped(StopReason),
}

async fn until(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

impl Args {
    /// What it was that took too long.
    fn out_of_time(&self, weather: &Weather) -> String {
        let limit = humantime::format_duration(self.timeout.unwrap_or_default());
        match (weather.never_connected(), self.no_follow) {
            (Some(trouble), _) => format!("gave up after {limit}: {trouble}"),
            (None, true) => format!("not all was printed within {limit}; give it a longer `--timeout`"),
            (None, false) => format!("gave up after {limit}: {}", weather.disconnected()),
        }
    }
}

async fn follow(args: &Args, screen: &Screen, events: &mut Events) -> End {
    let mut weather = args.connection.weather();
    let waits_for = if args.no_follow { WaitsFor::End } else { WaitsFor::Connection };
    let mut patience = Patience::new(args.timeout, waits_for, Instant::now().into_std());
    let mut goal = Goal::default();
    let mut reader_gone = pin!(reader_gone());
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut reader_gone => return End::ReaderGone,
            () = until(patience.poll_timeout()) => return End::OutOfTime(args.out_of_time(&weather)),
            _ = tokio::signal::ctrl_c() => return End::Interrupted,
        };
        let Some(event) = event else {
            return End::Stopped(StopReason::Requested);
        };
        patience.handle_event(&event, Instant::now().into_std());
        if let Some(text) = weather.remark(&event) {
            screen.remark(&text);
        }
        match event {
            ClientEvent::Refused { conv, code, message } => {
                return End::Refused(args.connection.mend(&conv, code, &message));
            }
            ClientEvent::Entries { advance, .. } if args.no_follow && goal.is_reached_by(&advance) => {
                return End::CaughtUp;
            }
            ClientEvent::UpToDate { .. } if args.no_follow => return End::CaughtUp,
            ClientEvent::Reset { .. } => goal = Goal::default(),
            ClientEvent::Stopped(reason) => return End::Stopped(reason),
            ClientEvent::Connected { .. }
            | ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::Sent(_)
            | ClientEvent::SendRefused(_)
            | ClientEvent::TokenExpiring { .. }
            | ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::Fault(_) => {}
        }
    }
}

/// Where a tail that doesn't follow ends: at the head that it first heard of.
#[derive(Debug, Default)]
struct Goal {
    head: Option<Seq>,
}

impl Goal {
    fn is_reached_by(&mut self, advance: &Advance) -> bool {
        let head = *self.head.get_or_insert(advance.head);
        advance.position.seq >= head
    }
}
