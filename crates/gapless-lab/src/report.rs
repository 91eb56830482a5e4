//! What the experiments came to: for the screen, for programs, and as a page.

mod drawing;
mod html;

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::finding::{Finding, Verdict, shown};
use crate::table::Table;

/// All findings of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Which experiments.
    suite: &'static str,
    /// On which store.
    store: &'static str,
    /// Over which network, if that isn't the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'static str>,
    /// What they came to together.
    verdict: Verdict,
    /// What each came to.
    experiments: Vec<Judged>,
}

/// A finding with its verdict.
#[derive(Debug, Serialize)]
struct Judged {
    verdict: Verdict,
    #[serde(flatten)]
    finding: Finding,
}

impl Report {
    /// Judges what was found.
    pub(crate) fn new(suite: &'static str, store: &'static str, findings: Vec<Finding>) -> Self {
        let experiments: Vec<_> =
            findings.into_iter().map(|finding| Judged { verdict: finding.verdict(), finding }).collect();
        let worst = experiments.iter().map(|judged| judged.verdict).max();
        Self { suite, store, network: None, verdict: worst.unwrap_or(Verdict::Failed), experiments }
    }

    /// Says over which network.
    #[must_use]
    pub(crate) fn over(self, network: Option<&'static str>) -> Self {
        Self { network, ..self }
    }

    /// Whether everything was as expected.
    pub(crate) fn is_as_expected(&self) -> bool {
        self.verdict == Verdict::AsExpected
    }

    /// The report for programs.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// The report as a page that needs nothing else.
    pub(crate) fn html(&self) -> String {
        html::page(self)
    }

    fn summary(&self) -> String {
        let count = |verdict| self.experiments.iter().filter(|judged| judged.verdict == verdict).count();
        format!(
            "{} on {}{}: {} of {} experiments as expected, {} differ, {} failed",
            self.suite,
            self.store,
            self.network.map(|network| format!(" over a network that is {network}")).unwrap_or_default(),
            count(Verdict::AsExpected),
            self.experiments.len(),
            count(Verdict::Differs),
            count(Verdict::Failed),
        )
    }
}

/// One row: what was compared, and how it came out.
struct Row {
    name: &'static str,
    what: String,
    expected: String,
    observed: String,
    holds: bool,
    verdict: &'static str,
}

impl Judged {
    /// A row for each comparison, and one for a failure.
    fn rows(&self) -> Vec<Row> {
        let name = self.finding.name;
        let compared = self.finding.checks.iter().map(|check| Row {
            name,
            what: check.what.clone(),
            expected: check.expected.to_string(),
            observed: shown(&check.observed),
            holds: check.holds(),
            verdict: word(check.holds(), self.finding.is_control),
        });
        let failed = self.finding.failure.iter().map(|failure| Row {
            name,
            what: "comes to an end".to_owned(),
            expected: "yes".to_owned(),
            observed: failure.clone(),
            holds: false,
            verdict: "FAILED",
        });
        compared.chain(failed).collect()
    }
}

fn word(holds: bool, is_control: bool) -> &'static str {
    match (holds, is_control) {
        (true, _) => "as expected",
        (false, false) => "DIFFERS",
        (false, true) => "CONTROL DIFFERS",
    }
}

impl Display for Report {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["experiment", "what", "expected", "observed", "verdict"]);
        for judged in &self.experiments {
            for (index, row) in judged.rows().into_iter().enumerate() {
                let name = if index == 0 { row.name } else { "" };
                table.push([name.to_owned(), row.what, row.expected, row.observed, row.verdict.to_owned()]);
            }
        }
        writeln!(formatter, "{table}")?;
        for judged in &self.experiments {
            for exhibit in &judged.finding.exhibits {
                writeln!(formatter, "{}: {exhibit}", judged.finding.name)?;
            }
        }
        formatter.write_str(&self.summary())
    }
}

#[cfg(test)]
mod tests;
