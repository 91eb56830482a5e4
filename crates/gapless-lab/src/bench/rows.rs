//! The rows that are appended, the same whoever appends them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What every message says: 100 bytes of JSON.
pub(super) const BODY: &str =
    r#"{"text":"a message as people send them, of no great length, and padded to a hundred bytes........."}"#;

/// The id of the conversation with a number.
pub(super) fn conversation(number: usize) -> String {
    format!("conversation-{number}")
}

/// The id of the sender with a number.
pub(super) fn sender(number: usize) -> String {
    format!("sender-{number}")
}

/// The number of the sender whose conversation it is.
pub(super) fn owner(conversation: usize, senders: usize) -> usize {
    conversation % senders
}

/// A key that no other message has. Like the keys of real clients they come in no order, which the index feels.
pub(super) fn fresh_key() -> String {
    static USED: AtomicU64 = AtomicU64::new(0);
    // SplitMix64's mixing step: different numbers stay different.
    let number = USED.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{:016x}", mixed ^ (mixed >> 31))
}

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> i64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_hundred_bytes() {
        assert_eq!(BODY.len(), 100);
    }

    #[test]
    fn keys_are_never_used_twice() {
        let keys: std::collections::BTreeSet<_> = (0..10_000).map(|_| fresh_key()).collect();
        assert_eq!(keys.len(), 10_000);
    }
}
