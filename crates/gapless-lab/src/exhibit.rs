//! What an experiment measured, beside what it compared: tables and histograms.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::table::Table;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Exhibit {
    /// Rows of cells below a heading.
    Table {
        /// What it shows.
        title: String,
        /// What the cells say.
        heading: Vec<String>,
        /// The cells.
        rows: Vec<Vec<String>>,
    },
    /// How often something happened in each stretch of time.
    Histogram {
        /// What it shows.
        title: String,
        /// How long a stretch is.
        step_ms: u64,
        /// How often it happened in each, from the first on.
        counts: Vec<u64>,
    },
}

impl Exhibit {
    /// A table.
    pub(crate) fn table<const COLUMNS: usize>(
        title: &str,
        heading: [&str; COLUMNS],
        rows: Vec<Vec<String>>,
    ) -> Self {
        Self::Table { title: title.to_owned(), heading: heading.map(str::to_owned).to_vec(), rows }
    }

    /// Counts moments by stretches of 100 ms, or of more where that would be too many.
    pub(crate) fn histogram(title: &str, moments_ms: &[u64]) -> Self {
        let longest = moments_ms.iter().copied().max().unwrap_or(0);
        let step_ms = STEPS_MS.into_iter().find(|step| longest / step < BARS_MAX).unwrap_or(60_000);
        let mut counts = Vec::new();
        for moment in moments_ms {
            let index = (moment / step_ms) as usize;
            counts.resize(counts.len().max(index + 1), 0);
            counts[index] += 1;
        }
        Self::Histogram { title: title.to_owned(), step_ms, counts }
    }
}

const STEPS_MS: [u64; 8] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000];
/// How many bars there are at most.
const BARS_MAX: u64 = 50;
/// The length of the longest bar, in characters.
const BAR_MAX: u64 = 60;

impl Display for Exhibit {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table { title, heading, rows } => {
                write!(formatter, "{title}\n{}", Table::of(heading.clone(), rows.clone()))
            }
            Self::Histogram { title, step_ms, counts } => {
                writeln!(formatter, "{title}")?;
                let most = counts.iter().copied().max().unwrap_or(0).max(1);
                for (step, count) in (0..).zip(counts) {
                    let bar = "█".repeat((count * BAR_MAX).div_ceil(most) as usize);
                    writeln!(formatter, "{:>7} ms {count:>6} {bar}", step * step_ms)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_by_stretches_and_quiet_ones_are_shown_too() {
        let histogram = Exhibit::histogram("back", &[0, 99, 100, 350]);
        assert_eq!(
            histogram,
            Exhibit::Histogram { title: "back".to_owned(), step_ms: 100, counts: vec![2, 1, 0, 1] }
        );
        assert_eq!(histogram.to_string().lines().count(), 5);

        let long = Exhibit::histogram("back", &[0, 9_999]);
        assert!(matches!(long, Exhibit::Histogram { step_ms: 200, .. }), "{long:?}");
    }
}
