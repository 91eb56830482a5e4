//! The types that a cursor column may have, and its values as numbers.

use super::raw::Bytes;

/// The type of a cursor column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorKind {
    /// `timestamp with time zone`: microseconds since 2000-01-01 00:00 UTC.
    Timestamptz,
    /// `timestamp without time zone`: microseconds since 2000-01-01 00:00, in whatever zone its writers mean.
    Timestamp,
    /// `date`: days since 2000-01-01.
    Date,
}

const HOUR_MICROS: i64 = 3_600_000_000;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;

impl CursorKind {
    /// By the name of the type, without its precision.
    pub(crate) fn from_type(name: &str) -> Option<Self> {
        match name {
            "timestamptz" => Some(Self::Timestamptz),
            "timestamp" => Some(Self::Timestamp),
            "date" => Some(Self::Date),
            _ => None,
        }
    }

    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Timestamptz => "timestamptz",
            Self::Timestamp => "timestamp",
            Self::Date => "date",
        }
    }

    /// Reads a value of the database.
    pub(crate) fn number(self, raw: &[u8]) -> Option<i64> {
        match self {
            Self::Timestamptz | Self::Timestamp => Some(i64::from_be_bytes(raw.try_into().ok()?)),
            Self::Date => Some(i64::from(i32::from_be_bytes(raw.try_into().ok()?))),
        }
    }

    /// The same as a parameter.
    pub(crate) fn parameter(self, number: i64) -> Bytes {
        Bytes(match self {
            Self::Timestamptz | Self::Timestamp => number.to_be_bytes().to_vec(),
            Self::Date => {
                let day = i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX });
                day.to_be_bytes().to_vec()
            }
        })
    }

    /// The lowest value that `now()` may have given at a moment, whatever the time zone of the writer.
    pub(crate) fn earliest_at(self, micros: i64) -> i64 {
        match self {
            Self::Timestamptz => micros,
            // Zones reach from -12 to +14 hours.
            Self::Timestamp => micros.saturating_sub(14 * HOUR_MICROS),
            Self::Date => micros.saturating_sub(14 * HOUR_MICROS).div_euclid(DAY_MICROS),
        }
    }

    /// The value of a moment, given in UTC and in local time.
    pub(crate) fn at(self, utc_micros: i64, local_micros: i64) -> i64 {
        match self {
            Self::Timestamptz => utc_micros,
            Self::Timestamp => local_micros,
            Self::Date => local_micros.div_euclid(DAY_MICROS),
        }
    }

    /// About which moment a value names, in microseconds since 2000-01-01 UTC; `None` for infinities.
    pub(crate) fn micros(self, number: i64) -> Option<i64> {
        match self {
            Self::Timestamptz | Self::Timestamp => {
                (number != i64::MIN && number != i64::MAX).then_some(number)
            }
            Self::Date => {
                let is_finite = number != i64::from(i32::MIN) && number != i64::from(i32::MAX);
                is_finite.then(|| number.saturating_mul(DAY_MICROS))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Table behaviour 5
    #[test]
    fn values_go_back_as_they_came() {
        for kind in [CursorKind::Timestamptz, CursorKind::Timestamp] {
            for number in [i64::MIN, -1, 0, 1, 825_379_200_856_665, i64::MAX] {
                assert_eq!(kind.number(&kind.parameter(number).0), Some(number));
            }
            assert_eq!(kind.number(&[0; 4]), None);
        }
        for day in [i64::from(i32::MIN), -1, 0, i64::from(i32::MAX)] {
            assert_eq!(CursorKind::Date.number(&CursorKind::Date.parameter(day).0), Some(day));
        }
    }

    #[test]
    fn a_local_time_may_be_as_early_as_in_the_last_zone() {
        assert_eq!(CursorKind::Timestamptz.earliest_at(5), 5);
        assert_eq!(CursorKind::Timestamp.earliest_at(14 * HOUR_MICROS), 0);
        assert_eq!(CursorKind::Date.earliest_at(DAY_MICROS), 0);
        assert_eq!(CursorKind::Date.earliest_at(0), -1);
    }
}
