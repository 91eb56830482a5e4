//! Whole numbers of any size, such as balances in the smallest unit of a token.

use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Body;

/// How many digits an amount may have; a 256-bit number has 78.
const DIGITS_MAX: usize = 100;

/// A whole number of at most 100 decimal digits, negative ones too: whoever counts from the middle of a chain sees more leave
/// than came.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount(BigInt);

/// Why a text isn't an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// It isn't a whole number.
    #[error("an amount is a whole number in decimal digits, as in \"-1500\"")]
    NotANumber,
    /// It has too many digits.
    #[error("an amount has at most {DIGITS_MAX} digits")]
    TooLong,
}

impl Amount {
    /// The sum, if it isn't too long.
    pub fn plus(&self, other: &Self) -> Result<Self, AmountError> {
        let sum = Self(&self.0 + &other.0);
        if sum.to_string().trim_start_matches('-').len() > DIGITS_MAX {
            return Err(AmountError::TooLong);
        }
        Ok(sum)
    }

    /// Reads what [`Amount::to_body`] has written.
    pub fn from_body(body: &Body) -> Result<Self, AmountError> {
        let text: String = serde_json::from_str(body.as_str()).map_err(|_| AmountError::NotANumber)?;
        text.parse()
    }

    /// The amount as a JSON text.
    pub fn to_body(&self) -> Body {
        Body::from_text(format!("\"{self}\"")).expect("digits are a text")
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(AmountError::NotANumber);
        }
        if digits.len() > DIGITS_MAX {
            return Err(AmountError::TooLong);
        }
        text.parse().map(Self).map_err(|_| AmountError::NotANumber)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Amount {
    /// A text, since JavaScript can't keep such numbers exact.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    #[test]
    fn amounts_of_256_bits_are_added_exactly() {
        let largest = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(
            amount(largest).plus(&amount("1")).unwrap().plus(&amount("-1")).unwrap().to_string(),
            largest
        );
        assert_eq!(
            amount("0").plus(&amount(&format!("-{largest}"))).unwrap().to_string(),
            format!("-{largest}")
        );
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        for text in ["", "-", "+1", "1.5", "0x10", "1e3", " 1", "--1"] {
            assert_eq!(text.parse::<Amount>(), Err(AmountError::NotANumber), "{text}");
        }
    }

    #[test]
    fn amounts_do_not_grow_without_end() {
        let longest = "9".repeat(DIGITS_MAX);
        assert_eq!(format!("1{longest}").parse::<Amount>(), Err(AmountError::TooLong));
        assert_eq!(amount(&longest).plus(&amount("1")), Err(AmountError::TooLong));
        assert_eq!(amount(&format!("-{longest}")).plus(&amount("-1")), Err(AmountError::TooLong));
    }
}
