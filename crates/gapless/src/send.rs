//! `gapless send`: messages from the command line or from stdin.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use gapless_client::{
    Client, ClientEvent, Delivered, Events, MemoryState, SendError, SendTicket, TicketError, random_key,
};
use gapless_proto::{Body, ConvId, ErrorCode, Key};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::connection::{Connection, Weather, block_on, complain, remark};

/// Send messages to a conversation, and print the seq of each once it is on the server's disk.
///
/// Without TEXT, or with `-` for it, each line of stdin that isn't empty is a message; they are stored in their order. A lost connection is waited
/// out and everything unanswered sent again, so that each message is stored once. The exit code is 0 when every message
/// was stored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The conversation.
    conv: ConvId,

    /// The message; sent as `{"text": TEXT}`. `-` reads messages from stdin.
    text: Option<String>,

    /// The name under which the message is stored once, however often this is run. For lines of stdin it gets the line's
    /// number behind it, as in `KEY-17`.
    #[arg(long)]
    key: Option<Key>,

    /// TEXT, or each line, is a JSON value and is sent as it is.
    #[arg(long)]
    json: bool,

    /// Give up after this time, as in `30s`. By default it is tried until it works.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    timeout: Option<Duration>,
}

/// How many messages of stdin are on their way at the same time.
const UNANSWERED_MAX: usize = 256;
/// What stands for stdin where a message is expected.
const STDIN: &str = "-";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let key = args.key.clone().unwrap_or_else(random_key);
    let limit = args.timeout;
    let mut weather = args.connection.weather();
    block_on(async move {
        let Some(limit) = limit else {
            return send(args, key, &mut weather).await;
        };
        match tokio::time::timeout(limit, send(args, key.clone(), &mut weather)).await {
            Ok(outcome) => outcome,
            Err(_) => anyhow::bail!(out_of_time(limit, &key, &weather)),
        }
    })
}

/// What is known of the messages when the time is over.
fn out_of_time(limit: Duration, key: &Key, weather: &Weather) -> String {
    let limit = humantime::format_duration(limit);
    match weather.never_connected() {
        Some(trouble) => format!("nothing was sent within {limit}: {trouble}"),
        None => format!(
            "not everything was answered within {limit}; whether it is stored isn't known. Run it again with --key {key}: what is \
             stored already isn't stored twice"
        ),
    }
}

async fn send(args: Args, key: Key, weather: &mut Weather) -> anyhow::Result<ExitCode> {
    let Ok((client, mut events)) = Client::start(args.connection.config()?, MemoryState::new()).await;
    let connection = &args.connection;
    let mut sender = Sender { connection, conv: args.conv, key, json: args.json, client, failed: false };
    let sending = async {
        match args.text.filter(|text| text != STDIN) {
            Some(text) => sender.send_one(text).await?,
            None => sender.send_lines().await?,
        }
        anyhow::Ok(sender)
    };
    let outcome = tokio::select! {
        outcome = sending => outcome,
        stopped = watch_over(connection, weather, &mut events) => anyhow::bail!(stopped),
    };
    let sender = match outcome {
        Ok(sender) => sender,
        // The events say why.
        Err(error) if is_stopped(&error) => anyhow::bail!(watch_over(connection, weather, &mut events).await),
        Err(error) => return Err(error),
    };
    sender.client.close().await;
    Ok(if sender.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn is_stopped(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(SendError::Stopped))
        || matches!(error.downcast_ref(), Some(TicketError::Stopped { .. }))
}

/// Remarks on the connection until the client stops; returns why it did.
async fn watch_over(connection: &Connection, weather: &mut Weather, events: &mut Events) -> String {
    while let Some(event) = events.next().await {
        if let Some(text) = weather.remark(&event) {
            remark(&text);
        }
        if let ClientEvent::Stopped(reason) = event {
            return connection.advice(&reason);
        }
    }
    "the client ended".to_owned()
}

struct Sender<'a> {
    connection: &'a Connection,
    client: Client,
    conv: ConvId,
    key: Key,
    json: bool,
    /// Whether a message was refused.
    failed: bool,
}

