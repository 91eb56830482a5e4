//! Frames for a load generator that must cost little: written from a template, and read no further than needed.

use std::fmt::Write as _;

/// A frame that sends a message, whose key is new with each run.
pub(super) fn send(conv: &str, rid: u64, key: &str, body: &str) -> String {
    format!(r#"{{"t":"send","rid":{rid},"conv":"{conv}","key":"{key}","body":{body}}}"#)
}

/// A frame that asks for a page.
pub(super) fn sync(conv: &str, rid: u64, after: u64, limit: u32) -> String {
    let mut frame = String::with_capacity(96);
    write!(frame, r#"{{"t":"sync","rid":{rid},"conv":"{conv}","after":{after},"limit":{limit}}}"#)
        .expect("writing to a string can't fail");
    frame
}

/// A frame that subscribes to a topic, from a cursor on if there is one.
pub(super) fn subscribe(topic: &str, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!(r#","cursor":"{cursor}""#)).unwrap_or_default();
    format!(r#"{{"t":"subscribe","rid":1,"topics":["{topic}"]{cursor}}}"#)
}

/// What a frame of the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A send is on disk.
    Sent {
        /// Which.
        rid: u64,
        /// Where.
        seq: u64,
    },
    /// An entry of a conversation was pushed, or an event of a subscription.
    Event {
        /// Where it is; 0 when it is of a subscription.
        seq: u64,
    },
    /// A subscription begins.
    Subscribed,
    /// Events of a subscription are void.
    Revoke,
    /// A page.
    Page,
    /// A question whether we are alive.
    Ping,
    /// Anything else; `true` when it is an error.
    Other {
        /// Whether it tells of a refusal.
        is_error: bool,
    },
}

/// Tells what a frame is by its beginning.
pub(super) fn read(frame: &str) -> Incoming {
    let Some(rest) = frame.strip_prefix(r#"{"t":""#) else {
        return Incoming::Other { is_error: true };
    };
    let name = rest.split('"').next().unwrap_or_default();
    match name {
        "sent" => Incoming::Sent { rid: number(rest, r#""rid":"#), seq: number(rest, r#""seq":"#) },
        "event" => Incoming::Event { seq: number(rest, r#""seq":"#) },
        "page" => Incoming::Page,
        "subscribed" => Incoming::Subscribed,
        "revoke" => Incoming::Revoke,
        "ping" => Incoming::Ping,
        _ => Incoming::Other { is_error: name == "error" },
    }
}

/// The answer to a ping.
pub(super) const PONG: &str = r#"{"t":"pong"}"#;

/// The number after the first place where a field stands; 0 if there is none.
fn number(frame: &str, field: &str) -> u64 {
    let Some(start) = frame.find(field) else { return 0 };
    let digits = frame[start + field.len()..].bytes().take_while(u8::is_ascii_digit);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_proto::{ClientMessage, decode_client_message};

    #[test]
    fn what_is_written_from_a_template_is_what_the_protocol_says() {
        let frame = send("lab", 7, "k", r#"{"a":1}"#);
        assert_eq!(decode_client_message(&frame).unwrap().encode(), frame);

        let ClientMessage::Sync { after, limit, .. } = decode_client_message(&sync("lab", 7, 9, 50)).unwrap()
        else {
            panic!("not a sync")
        };
        assert_eq!((after.get(), limit), (9, Some(50)));
        for cursor in [None, Some("1:00000000020134:0007:88213")] {
            let frame = subscribe("chain:1:transfers", cursor);
            assert_eq!(decode_client_message(&frame).unwrap().encode(), frame);
        }
        assert_eq!(decode_client_message(PONG).unwrap(), ClientMessage::Pong);
    }

    #[test]
    fn frames_are_told_apart_by_their_beginning() {
        let sent = r#"{"t":"sent","rid":12,"conv":"lab","seq":345,"epoch":6,"ts":7,"duplicate":false}"#;
        assert_eq!(read(sent), Incoming::Sent { rid: 12, seq: 345 });
        let event = r#"{"t":"event","conv":"lab","epoch":6,"seq":345,"kind":"message","body":{"seq":1}}"#;
        assert_eq!(read(event), Incoming::Event { seq: 345 });
        let revoke = r#"{"t":"revoke","sub":1,"fromCursor":"1:00000000020134:0007:88215"}"#;
        assert_eq!(read(revoke), Incoming::Revoke);
        assert_eq!(read(r#"{"t":"subscribed","rid":4,"sub":1}"#), Incoming::Subscribed);
        assert_eq!(read(r#"{"t":"error","code":"X"}"#), Incoming::Other { is_error: true });
        assert_eq!(read(r#"{"t":"notice"}"#), Incoming::Other { is_error: false });
    }
}
