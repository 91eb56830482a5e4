//! `gapless tail --topic`: the events of a chain, as they come and are taken back.

use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::process::ExitCode;

use gapless_client::{
    Client, ClientConfig, ClientEvent, MemoryState, StopReason, Topics, TopicsStart, TopicsTold,
};
use gapless_proto::{Body, Cursor, Mode, Snapshot, Topic, TopicEvent, ValueKey};
use serde_json::json;

use super::print::{Failure, Screen, print};
use crate::connection::{Connection, complain};
use crate::output::{reader_gone, visible, visible_json};

/// What to tell of topics.
#[derive(Debug, clap::Args)]
pub(super) struct TopicArgs {
    /// Print the events of a topic of a chain instead, as in `chain:1:transfers`; several with commas between.
    #[arg(long = "topic", value_name = "TOPIC", value_delimiter = ',')]
    pub(super) topics: Vec<Topic>,

    /// Only events that are deep enough in the chain never to be taken back.
    #[arg(long, requires = "topics")]
    confirmed: bool,

    /// Begin with the values of the topics, such as all balances.
    #[arg(long, requires = "topics", conflicts_with = "cursor")]
    snapshot: bool,

    /// Begin after this position, as an earlier run has printed it with --json; `CHAIN:0:0` is the beginning. By default it begins with
    /// what comes next.
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
                    (false, _) => lines(&told),
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
fn lines(told: &TopicsTold) -> String {
    match told {
        TopicsTold::Begun { .. } | TopicsTold::Progress { .. } => String::new(),
        TopicsTold::Snapshot(snapshot) => values_of(snapshot)
            .map(|(topic, key, value)| {
                format!("{} {} = {}\n", snapshot.cursor, name(topic, key), visible(value.as_str()))
            })
            .collect(),
        TopicsTold::Event(event) => {
            let TopicEvent { cursor, topic, payload, .. } = &**event;
            format!("{cursor} {topic} {}\n", visible(payload.as_str()))
        }
        TopicsTold::Revoke { cursor } => {
            format!("{cursor} REVOKED: all that was printed beyond this block and log\n")
        }
        TopicsTold::Reset(reason) => {
            format!("RESET ({reason:?}): what was printed before may not hold any more\n")
        }
    }
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
    use gapless_proto::{ServerMessage, TopicResetReason, decode_server_message};

    use super::*;

    fn event() -> TopicsTold {
        let frame = r#"{"t":"event","sub":1,"cursor":"1:5:0:9","type":"log","topic":"chain:1:a","payload":{"x":"\u202e"}}"#;
        let ServerMessage::TopicEvent(event) = decode_server_message(frame).unwrap() else {
            panic!("it is an event of a topic");
        };
        TopicsTold::Event(Box::new(event))
    }

    #[test]
    fn a_line_says_what_happened_and_where() {
        assert!(lines(&event()).starts_with(r#"1:5:0:9 chain:1:a {"x":"#));
        let cursor = Cursor::new("1:4:0:10").unwrap();
        assert!(lines(&TopicsTold::Revoke { cursor }).starts_with("1:4:0:10 REVOKED"));
        assert!(lines(&TopicsTold::Reset(TopicResetReason::CursorExpired)).contains("CursorExpired"));
    }

    #[test]
    fn json_lines_are_frames_without_the_number_of_the_subscription() {
        let line: serde_json::Value = serde_json::from_str(&json_lines(&event())).unwrap();
        assert_eq!((&line["t"], &line["cursor"]), (&json!("event"), &json!("1:5:0:9")));
        assert!(line.get("sub").is_none());
    }
}
