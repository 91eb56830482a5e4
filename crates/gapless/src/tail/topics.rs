//! `gapless tail --topic`: the events of a chain, as they come and are taken back, or the rows of a table as they change.

use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::process::ExitCode;

use gapless_client::{
    Client, ClientConfig, ClientEvent, MemoryState, StopReason, Topics, TopicsStart, TopicsTold,
};
use gapless_proto::{Body, Cursor, EventType, Mode, Snapshot, Topic, TopicEvent, TopicResetReason, ValueKey};
use serde_json::json;

use super::print::{Failure, Screen, print};
use crate::connection::{Connection, complain};
use crate::output::{reader_gone, visible, visible_json};

/// What to tell of topics.
#[derive(Debug, clap::Args)]
pub(super) struct TopicArgs {
    /// Print the events of a topic of a chain instead, as in `chain:1:transfers`, several with commas between; or the rows of a table as
    /// they change, as in `table:orders`. CONV, --after, --no-follow, --timeout and --state are for conversations.
    #[arg(
        long = "topic",
        value_name = "TOPIC",
        value_delimiter = ',',
        conflicts_with_all = ["conv", "after", "no_follow", "timeout", "state"]
    )]
    pub(super) topics: Vec<Topic>,

    /// Only events that are deep enough in the chain never to be taken back.
    #[arg(long, requires = "topics")]
    confirmed: bool,

    /// Begin with the values of the topics, such as all balances; or with all rows of the table.
    #[arg(long, requires = "topics", conflicts_with = "cursor")]
    snapshot: bool,

    /// Begin after this position, as an earlier run has printed it with --json; `CHAIN:0:0` is the beginning of a chain. By default it
    /// begins with what comes next.
    #[arg(long, requires = "topics", value_name = "CURSOR", value_parser = Cursor::new)]
    cursor: Option<Cursor>,
}

impl TopicArgs {
    fn topics(&self) -> Topics {
        let start = match (&self.cursor, self.snapshot) {
            (Some(cursor), _) => TopicsStart::After(cursor.clone()),
            (None, true) => TopicsStart::Snapshot,
            (None, false) => TopicsStart::Newest,
        };
        let mode = if self.confirmed { Mode::Confirmed } else { Mode::Instant };
        Topics { names: self.topics.clone(), mode, start }
    }

    /// How it goes on after a reset that takes back what was printed.
    fn again(&self) -> &'static str {
        match self.topics.iter().any(|topic| topic.as_str().starts_with("table:")) {
            _ if self.snapshot => "the newest values",
            true => "what comes next (`--snapshot` shows all rows)",
            false => "what comes next (`--cursor CHAIN:0:0` shows all that is kept)",
        }
    }
}

/// Prints until it is interrupted or refused.
pub(super) async fn tail(
    args: &TopicArgs,
    connection: &Connection,
    config: ClientConfig,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new();
    let is_terminal = io::stdout().is_terminal();
    let (client, mut events) = Client::start(config, MemoryState::new()).await?;
    client.subscribe(args.topics()).await?;
    let mut weather = connection.weather();
    let mut reader_gone = pin!(reader_gone());
    let code = loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut reader_gone => break ExitCode::SUCCESS,
            _ = tokio::signal::ctrl_c() => break ExitCode::SUCCESS,
        };
        let event = event.unwrap_or(ClientEvent::Stopped(StopReason::Requested));
        if let Some(text) = weather.remark(&event) {
            screen.remark(&text);
        }
        match event {
            ClientEvent::Topics { told, .. } => {
                let lines = match (is_json, is_terminal) {
                    (true, true) => visible_json(&json_lines(&told)),
                    (true, false) => json_lines(&told),
                    (false, _) => lines(&told, args.again()),
                };
                match print(&lines) {
                    Ok(()) => {}
                    Err(Failure::NoReader) => break ExitCode::SUCCESS,
                    Err(failure) => return Err(failure.into()),
                }
            }
            ClientEvent::TopicsRefused { code, message, .. } => {
                complain(&format!("{message} ({code})"));
                break ExitCode::FAILURE;
            }
            ClientEvent::Stopped(reason) => anyhow::bail!(connection.advice(&reason)),
            ClientEvent::Connected { .. }
            | ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::Reset { .. }
            | ClientEvent::Refused { .. }
            | ClientEvent::Sent(_)
            | ClientEvent::SendRefused(_)
            | ClientEvent::TokenExpiring { .. }
            | ClientEvent::Fault(_) => {}
        }
    };
    client.close().await;
    Ok(code)
}

