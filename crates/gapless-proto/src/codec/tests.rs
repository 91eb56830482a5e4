use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// The frames that every implementation of the protocol reads; one file a message, one frame a file.
fn golden_frames(side: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire").join(side);
    let mut frames: Vec<_> = std::fs::read_dir(folder)
        .expect("testdata/wire has the golden frames")
        .map(|file| {
            let path = file.expect("the folder can be read").path();
            let text = std::fs::read_to_string(&path).expect("a golden frame is text");
            (
                path.file_stem().expect("it has a name").to_string_lossy().into_owned(),
                text.trim_end().to_owned(),
            )
        })
        .collect();
    frames.sort();
    frames
}

fn names(frames: &[(String, String)]) -> BTreeSet<&str> {
    frames.iter().map(|(name, _)| name.split('-').next().unwrap_or(name)).collect()
}

#[test]
fn every_golden_frame_of_a_client_is_read_and_written_back_byte_for_byte() {
    let frames = golden_frames("client");
    assert_eq!(
        names(&frames),
        BTreeSet::from(["ack", "ping", "pong", "renew", "send", "subscribe", "sync", "unsubscribe"])
    );
    for (name, text) in frames {
        let message = decode_client_message(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.encode(), text, "{name}");
    }
}

#[test]
fn every_golden_frame_of_a_server_is_read_and_written_back_byte_for_byte() {
    let frames = golden_frames("server");
    assert_eq!(
        names(&frames),
        BTreeSet::from([
            "error",
            "event",
            "hint",
            "notice",
            "page",
            "ping",
            "pong",
            "progress",
            "renewed",
            "reset",
            "revoke",
            "sent",
            "snapshot",
            "subscribed",
            "unsubscribed",
            "welcome"
        ])
    );
    for (name, text) in frames {
        let message = decode_server_message(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!matches!(message, ServerMessage::Unknown { .. }), "{name} isn't known");
        assert_eq!(message.encode(), text, "{name}");
    }
}

#[test]
fn a_wrong_field_is_named_and_the_request_still_answered() {
    let error = decode_client_message(r#"{"t":"sync","rid":7,"conv":"c"}"#).expect_err("`after` is missing");
    assert_eq!(error.rid, Rid::new(7));
    assert!(error.to_string().contains("`sync`") && error.to_string().contains("`after`"), "{error}");
}

#[test]
fn an_unknown_message_is_an_error_to_a_server_and_passed_over_by_a_client() {
    let text = r#"{"t":"heads","rid":1}"#;
    let error = decode_client_message(text).expect_err("not in this version");
    assert!(matches!(error.kind, DecodeErrorKind::UnknownMessage(name) if name == "heads"));
    assert!(matches!(decode_server_message(text), Ok(ServerMessage::Unknown { t }) if t == "heads"));
}

#[test]
fn a_long_unknown_name_is_not_echoed_whole() {
    let error = decode_client_message(&format!(r#"{{"t":"{}"}}"#, "x".repeat(10_000))).expect_err("unknown");
    assert!(error.to_string().len() < 200);
}

#[test]
fn garbage_is_an_error_and_never_a_panic() {
    let deep = format!(r#"{{"t":"send","rid":1,"conv":"c","key":"k","body":{}}}"#, "[".repeat(100_000));
    let frames = ["", "{", "[]", "null", "7", r#"{"t":1}"#, r#"{"t":"send"}"#, r#"{"rid":1}"#, &deep];
    for text in frames {
        assert!(decode_client_message(text).is_err(), "{text:.40} passed");
    }
}

#[test]
fn a_body_goes_through_as_the_text_that_came_in() {
    let body = r#"{"n":1.00,  "big":123456789012345678901234567890}"#;
    let text = format!(r#"{{"t":"send","rid":1,"conv":"c","key":"k","body":{body}}}"#);
    let Ok(ClientMessage::Send { body: read, .. }) = decode_client_message(&text) else {
        panic!("a send is read")
    };
    assert_eq!(read.as_str(), body);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = decode_client_message(&text);
        let _ = decode_server_message(&text);
    }
}