/// A message that was handed over, and the line that it came from.
struct Unanswered {
    line: Option<u64>,
    ticket: SendTicket,
}

impl Sender<'_> {
    async fn send_one(&mut self, text: String) -> anyhow::Result<()> {
        let body = self.body(text)?;
        let ticket = self.client.send_with_key(&self.conv, self.key.clone(), body).await?;
        self.settle(Unanswered { line: None, ticket }).await?;
        Ok(())
    }

    async fn send_lines(&mut self) -> anyhow::Result<()> {
        let mut lines: Lines<BufReader<Stdin>> = BufReader::new(tokio::io::stdin()).lines();
        let mut unanswered: VecDeque<Unanswered> = VecDeque::new();
        for number in 1.. {
            let line = lines.next_line().await.with_context(|| format!("line {number} can't be read"))?;
            let Some(line) = line else {
                break;
            };
            if line.is_empty() {
                continue;
            }
            match self.send_line(number, line).await? {
                Some(ticket) => unanswered.push_back(Unanswered { line: Some(number), ticket }),
                None => self.failed = true,
            }
            if unanswered.len() >= UNANSWERED_MAX
                && let Some(oldest) = unanswered.pop_front()
            {
                self.settle(oldest).await?;
            }
        }
        for oldest in unanswered {
            self.settle(oldest).await?;
        }
        Ok(())
    }

    /// Hands over a line; `None` if it can't be sent whatever happens.
    async fn send_line(&mut self, number: u64, line: String) -> anyhow::Result<Option<SendTicket>> {
        let body = match self.body(line) {
            Ok(body) => body,
            Err(error) => {
                complain(&format!("line {number}: {error:#}"));
                return Ok(None);
            }
        };
        let key = Key::new(&format!("{}-{number}", self.key))?;
        match self.client.send_with_key(&self.conv, key, body).await {
            Ok(ticket) => Ok(Some(ticket)),
            Err(error @ SendError::TooLarge { .. }) => {
                complain(&format!("line {number}: {error}"));
                Ok(None)
            }
            Err(error @ (SendError::Full(_) | SendError::Stopped)) => Err(error.into()),
        }
    }

    /// Waits for a message's answer and prints it. An error if no further message would be taken either.
    async fn settle(&mut self, Unanswered { line, ticket }: Unanswered) -> anyhow::Result<()> {
        let refused = match ticket.await {
            Ok(Delivered { seq, .. }) => {
                writeln!(io::stdout(), "{seq}").context("the seq could not be printed")?;
                return Ok(());
            }
            Err(TicketError::Refused(refused)) => refused,
            Err(error @ TicketError::Stopped { .. }) => return Err(error.into()),
        };
        let place = line.map(|number| format!("line {number}: ")).unwrap_or_default();
        let message = self.connection.mend(&self.conv, refused.code, &refused.message);
        let message = format!("{place}{message}");
        if [ErrorCode::NotFound, ErrorCode::Forbidden].contains(&refused.code) {
            anyhow::bail!("{message}");
        }
        complain(&message);
        self.failed = true;
        Ok(())
    }

    fn body(&self, text: String) -> anyhow::Result<Body> {
        if self.json {
            return Body::from_text(text).context("with --json a message must be one JSON value");
        }
        Ok(Body::from_value(&serde_json::json!({ "text": text }))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::{connected, connection};

    #[test]
    fn the_key_to_go_on_with_is_told_once_something_may_have_been_sent() {
        let (key, limit): (Key, _) = ("k-1".parse().unwrap(), Duration::from_secs(1));
        let mut weather = connection(Some("alice"), None).weather();
        assert!(out_of_time(limit, &key, &weather).starts_with("nothing was sent within 1s: "));
        weather.remark(&connected());
        assert!(out_of_time(limit, &key, &weather).contains("isn't known. Run it again with --key k-1"));
    }
}
