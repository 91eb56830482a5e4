//! What a benchmark measured.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

/// One measured figure, and what it is held against.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// Which benchmark measured it.
    bench: &'static str,
    /// What was measured, and how.
    metric: String,
    /// In which unit.
    unit: &'static str,
    /// What gapless came to.
    ours: f64,
    /// What it is compared with, measured in the same run.
    versus: Option<String>,
    /// What that came to.
    theirs: Option<f64>,
    /// Ours by theirs.
    ratio: Option<f64>,
    /// What is asked for.
    target: Option<Target>,
    /// Whether it is reached; `None` where nothing is asked for, or the run was too small to tell.
    met: Option<bool>,
    /// Whether the run was too small to judge anything by it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tiny: bool,
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// The ratio must reach this.
    RatioAtLeast(f64),
    /// The ratio may not pass this.
    RatioAtMost(f64),
    /// Our own figure may not pass this.
    OursAtMost(f64),
    /// Our own figure may not pass the one, or the ratio not the other.
    EitherAtMost {
        /// What our own figure may be.
        ours: f64,
        /// What the ratio may be.
        ratio: f64,
    },
}

impl Figure {
    /// A figure that stands for itself.
    pub(crate) fn new(bench: &'static str, metric: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self {
            bench,
            metric: metric.into(),
            unit,
            ours: rounded(ours),
            versus: None,
            theirs: None,
            ratio: None,
            target: None,
            met: None,
            tiny: false,
        }
    }

    /// Holds it against another.
    #[must_use]
    pub(crate) fn versus(mut self, versus: impl Into<String>, theirs: f64) -> Self {
        self.ratio = (theirs > 0.0).then(|| rounded(self.ours / theirs));
        self.versus = Some(versus.into());
        self.theirs = Some(rounded(theirs));
        self
    }

    /// Says what is asked for.
    #[must_use]
    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self.met = match target {
            Target::RatioAtLeast(least) => self.ratio.map(|ratio| ratio >= least),
            Target::RatioAtMost(most) => self.ratio.map(|ratio| ratio <= most),
            Target::OursAtMost(most) => Some(self.ours <= most),
            Target::EitherAtMost { ours, ratio } => {
                Some(self.ours <= ours || self.ratio.is_some_and(|found| found <= ratio))
            }
        };
        self
    }

    /// Says that the run was too small to judge by it.
    #[must_use]
    pub(crate) fn tiny(self) -> Self {
        Self { met: None, tiny: true, ..self }
    }

    /// Whether a target was missed.
    pub(crate) fn is_missed(&self) -> bool {
        self.met == Some(false)
    }

    /// The cells of its row in a table, in the order of [`Figure::HEADING`].
    pub(crate) fn cells(&self) -> [String; 9] {
        let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        let met = match (self.met, self.target, self.tiny) {
            (Some(true), _, _) => "yes",
            (Some(false), _, _) => "NO",
            (None, Some(_), true) => "tiny",
            (None, _, _) => "",
        };
        [
            self.bench.to_owned(),
            self.metric.clone(),
            self.unit.to_owned(),
            self.ours.to_string(),
            self.versus.clone().unwrap_or_default(),
            number(self.theirs),
            number(self.ratio),
            self.target.map(|target| target.to_string()).unwrap_or_default(),
            met.to_owned(),
        ]
    }

    /// What the cells of a row say.
    pub(crate) const HEADING: [&str; 9] =
        ["bench", "metric", "unit", "ours", "versus", "theirs", "ratio", "target", "met"];
}

impl Display for Target {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtLeast(least) => write!(formatter, "ratio ≥ {least}"),
            Self::RatioAtMost(most) => write!(formatter, "ratio ≤ {most}"),
            Self::OursAtMost(most) => write!(formatter, "ours ≤ {most}"),
            Self::EitherAtMost { ours, ratio } => write!(formatter, "ours ≤ {ours} or ratio ≤ {ratio}"),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The middle of several rounds; of an even number the mean of the middle two.
///
/// # Panics
///
/// When there are none.
pub(crate) fn median(rounds: &[f64]) -> f64 {
    assert!(!rounds.is_empty(), "a benchmark has at least one round");
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Three digits, or more before the point: nothing here is measured better than that.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let digits_before_point = number.abs().log10().floor() as i32 + 1;
    let scale = 10_f64.powi((3 - digits_before_point).max(0));
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_judged_by_the_ratio_or_by_the_figure_itself() {
        let figure = || Figure::new("append-hot", "sends", "1/s", 900.0).versus("baseline", 100.0);
        assert!(!figure().target(Target::RatioAtLeast(9.0)).is_missed());
        assert!(figure().target(Target::RatioAtLeast(9.1)).is_missed());
        assert!(figure().target(Target::RatioAtMost(8.9)).is_missed());
        assert!(figure().target(Target::OursAtMost(899.0)).is_missed());
    }

    #[test]
    fn a_tiny_run_is_not_judged() {
        let figure = Figure::new("idle", "memory", "KiB", 99.0).target(Target::OursAtMost(12.0)).tiny();
        assert!(!figure.is_missed());
        assert_eq!(figure.cells()[8], "tiny");
    }

    #[test]
    fn a_json_line_and_a_row_of_the_table_say_the_same() {
        let figure = Figure::new("page", "pages", "1/s", 1234.567)
            .versus("driver", 2000.0)
            .target(Target::RatioAtLeast(0.5));
        let json: serde_json::Value = serde_json::to_value(&figure).unwrap();
        let in_json = Figure::HEADING.map(|key| {
            let value = &json[key];
            let number = value.as_f64().map(|number| number.to_string());
            let met = value.as_bool().map(|met| if met { "yes" } else { "NO" }.to_owned());
            number.or(met).or(value.as_str().map(str::to_owned)).unwrap()
        });
        assert_eq!(in_json, figure.cells());
        assert_eq!(figure.cells()[6], "0.618");
    }

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_middle_two() {
        assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 3.0, 4.0]), 3.5);
    }

    #[test]
    fn figures_have_three_digits_and_lose_none_before_the_point() {
        assert_eq!([0.123_456, 12.345, 123_456.7, 0.0].map(rounded), [0.123, 12.3, 123_457.0, 0.0]);
    }
}
