//! A block, as an indexer hands it in.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::position::INTEGER_MAX;
use crate::{Amount, BlockHash, BlockNumber, Body, PositionError, Topic, ValueKey};

/// A block by its height and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRef {
    /// Its height.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: BlockHash,
}

impl fmt::Display for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.hash)
    }
}

/// A block with those of its events that somebody may subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its height.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: BlockHash,
    /// The hash of the block before it.
    pub parent: BlockHash,
    /// When it was made, in seconds since the Unix epoch, as the chain has it; see [`block_time`].
    #[serde(deserialize_with = "deserialize_block_time")]
    pub time: u64,
    /// Its events, in the order of their logs; several of one log have different topics.
    #[serde(default)]
    pub events: Vec<ChainEvent>,
}

/// Takes a number for the time of a block if it is at most 2⁵³ − 1.
pub fn block_time(number: u64) -> Result<u64, PositionError> {
    match number <= INTEGER_MAX {
        true => Ok(number),
        false => Err(PositionError::TooLarge { what: "block time", number }),
    }
}

fn deserialize_block_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    block_time(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

impl Block {
    /// Which block it is.
    pub fn at(&self) -> BlockRef {
        BlockRef { number: self.number, hash: self.hash }
    }
}

/// Something that happened on a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainEvent {
    /// The log's index in the block.
    pub log: u32,
    /// Under which topic it is found.
    pub topic: Topic,
    /// What happened, as readers get it.
    pub payload: Body,
    /// What it does to the values of the topic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// What an event does to one value of its topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ChangeFields", into = "ChangeFields")]
pub struct Change {
    /// The value's name.
    pub key: ValueKey,
    /// What becomes of it.
    pub effect: Effect,
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It is replaced.
    Set(Body),
    /// An amount is added to it; one that isn't there counts as 0.
    Add(Amount),
}

/// A change as it stands in JSON: with either `set` or `add`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeFields {
    key: ValueKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<Body>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    add: Option<Amount>,
}

impl TryFrom<ChangeFields> for Change {
    type Error = &'static str;

    fn try_from(fields: ChangeFields) -> Result<Self, Self::Error> {
        let effect = match (fields.set, fields.add) {
            (Some(value), None) => Effect::Set(value),
            (None, Some(amount)) => Effect::Add(amount),
            (Some(_), Some(_)) | (None, None) => return Err("a change has either `set` or `add`"),
        };
        Ok(Self { key: fields.key, effect })
    }
}

impl From<Change> for ChangeFields {
    fn from(Change { key, effect }: Change) -> Self {
        match effect {
            Effect::Set(value) => Self { key, set: Some(value), add: None },
            Effect::Add(amount) => Self { key, set: None, add: Some(amount) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = concat!(
        r#"{"number":7,"hash":"0x0101010101010101010101010101010101010101010101010101010101010101","#,
        r#""parent":"0x0000000000000000000000000000000000000000000000000000000000000000","time":1767225600,"#,
        r#""events":[{"log":3,"topic":"transfers","payload":{"value": 1.50},"#,
        r#""changes":[{"key":"alice","add":"-5"},{"key":"last","set":[1,  2]}]},{"log":9,"topic":"x","payload":null}]}"#
    );

    #[test]
    fn a_block_is_read_and_written_back_byte_for_byte() {
        let block: Block = serde_json::from_str(BLOCK).unwrap();
        assert_eq!(serde_json::to_string(&block).unwrap(), BLOCK);
        assert_eq!(block.events[0].changes[0].effect, Effect::Add("-5".parse().unwrap()));
    }

    #[test]
    fn a_block_from_beyond_all_time_is_refused() {
        for (time, is_taken) in [(INTEGER_MAX, true), (INTEGER_MAX + 1, false), (u64::MAX, false)] {
            let block = BLOCK.replace("1767225600", &time.to_string());
            assert_eq!(serde_json::from_str::<Block>(&block).is_ok(), is_taken, "{time}");
        }
    }

    #[test]
    fn a_change_has_one_effect_and_a_misspelt_field_is_refused() {
        for change in [
            r#"{"key":"a"}"#,
            r#"{"key":"a","set":1,"add":"1"}"#,
            r#"{"key":"a","add":1}"#,
            r#"{"key":"a","add":"1.5"}"#,
            r#"{"key":"a","addd":"1"}"#,
        ] {
            assert!(serde_json::from_str::<Change>(change).is_err(), "{change}");
        }
        assert!(serde_json::from_str::<Block>(&BLOCK.replace("\"events\"", "\"evnets\"")).is_err());
    }
}
