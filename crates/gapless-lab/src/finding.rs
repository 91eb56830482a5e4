//! What an experiment expected and what it saw.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::exhibit::Exhibit;

/// What one experiment came to.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// The experiment's name, as users quote it.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) claim: &'static str,
    /// Whether it is a negative control: a strategy that is known to be broken, and must fail here.
    pub(crate) is_control: bool,
    /// What was compared.
    pub(crate) checks: Vec<Check>,
    /// What was measured beside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exhibits: Vec<Exhibit>,
    /// Why the experiment came to no end, if it didn't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// What an experiment that came to its end has to show.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What was compared.
    pub(crate) checks: Vec<Check>,
    /// What was measured beside.
    pub(crate) exhibits: Vec<Exhibit>,
}

impl From<Vec<Check>> for Outcome {
    fn from(checks: Vec<Check>) -> Self {
        Self { checks, exhibits: Vec::new() }
    }
}

/// One thing that was compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) what: String,
    /// What it should be.
    pub(crate) expected: Expected,
    /// What it was.
    pub(crate) observed: Value,
}

/// What a value should be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expected {
    /// Exactly this.
    Exactly(Value),
    /// This number or more.
    AtLeast(u64),
    /// This number or less.
    AtMost(u64),
}

/// What an experiment, or all of them, came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Everything is as expected.
    AsExpected,
    /// Something differs; for a control: the broken strategy did not fail.
    Differs,
    /// The experiment came to no end.
    Failed,
}

impl Finding {
    /// Whether all was as expected.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.failure {
            Some(_) => Verdict::Failed,
            None if !self.checks.is_empty() && self.checks.iter().all(Check::holds) => Verdict::AsExpected,
            None => Verdict::Differs,
        }
    }
}

impl Check {
    /// Compares with exactly this.
    pub(crate) fn exactly(what: &str, expected: impl Into<Value>, observed: impl Into<Value>) -> Self {
        Self {
            what: what.to_owned(),
            expected: Expected::Exactly(expected.into()),
            observed: observed.into(),
        }
    }

    /// Compares with a number that must be reached.
    pub(crate) fn at_least(what: &str, expected: u64, observed: u64) -> Self {
        Self { what: what.to_owned(), expected: Expected::AtLeast(expected), observed: observed.into() }
    }

    /// Compares with a number that may not be passed.
    pub(crate) fn at_most(what: &str, expected: u64, observed: u64) -> Self {
        Self { what: what.to_owned(), expected: Expected::AtMost(expected), observed: observed.into() }
    }

    /// Whether the observed is what was expected.
    pub(crate) fn holds(&self) -> bool {
        match &self.expected {
            Expected::Exactly(value) => *value == self.observed,
            Expected::AtLeast(least) => self.observed.as_u64().is_some_and(|number| number >= *least),
            Expected::AtMost(most) => self.observed.as_u64().is_some_and(|number| number <= *most),
        }
    }
}

impl Display for Expected {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => formatter.write_str(&shown(value)),
            Self::AtLeast(least) => write!(formatter, "≥ {least}"),
            Self::AtMost(most) => write!(formatter, "≤ {most}"),
        }
    }
}

impl Serialize for Expected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Exactly(value) => value.serialize(serializer),
            Self::AtLeast(_) | Self::AtMost(_) => serializer.collect_str(self),
        }
    }
}

/// A value for people: texts without their quotes.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_difference_is_enough_to_differ() {
        let mut finding = finding(vec![Check::exactly("holes", 0, 0), Check::at_least("duplicates", 1, 3)]);
        assert_eq!(finding.verdict(), Verdict::AsExpected);

        finding.checks.push(Check::at_most("resets", 1, 2));
        assert_eq!(finding.verdict(), Verdict::Differs);

        finding.failure = Some("the server is gone".to_owned());
        assert_eq!(finding.verdict(), Verdict::Failed);
    }

    #[test]
    fn an_experiment_that_compared_nothing_has_shown_nothing() {
        assert_eq!(finding(Vec::new()).verdict(), Verdict::Differs);
    }

    fn finding(checks: Vec<Check>) -> Finding {
        Finding {
            name: "00-example",
            claim: "it works",
            is_control: false,
            checks,
            exhibits: Vec::new(),
            failure: None,
        }
    }
}
