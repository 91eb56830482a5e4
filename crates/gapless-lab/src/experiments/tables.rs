//! Reading a table while many write it: what each of the usual ways loses, and what a page costs the deeper it is.

mod depth;
mod fault;
mod gapless;
mod holding;
mod paging;
mod polling;
mod push;
mod side_by_side;
mod strategy;

use super::Conditions;
use crate::database::Databases;
use crate::finding::{Finding, Outcome};

/// One of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Experiment {
    Strategies,
    QueryDepth,
}

impl Experiment {
    /// All of them, in the order in which they run.
    pub(super) const ALL: &[Self] = &[Self::Strategies, Self::QueryDepth];

    /// Its name, as users quote it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Strategies => "table-strategies",
            Self::QueryDepth => "table-depth",
        }
    }

    const fn claim(self) -> &'static str {
        match self {
            Self::Strategies => {
                "Readers of one busy table, side by side: the usual ways each go wrong as predicted, and in no other way; gapless misses nothing, and in strict mode repeats nothing."
            }
            Self::QueryDepth => {
                "A page by row comparison costs the same at any depth; with OFFSET, or with OR, it costs all that comes before it."
            }
        }
    }

    /// Carries it out.
    pub(super) async fn find(self, databases: &Databases, conditions: Conditions) -> Finding {
        let outcome = match self {
            Self::Strategies => side_by_side::run(databases, conditions).await,
            Self::QueryDepth => depth::run(databases, conditions).await,
        };
        let (Outcome { checks, exhibits }, failure) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(error) => (Outcome::default(), Some(format!("{error:#}"))),
        };
        Finding { name: self.name(), claim: self.claim(), is_control: false, checks, exhibits, failure }
    }
}
