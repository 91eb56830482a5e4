//! Values of the commonest types as PostgreSQL writes them. It sends their binary forms faster than their texts, and those are shorter.

use std::io::Write as _;

use crate::wire::Column;

/// A type whose texts are written here. The names are PostgreSQL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    Boolean,
    Smallint,
    Integer,
    Bigint,
    Numeric,
    Uuid,
    Date,
    Timestamp,
    Timestamptz,
    Text,
    Json,
    Jsonb,
}

const DAY_MICROS: i64 = 86_400_000_000;
/// Days from 0000-03-01 to 2000-01-01, from which PostgreSQL counts; and in 400 years.
const EPOCH_DAYS: i64 = 730_425;
const ERA_DAYS: i64 = 146_097;
/// The signs of a numeric.
const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

impl Native {
    /// The type of a column, if it is one of these.
    pub(crate) fn of(column: &Column) -> Option<Self> {
        if !column.binary {
            return None;
        }
        let name = column.type_name.as_str();
        // Lengths and precisions stand in parentheses.
        let (before, behind) = name.split_once('(').unwrap_or((name, ""));
        let behind = behind.split_once(')').map_or("", |(_, behind)| behind);
        Some(match (before, behind) {
            ("boolean", "") => Self::Boolean,
            ("smallint", "") => Self::Smallint,
            ("integer", "") => Self::Integer,
            ("bigint", "") => Self::Bigint,
            ("numeric", "") => Self::Numeric,
            ("uuid", "") => Self::Uuid,
            ("date", "") => Self::Date,
            ("timestamp without time zone", "") | ("timestamp", " without time zone") => Self::Timestamp,
            ("timestamp with time zone", "") | ("timestamp", " with time zone") => Self::Timestamptz,
            ("text" | "character varying", "") => Self::Text,
            ("json", "") => Self::Json,
            ("jsonb", "") => Self::Jsonb,
            _ => return None,
        })
    }

    /// Writes the text of a binary value; `None` if it isn't one of this type.
    pub(crate) fn write(self, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Boolean => out.extend(if value == [0] { b"false".as_slice() } else { b"true" }),
            Self::Smallint => decimal(i16::from_be_bytes(value.try_into().ok()?).into(), out),
            Self::Integer => decimal(i32::from_be_bytes(value.try_into().ok()?).into(), out),
            Self::Bigint => decimal(i64::from_be_bytes(value.try_into().ok()?), out),
            Self::Numeric => numeric(value, out)?,
            Self::Uuid => uuid(value.try_into().ok()?, out),
            Self::Date => date(i32::from_be_bytes(value.try_into().ok()?), out),
            Self::Timestamp => timestamp(i64::from_be_bytes(value.try_into().ok()?), b"", out),
            Self::Timestamptz => timestamp(i64::from_be_bytes(value.try_into().ok()?), b"+00", out),
            Self::Text | Self::Json => out.extend(value),
            // The version of its form is before it.
            Self::Jsonb => out.extend(value.strip_prefix(&[1])?),
        }
        Some(())
    }
}

fn decimal(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    digits(number.unsigned_abs(), 1, out);
}

/// A number with at least so many digits.
fn digits(mut number: u64, least: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 || digits.len() - first < least {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend(&digits[first..]);
}

fn uuid(value: [u8; 16], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in value.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MIN => out.extend(b"-infinity"),
        i32::MAX => out.extend(b"infinity"),
        days => {
            let is_before_christ = day(days.into(), out);
            out.extend(era(is_before_christ));
        }
    }
}

fn timestamp(micros: i64, zone: &[u8], out: &mut Vec<u8>) {
    match micros {
        i64::MIN => return out.extend(b"-infinity"),
        i64::MAX => return out.extend(b"infinity"),
        _ => {}
    }
    let is_before_christ = day(micros.div_euclid(DAY_MICROS), out);
    let of_day = micros.rem_euclid(DAY_MICROS).unsigned_abs();
    let (seconds, mut fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    for (before, number) in [(b' ', seconds / 3_600), (b':', seconds / 60 % 60), (b':', seconds % 60)] {
        two_digits(before, number, out);
    }
    if fraction > 0 {
        let mut length = 6;
        while fraction % 10 == 0 {
            fraction /= 10;
            length -= 1;
        }
        out.push(b'.');
        digits(fraction, length, out);
    }
    out.extend(zone);
    out.extend(era(is_before_christ));
}

/// Writes a day, given from 2000-01-01 on, and says whether it is before Christ, where years are counted backwards from 1.
fn day(days: i64, out: &mut Vec<u8>) -> bool {
    // Years begin in March here, so that the day that not all have is their last.
    let days = days + EPOCH_DAYS;
    let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    digits(if year > 0 { year } else { 1 - year }.unsigned_abs(), 4, out);
    two_digits(b'-', month.unsigned_abs(), out);
    two_digits(b'-', day.unsigned_abs(), out);
    year <= 0
}

fn two_digits(before: u8, number: u64, out: &mut Vec<u8>) {
    out.extend([before, b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

const fn era(is_before_christ: bool) -> &'static [u8] {
    if is_before_christ { b" BC" } else { b"" }
}

/// Digits of 10,000 each, of which the first stands for so many times 10,000 to the power of the weight.
fn numeric(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut words = value.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let (count, weight, sign, scale) = (words.next()?, words.next()?, words.next()?, words.next()?);
    match sign {
        NAN => return write!(out, "NaN").ok(),
        INFINITY => return write!(out, "Infinity").ok(),
        MINUS_INFINITY => return write!(out, "-Infinity").ok(),
        NEGATIVE => out.push(b'-'),
        POSITIVE => {}
        _ => return None,
    }
    if words.len() != usize::from(count) {
        return None;
    }
    let weight = i32::from(weight.cast_signed());
    let digit = |power: i32| {
        let index = usize::try_from(weight - power).ok()?;
        words.clone().nth(index)
    };
    digits(digit(weight.max(0)).unwrap_or_default().into(), 1, out);
    for power in (0..weight.max(0)).rev() {
        digits(digit(power).unwrap_or_default().into(), 4, out);
    }
    if scale > 0 {
        out.push(b'.');
        let end = out.len() + usize::from(scale);
        let mut power = -1;
        while out.len() < end {
            digits(digit(power).unwrap_or_default().into(), 4, out);
            power -= 1;
        }
        out.truncate(end);
    }
    Some(())
}
