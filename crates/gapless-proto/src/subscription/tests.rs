use super::*;

#[test]
fn a_reason_and_a_kind_of_a_newer_server_are_no_error() {
    assert_eq!(serde_json::from_str::<TopicResetReason>("\"flood\"").unwrap(), TopicResetReason::Unknown);
    let kind: EventType = serde_json::from_str("\"upsert\"").unwrap();
    assert_eq!(serde_json::to_string(&kind).unwrap(), "\"upsert\"");
}

#[test]
fn a_cursor_is_any_text_that_is_not_too_long() {
    assert_eq!(Cursor::new("1:2:3:4").unwrap().to_string(), "1:2:3:4");
    assert!(Cursor::new(&"x".repeat(32 << 10)).is_ok());
    let error = Cursor::new(&"x".repeat((32 << 10) + 1)).unwrap_err();
    assert!(error.to_string().contains("32769 bytes"), "{error}");
}
