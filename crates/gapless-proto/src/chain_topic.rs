//! Which topics of a chain can be subscribed to.

use crate::{ChainId, Topic};

/// Why nobody could subscribe to a topic of a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the topic `{0}` can't be asked for: with `chain:ID:` before it a name has at most 128 bytes, and neither comma nor star; choose another"
)]
pub struct UnreadableTopic(Topic);

/// Refuses a topic of a chain's feed that no reader could name: its whole name is too long, or has what separates names or stands for the
/// rest of one.
pub fn check_chain_topic(chain: ChainId, topic: &Topic) -> Result<(), UnreadableTopic> {
    let whole = Topic::new(&format!("chain:{chain}:{topic}"));
    let is_readable = whole.is_ok() && !topic.as_str().contains([',', '*']);
    is_readable.then_some(()).ok_or_else(|| UnreadableTopic(topic.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_could_ask_for_is_refused() {
        let topic = |name: &str| Topic::new(name).unwrap();
        let long = "x".repeat(120);
        for (name, is_readable) in [("a:b", true), (&long, true), ("a,b", false), ("*", false)] {
            assert_eq!(check_chain_topic(ChainId::new(1), &topic(name)).is_ok(), is_readable, "{name}");
        }
        let error = check_chain_topic(ChainId::new(10), &topic(&long)).unwrap_err();
        assert!(error.to_string().contains("at most 128 bytes"), "{error}");
    }
}
