//! `gapless tail`: the entries of a conversation, as they come.

mod print;

use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;

use gapless_client::{
    Advance, Client, ClientConfig, ClientEvent, Events, FileState, HandleFirst, Handled, LocalState,
    MemoryState, StopReason, WatchError,
};
use gapless_proto::{ConvId, Seq};

use crate::connection::{Connection, Weather, block_on, complain};
use crate::output::reader_gone;

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
    conv: ConvId,

    /// Begin after this seq instead of at the beginning. A position in --state goes before it.
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    after: Option<Seq>,

    /// End at what is the newest entry now, instead of waiting for more.
    #[arg(long)]
    no_follow: bool,

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
        match &args.state {
            Some(folder) => tail(&args, config, FileState::open(folder)?).await,
            None => tail(&args, config, MemoryState::new()).await,
        }
    })
}

async fn tail(args: &Args, config: ClientConfig, state: impl LocalState) -> anyhow::Result<ExitCode> {
    let screen = Screen::new();
    let mut printer = Printer::new(screen.clone(), args.json, args.after);
    let failure = printer.failure();
    let state = HandleFirst::new(state, move |what: Handled<'_>| printer.print(what));
    let (client, mut events) = Client::start(config, state).await?;
    match client.watch_after(&args.conv, args.after.unwrap_or(Seq::ZERO)).await {
        // If it has stopped already, the events say why.
        Ok(()) | Err(WatchError::Stopped) => {}
        Err(error @ WatchError::TooMany { .. }) => return Err(error.into()),
    }

    let end = follow(args, &screen, &mut events).await;
    screen.finish();
    client.close().await;
    match end {
        End::Interrupted | End::ReaderGone | End::CaughtUp => Ok(ExitCode::SUCCESS),
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
    /// The server won't serve the conversation.
    Refused(String),
    Stopped(StopReason),
}

async fn follow(args: &Args, screen: &Screen, events: &mut Events) -> End {
    let mut weather = Weather::default();
    let mut goal = Goal::default();
    let mut reader_gone = pin!(reader_gone());
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut reader_gone => return End::ReaderGone,
            _ = tokio::signal::ctrl_c() => return End::Interrupted,
        };
        let Some(event) = event else {
            return End::Stopped(StopReason::Requested);
        };
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