/// For people; empty when there is nothing to say.
fn lines(told: &TopicsTold, again: &str) -> String {
    match told {
        TopicsTold::Begun { .. } | TopicsTold::Progress { .. } => String::new(),
        TopicsTold::Snapshot(snapshot) => values_of(snapshot)
            .map(|(topic, key, value)| {
                format!("{} {} = {}\n", snapshot.cursor, name(topic, key), visible(value.as_str()))
            })
            .collect(),
        TopicsTold::Event(event) => {
            let TopicEvent { cursor, topic, payload, kind, .. } = &**event;
            // The cursor of a table tells a person nothing.
            let place = if *kind == EventType::Row { String::new() } else { format!("{cursor} ") };
            format!("{place}{topic} {}\n", visible(payload.as_str()))
        }
        TopicsTold::Revoke { cursor } => {
            format!("{cursor} REVOKED: all that was printed beyond this block and log\n")
        }
        TopicsTold::Reset(reason) => {
            let reset = format!("RESET ({}): ", word(*reason));
            match reason {
                TopicResetReason::SlowConsumer => {
                    format!("{reset}this reads too slowly; it goes on after the last line\n")
                }
                TopicResetReason::CursorExpired
                | TopicResetReason::CursorAhead
                | TopicResetReason::EpochChanged
                | TopicResetReason::DeepReorg
                | TopicResetReason::Unknown => {
                    format!("{reset}what was printed before doesn't hold any more; it goes on with {again}\n")
                }
            }
        }
    }
}

/// A reason as the protocol has it.
fn word(reason: TopicResetReason) -> String {
    let word = serde_json::to_value(reason).expect("a reason is JSON");
    word.as_str().expect("a reason is a word").to_owned()
}

fn name(topic: &Topic, key: &ValueKey) -> String {
    format!("{topic}[{}]", visible(key.as_str()))
}

fn values_of(snapshot: &Snapshot) -> impl Iterator<Item = (&Topic, &ValueKey, &Body)> {
    let topics = snapshot.state.iter();
    topics.flat_map(|(topic, values)| values.iter().map(move |(key, value)| (topic, key, value)))
}

/// For programs: the frames of the protocol, less the number of the subscription.
fn json_lines(told: &TopicsTold) -> String {
    let line = match told {
        TopicsTold::Begun { cursor } => json!({"t": "subscribed", "cursor": cursor}),
        TopicsTold::Snapshot(snapshot) => without_sub("snapshot", snapshot),
        TopicsTold::Event(event) => without_sub("event", &**event),
        TopicsTold::Revoke { cursor } => json!({"t": "revoke", "fromCursor": cursor}),
        TopicsTold::Progress { cursor } => json!({"t": "progress", "cursor": cursor}),
        TopicsTold::Reset(reason) => json!({"t": "reset", "reason": reason}),
    };
    format!("{line}\n")
}

fn without_sub(t: &str, message: &impl serde::Serialize) -> serde_json::Value {
    let mut line = serde_json::to_value(message).expect("a message is JSON");
    if let Some(fields) = line.as_object_mut() {
        fields.remove("sub");
        fields.insert("t".to_owned(), t.into());
    }
    line
}

#[cfg(test)]
mod tests {
    use gapless_proto::{ServerMessage, decode_server_message};

    use super::*;

    fn event() -> TopicsTold {
        let frame = r#"{"t":"event","sub":1,"cursor":"1:5:0:9","type":"log","topic":"chain:1:a","payload":{"x":"\u202e"}}"#;
        let ServerMessage::TopicEvent(event) = decode_server_message(frame).unwrap() else {
            panic!("it is an event of a topic");
        };
        TopicsTold::Event(Box::new(event))
    }

    fn args(topic: &str, snapshot: bool) -> TopicArgs {
        TopicArgs { topics: vec![Topic::new(topic).unwrap()], confirmed: false, snapshot, cursor: None }
    }

    #[test]
    fn a_line_says_what_happened_and_where() {
        assert!(lines(&event(), "").starts_with(r#"1:5:0:9 chain:1:a {"x":"#));
        let cursor = Cursor::new("1:4:0:10").unwrap();
        assert!(lines(&TopicsTold::Revoke { cursor }, "").starts_with("1:4:0:10 REVOKED"));
    }

    // Chain behaviour 3
    #[test]
    fn a_reset_is_named_as_in_the_protocol_and_with_where_it_goes_on() {
        let (chain, table) = ("chain:1:a", "table:orders");
        for (reason, args, start, end) in [
            (
                TopicResetReason::SlowConsumer,
                args(chain, true),
                "RESET (slow_consumer): ",
                "goes on after the last line\n",
            ),
            (
                TopicResetReason::CursorAhead,
                args(chain, true),
                "RESET (cursor_ahead): ",
                "goes on with the newest values\n",
            ),
            (
                TopicResetReason::CursorExpired,
                args(chain, false),
                "RESET (cursor_expired): ",
                "goes on with what comes next (`--cursor CHAIN:0:0` shows all that is kept)\n",
            ),
            (
                TopicResetReason::EpochChanged,
                args(table, false),
                "RESET (epoch_changed): ",
                "goes on with what comes next (`--snapshot` shows all rows)\n",
            ),
        ] {
            let line = lines(&TopicsTold::Reset(reason), args.again());
            assert!(line.starts_with(start) && line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn json_lines_are_frames_without_the_number_of_the_subscription() {
        let line: serde_json::Value = serde_json::from_str(&json_lines(&event())).unwrap();
        assert_eq!((&line["t"], &line["cursor"]), (&json!("event"), &json!("1:5:0:9")));
        assert!(line.get("sub").is_none());
    }
}
