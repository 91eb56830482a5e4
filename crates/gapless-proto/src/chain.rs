//! Blocks of a blockchain, and where one is in the feed of their events.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{PositionError, Seq};

#[cfg(test)]
mod tests;

/// Names a blockchain: the chain id of EIP-155, any 64-bit number.
///
/// On the wire it only stands in texts, since JavaScript can't keep such numbers exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(u64);

impl ChainId {
    /// Any number names a chain.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ChainId {
    type Err = ChainTextError;

    fn from_str(text: &str) -> Result<Self, ChainTextError> {
        decimal(text).map(Self).ok_or(ChainTextError::Chain)
    }
}

/// The height of a block. Heights rise along a chain, and some chains leave heights out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct BlockNumber(u64);

impl BlockNumber {
    /// Makes one from a number of at most 2⁵³ − 1.
    pub fn new(number: u64) -> Result<Self, PositionError> {
        if number > crate::position::INTEGER_MAX {
            return Err(PositionError::TooLarge { what: "block number", number });
        }
        Ok(Self(number))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The height that lies `blocks` below; 0 when there is none.
    #[must_use]
    pub const fn below(self, blocks: u64) -> Self {
        Self(self.0.saturating_sub(blocks))
    }
}

impl TryFrom<u64> for BlockNumber {
    type Error = PositionError;

    fn try_from(number: u64) -> Result<Self, PositionError> {
        Self::new(number)
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash of a block: 32 bytes, on the wire as `0x` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub [u8; 32]);

impl fmt::Display for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'0'; 2 + 64];
        text[1] = b'x';
        for (pair, byte) in text[2..].chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[byte >> 4, byte & 0xf].map(|half| DIGITS[usize::from(half)]));
        }
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BlockHash {
    type Err = ChainTextError;

    fn from_str(text: &str) -> Result<Self, ChainTextError> {
        let digits = text.strip_prefix("0x").ok_or(ChainTextError::Hash)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(ChainTextError::Hash);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
            let (Some(high), Some(low)) = (high, low) else {
                return Err(ChainTextError::Hash);
            };
            *byte = u8::try_from(high << 4 | low).map_err(|_| ChainTextError::Hash)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for BlockHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlockHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A place on a chain: everything up to a log of a block.
///
/// It alone doesn't say what is there: after a reorg the same place may hold another event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChainPoint {
    /// The block.
    pub block: BlockNumber,
    /// The log's index in the block; 0 also before the first.
    pub log: u32,
}

/// Where one is in the feed of a chain.
///
/// On the wire it is a text, `chain:block:log:seq`, with the block in at least 14 digits and the log in at least 4, as in
/// `1:00000000020134:0007:88213`. The first three parts can be checked on the chain by anyone; the seq is the feed's own and makes
/// resuming exact. A text of three parts stands for the canonical chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainCursor {
    /// The chain.
    pub chain: ChainId,
    /// The place on it.
    pub point: ChainPoint,
    /// The last seq of the feed that is passed; `None` for whatever is canonical up to the place.
    pub seq: Option<Seq>,
}

impl fmt::Display for ChainCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, point, seq } = self;
        write!(f, "{chain}:{:014}:{:04}", point.block.get(), point.log)?;
        match seq {
            Some(seq) => write!(f, ":{seq}"),
            None => Ok(()),
        }
    }
}

impl FromStr for ChainCursor {
    type Err = ChainTextError;

    fn from_str(text: &str) -> Result<Self, ChainTextError> {
        let mut parts = text.split(':');
        let mut next = || parts.next().and_then(decimal);
        let (Some(chain), Some(block), Some(log)) = (next(), next(), next()) else {
            return Err(ChainTextError::Cursor);
        };
        let seq = match parts.next().map(decimal) {
            None => None,
            Some(seq) => Some(seq.and_then(|seq| Seq::new(seq).ok()).ok_or(ChainTextError::Cursor)?),
        };
        if parts.next().is_some() {
            return Err(ChainTextError::Cursor);
        }
        let block = BlockNumber::new(block).map_err(|_| ChainTextError::Cursor)?;
        let log = u32::try_from(log).map_err(|_| ChainTextError::Cursor)?;
        Ok(Self { chain: ChainId(chain), point: ChainPoint { block, log }, seq })
    }
}

impl Serialize for ChainCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainCursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Why a text isn't what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainTextError {
    /// It isn't the id of a chain.
    #[error("a chain id is a number of 0 to 18446744073709551615")]
    Chain,
    /// It isn't the hash of a block.
    #[error("a block hash is `0x` and 64 hexadecimal digits")]
    Hash,
    /// It isn't a cursor.
    #[error(
        "a cursor of a chain is `chain:block:log:seq`, four numbers, as in `1:00000000020134:0007:88213`"
    )]
    Cursor,
}

/// A number in decimal digits and nothing else.
fn decimal(text: &str) -> Option<u64> {
    // `parse` would take a sign.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
