//! What an experiment measured, beside what it compared: tables, histograms, bars and lines.

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
    /// A number for each of several things.
    Bars {
        /// What it shows.
        title: String,
        /// The things, and their numbers.
        bars: Vec<(String, u64)>,
    },
    /// How several things grow with another.
    Lines {
        /// What it shows.
        title: String,
        /// With what they grow.
        across: String,
        /// How much there was of that each time.
        places: Vec<u64>,
        /// The things.
        lines: Vec<Line>,
    },
}

/// One thing that grows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Line {
    /// What it is.
    pub(crate) name: String,
    /// How large it was at each place.
    pub(crate) values: Vec<f64>,
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
                    writeln!(formatter, "{:>7} ms {count:>6} {}", step * step_ms, bar(*count, most))?;
                }
                Ok(())
            }
            Self::Bars { title, bars } => {
                let most = bars.iter().map(|(_, number)| *number).max().unwrap_or(0).max(1);
                let rows = bars
                    .iter()
                    .map(|(name, number)| vec![name.clone(), number.to_string(), bar(*number, most)]);
                let heading = ["of", "number", ""].map(str::to_owned).to_vec();
                write!(formatter, "{title}\n{}", Table::of(heading, rows.collect()))
            }
            Self::Lines { title, across, places, lines } => {
                let (heading, rows) = cells_of_lines(across, places, lines);
                write!(formatter, "{title}\n{}", Table::of(heading, rows))
            }
        }
    }
}

fn bar(number: u64, most: u64) -> String {
    "█".repeat((number * BAR_MAX).div_ceil(most) as usize)
}

/// A heading with a column for each line, and a row for each place.
pub(crate) fn cells_of_lines(
    across: &str,
    places: &[u64],
    lines: &[Line],
) -> (Vec<String>, Vec<Vec<String>>) {
    let names = lines.iter().map(|line| line.name.clone());
    let heading = std::iter::once(across.to_owned()).chain(names).collect();
    let row = |(index, place): (usize, &u64)| {
        let values = lines.iter().map(|line| line.values.get(index).map(f64::to_string).unwrap_or_default());
        std::iter::once(place.to_string()).chain(values).collect()
    };
    (heading, places.iter().enumerate().map(row).collect())
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

    #[test]
    fn the_longest_bar_is_as_long_as_a_bar_can_be_and_none_is_hidden() {
        let bars = [("all", 1_000), ("one", 1), ("none", 0)];
        let bars = bars.map(|(name, number)| (name.to_owned(), number)).to_vec();
        let text = Exhibit::Bars { title: "lost".to_owned(), bars }.to_string();
        let lengths: Vec<_> = text.lines().skip(3).map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [BAR_MAX as usize, 1, 0]);
    }

    #[test]
    fn lines_have_a_row_for_each_place() {
        let line = |name: &str, values: &[f64]| Line { name: name.to_owned(), values: values.to_vec() };
        let lines = Exhibit::Lines {
            title: "latency".to_owned(),
            across: "depth".to_owned(),
            places: vec![0, 100],
            lines: vec![line("flat", &[0.1, 0.2]), line("steep", &[1.0, 25.0])],
        };
        assert_eq!(
            lines.to_string(),
            "latency\ndepth  flat  steep\n─────  ────  ─────\n0      0.1   1\n100    0.2   25\n"
        );
    }
}
