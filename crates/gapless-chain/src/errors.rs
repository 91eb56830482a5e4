//! What the trouble is when a node refuses, and what helps.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// What a node's refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Too many blocks, or logs in them, were asked for at once: ask for fewer.
    RangeTooLarge(RangeHint),
    /// Too much was asked for in too short a time: wait. Smaller questions don't help.
    RateLimited {
        /// How long to wait, if the node says so.
        retry_after: Option<Duration>,
    },
    /// It doesn't have the block, or has another in its place: it lags, or there was a reorg. Ask again or elsewhere.
    UnknownBlock,
    /// There is no block of this height, and never will be.
    NullRound,
    /// It has no such method.
    Unsupported,
    /// It took too long: ask again, for less if possible.
    TimedOut,
    /// It can't be reached, or stumbled: ask again or elsewhere.
    Passing,
    /// What it answers can't be true, or contradicts itself: ask elsewhere.
    Untrustworthy,
    /// It will refuse again: a wrong address, key or chain. Somebody has to mend it.
    Fatal,
}

/// What a node says about the range that it would answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeHint {
    /// The most blocks that it takes, or the width of the range that it suggests.
    pub blocks: Option<u64>,
}

/// Tells what an error of JSON-RPC means.
pub fn classify(code: i64, message: &str) -> Trouble {
    let text = message.to_ascii_lowercase();
    let has = |markers: &[&str]| markers.iter().any(|marker| text.contains(marker));
    if code == 429 || has(&RATE_TEXTS) {
        return Trouble::RateLimited { retry_after: None };
    }
    if let Some(hint) = range_hint(&text) {
        return Trouble::RangeTooLarge(hint);
    }
    if has(&["null round"]) {
        return Trouble::NullRound;
    }
    if has(&UNKNOWN_BLOCK_TEXTS) {
        return Trouble::UnknownBlock;
    }
    if has(&["timeout", "timed out", "deadline exceeded"]) {
        return Trouble::TimedOut;
    }
    match code {
        -32005 => Trouble::RateLimited { retry_after: None },
        -32601 => Trouble::Unsupported,
        -32600 | -32602 => Trouble::Fatal,
        _ => Trouble::Passing,
    }
}

/// Tells what an answer over HTTP means that isn't one of JSON-RPC.
pub fn classify_http(status: u16, body: &str, retry_after: Option<Duration>) -> Trouble {
    match (status, classify(0, body)) {
        (429, _) | (_, Trouble::RateLimited { .. }) => Trouble::RateLimited { retry_after },
        (_, trouble @ (Trouble::RangeTooLarge(_) | Trouble::UnknownBlock | Trouble::NullRound)) => trouble,
        (413, _) => Trouble::RangeTooLarge(RangeHint::default()),
        (408 | 504, _) => Trouble::TimedOut,
        (503, _) if retry_after.is_some() => Trouble::RateLimited { retry_after },
        (400..=499, _) => Trouble::Fatal,
        (_, _) => Trouble::Passing,
    }
}

/// Parts of texts that say: too often.
const RATE_TEXTS: [&str; 10] = [
    "rate limit",
    "rate-limit",
    "too many requests",
    "quota",
    "credits",
    "/sec",
    "per second",
    "request limit",
    "request count exceeded",
    "compute units",
];

/// Parts of texts that say: this block isn't here.
const UNKNOWN_BLOCK_TEXTS: [&str; 9] = [
    "unknown block",
    "header not found",
    "block not found",
    "not currently canonical",
    "invalid block height",
    "cannot query unfinalized data",
    "blockoutofrange",
    "block out of range",
    "beyond current head",
];

/// Where a text about a range tells what would do.
#[derive(Clone, Copy)]
enum Tells {
    /// Behind the words, a number of blocks.
    Blocks,
    /// Behind the words, two heights.
    Range,
    Nothing,
}

/// Parts of texts that say: too much at once. The first that fits counts.
const RANGE_TEXTS: [(&str, Tells); 24] = [
    ("retry with the range", Tells::Range),
    ("try with this block range", Tells::Range),
    ("this block range should work", Tells::Range),
    ("maximum is set to", Tells::Blocks),
    ("max range:", Tells::Blocks),
    ("maximum allowed number of requested blocks is", Tells::Blocks),
    ("limited to a", Tells::Blocks),
    ("limited to", Tells::Blocks),
    ("exceeds the range allowed for your plan", Tells::Blocks),
    ("limit the query to at most", Tells::Blocks),
    ("maximum block range:", Tells::Blocks),
    ("query exceeds max block range", Tells::Blocks),
    ("block range greater than", Tells::Blocks),
    ("block range exceeds", Tells::Blocks),
    ("range is too large, max is", Tells::Blocks),
    ("exceeds limit of", Tells::Blocks),
    ("ranges over", Tells::Blocks),
    ("block range is too wide", Tells::Nothing),
    ("block range limit exceeded", Tells::Nothing),
    ("query exceeds max results", Tells::Nothing),
    ("query returned more than", Tells::Nothing),
    ("response is too big", Tells::Nothing),
    ("response size", Tells::Nothing),
    ("range is too large", Tells::Nothing),
];

fn range_hint(text: &str) -> Option<RangeHint> {
    let (rest, tells) = RANGE_TEXTS.iter().find_map(|(marker, tells)| {
        let start = text.find(marker)? + marker.len();
        Some((&text[start..], *tells))
    })?;
    // As in `(5000 > 2000)`.
    let rest = rest.split_once("> ").map_or(rest, |(_, limit)| limit);
    let mut numbers = Numbers(rest);
    let blocks = match tells {
        Tells::Blocks => numbers.next(),
        Tells::Range => match (numbers.next(), numbers.next()) {
            (Some(one), Some(other)) => one.abs_diff(other).checked_add(1),
            (Some(_), None) | (None, _) => None,
        },
        Tells::Nothing => None,
    };
    Some(RangeHint { blocks: blocks.filter(|blocks| *blocks > 0) })
}

/// The numbers in a text: `10,000`, `0x1f`, `1k`.
struct Numbers<'a>(&'a str);

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let start = self.0.find(|c: char| c.is_ascii_digit())?;
        let text = &self.0[start..];
        if let Some(digits) = text.strip_prefix("0x") {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            self.0 = &digits[end..];
            return u64::from_str_radix(&digits[..end], 16).ok();
        }
        let mut end = 0;
        for (index, c) in text.char_indices() {
            let groups = c == ',' && text[index + 1..].starts_with(|c: char| c.is_ascii_digit());
            if !c.is_ascii_digit() && !groups {
                break;
            }
            end = index + 1;
        }
        self.0 = &text[end..];
        let number: u64 = text[..end].replace(',', "").parse().ok()?;
        match self.0.starts_with('k') {
            true => number.checked_mul(1_000),
            false => Some(number),
        }
    }
}
