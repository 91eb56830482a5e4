//! Values as PostgreSQL writes them.

use std::borrow::Cow;

use rusqlite::types::ValueRef;

/// The text of a value of a type as PostgreSQL spells it; `None` is NULL.
pub(super) fn text<'a>(value: ValueRef<'a>, type_name: &str) -> Option<Cow<'a, [u8]>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(Cow::Owned(number.to_string().into_bytes())),
        ValueRef::Real(number) => Some(Cow::Owned(float(number, type_name == "real").into_bytes())),
        ValueRef::Text(text) => Some(Cow::Borrowed(text)),
        ValueRef::Blob(bytes) => Some(Cow::Owned(hexadecimal(bytes))),
    }
}

fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits =
        bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    b"\\x".iter().copied().chain(digits).collect()
}

/// A number with the fewest digits that tell it from all others, as PostgreSQL writes it. A `real` is kept as the double that its text means;
/// that text has so few digits that they are the double's, too.
fn float(number: f64, is_real: bool) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let (digits, exponent) = match is_real {
        true => scientific(&format!("{:e}", number.abs())),
        false => digits(number.abs()),
    };
    let sign = if number < 0.0 { "-" } else { "" };
    let fixed_below = if is_real { 6 } else { 15 };
    let (first, rest) = digits.split_at(1);
    if !(-4..fixed_below).contains(&exponent) {
        let point = if rest.is_empty() { "" } else { "." };
        let (exponent_sign, exponent) = (if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs());
        return format!("{sign}{first}{point}{rest}e{exponent_sign}{exponent:02}");
    }
    match usize::try_from(exponent) {
        Err(_) => format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
        Ok(exponent) if digits.len() <= exponent + 1 => {
            format!("{sign}{digits}{}", "0".repeat(exponent + 1 - digits.len()))
        }
        Ok(exponent) => format!("{sign}{}.{}", &digits[..=exponent], &digits[exponent + 1..]),
    }
}

/// The digits of a positive number, and the power of ten of the first.
///
/// Of two decimals that are as near to it, PostgreSQL takes the even one. Where the shortest decimal lies exactly in the middle between two
/// numbers, it doesn't trust that everybody reads it the same way, and writes more digits.
fn digits(number: f64) -> (String, i32) {
    const DIGITS_MAX: usize = 17;
    let shortest = scientific(&format!("{number:e}"));
    let nearest = |digits: usize| scientific(&format!("{number:.behind$e}", behind = digits - 1));
    let candidates = [nearest(shortest.0.len()), shortest.clone()].into_iter();
    let mut candidates = candidates.chain((shortest.0.len() + 1..=DIGITS_MAX).map(nearest));
    candidates.find(|decimal| is_between(decimal, number)).unwrap_or(shortest)
}

/// The digits and the exponent of a number as Rust writes it, as in `1.25e-7`.
fn scientific(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_end_matches('0');
    (if digits.is_empty() { "0" } else { digits }.to_owned(), exponent.parse().unwrap_or_default())
}

/// Whether a decimal is read as a number, and so are those a tiny bit above and below.
fn is_between((digits, exponent): &(String, i32), number: f64) -> bool {
    let behind = i32::try_from(digits.len()).unwrap_or_default() - 1;
    // Less than the distance between a decimal of so few digits and any middle that it doesn't hit.
    let tail = "0".repeat(39) + "1";
    let below: u64 = digits.parse::<u64>().unwrap_or_default().saturating_sub(1);
    let read = |digits: String, point: i32| format!("{digits}e{point}").parse::<f64>() == Ok(number);
    let point = exponent - behind;
    read(format!("{digits}{tail}"), point - 40) && read(format!("{below}{}", "9".repeat(40)), point - 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Table behaviour 10
    #[test]
    fn floats_are_written_as_postgresql_does() {
        for (number, text) in [
            (0.1, "0.1"),
            (-0.0, "-0"),
            (5e-324, "5e-324"),
            (1e15, "1e+15"),
            (1e14, "100000000000000"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (0.0001, "0.0001"),
            (-0.000_012_5, "-1.25e-05"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            // As near to a decimal of as many digits that ends with 3.
            (2_f64.powi(-25), "2.9802322387695312e-08"),
            // Exactly in the middle between two doubles.
            (1e23, "9.999999999999999e+22"),
            (9_007_199_254_740_992.0, "9.007199254740992e+15"),
        ] {
            assert_eq!(float(number, false), text);
        }
        for (number, text) in [(1e6, "1e+06"), (123_456.0, "123456"), (1e-45, "1e-45"), (1e23, "1e+23")] {
            assert_eq!(float(number, true), text);
        }
    }

    #[test]
    fn bytes_are_hexadecimal() {
        assert_eq!(hexadecimal(&[0, 255, 16]), b"\\x00ff10");
    }
}
