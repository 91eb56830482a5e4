//! Texts to values, one at a time.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::{ConfigError, ConfigErrors};
use super::raw::{RawConfig, Typed};

/// Reads values and remembers what is wrong. A wrong value is read as some right one, so that the rest is read as well.
pub(super) struct Reader<'a> {
    pub(super) raw: &'a RawConfig,
    pub(super) errors: Vec<ConfigError>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(raw: &'a RawConfig) -> Self {
        Self { raw, errors: Vec::new() }
    }

    pub(super) fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        ConfigErrors::check(self.errors).map(|()| value)
    }

    pub(super) fn time(&mut self, name: &str, bounds: RangeInclusive<Duration>) -> Duration {
        let typed = self.raw.typed(name);
        let value = typed.values.concat();
        if let Some(time) = humantime::parse_duration(&value).ok().filter(|time| bounds.contains(time)) {
            return time;
        }
        let remedy = format!(
            "write a time from {} to {}, as in 500ms, 30s or 2m",
            humantime::format_duration(*bounds.start()),
            humantime::format_duration(*bounds.end()),
        );
        self.wrong(typed, &value, &remedy);
        *bounds.start()
    }

    pub(super) fn size(&mut self, name: &str, bounds: RangeInclusive<u64>) -> usize {
        usize::try_from(self.number(name, bounds)).unwrap_or(usize::MAX)
    }

    pub(super) fn number(&mut self, name: &str, bounds: RangeInclusive<u64>) -> u64 {
        let typed = self.raw.typed(name);
        let value = typed.values.concat();
        if let Some(number) = number(&value).filter(|number| bounds.contains(number)) {
            return number;
        }
        let remedy =
            format!("write a number from {} to {}, as in 500, 64KiB or 1MiB", bounds.start(), bounds.end());
        self.wrong(typed, &value, &remedy);
        *bounds.start()
    }

    /// Reads one of a few words; the first stands in for a wrong one.
    pub(super) fn choice<T: Copy, const N: usize>(&mut self, name: &str, choices: [(&str, T); N]) -> T {
        let typed = self.raw.typed(name);
        let value = typed.values.concat();
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == value) {
            return *choice;
        }
        self.wrong(typed, &value, &format!("write one of {}", choices.map(|(word, _)| word).join(", ")));
        choices[0].1
    }

    pub(super) fn wrong(&mut self, typed: &Typed, value: &str, remedy: &str) {
        self.errors.push(ConfigError::Value {
            place: typed.place.clone(),
            key: typed.key.name,
            fault: typed.fault(value),
            remedy: remedy.to_owned(),
        });
    }

    pub(super) fn missing(&mut self, key: &'static str, remedy: &'static str) {
        self.errors.push(ConfigError::Missing { key, remedy });
    }

    pub(super) fn conflict(&mut self, key: &'static str, other_key: &'static str, remedy: &str) {
        let place = self.raw.typed(key).place.clone();
        let other_place = self.raw.typed(other_key).place.clone();
        let remedy = remedy.to_owned();
        self.errors.push(ConfigError::Conflict { key, place, other_key, other_place, remedy });
    }
}

/// A whole number, with or without a unit of bytes.
fn number(text: &str) -> Option<u64> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let with_unit = units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?.trim_end(), *size)));
    let (digits, size) = with_unit.unwrap_or((text, 1));
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_have_a_unit_of_bytes() {
        for (text, value) in [
            ("0", Some(0)),
            ("65536", Some(65_536)),
            ("64KiB", Some(65_536)),
            ("2 MiB", Some(2 << 20)),
            ("64kb", None),
            ("KiB", None),
            ("1.5MiB", None),
            ("-1", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
