//! The experiments, and the strategies that are known to be broken.
//!
//! Each begins with a database of its own and, unless it is about tables, a server of its own. A negative control runs a strategy
//! that others use; it is as expected when that strategy fails, which also shows that the experiment can see the failure.

mod ordering;
mod realtime;
mod tables;

use clap::ValueEnum;

use crate::database::{Databases, StoreKind};
use crate::finding::Finding;
use crate::network::Network;
use crate::progress::Progress;

/// Experiments that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Order, paging and positions of a conversation.
    Ordering,
    /// Events of a chain that can be taken back, under absences, reorgs, restarts and slow readers.
    Realtime,
    /// Reading a table while many write it. Of PostgreSQL.
    Tables,
}

/// Under what the experiments of a suite run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// What is between clients and server.
    pub(crate) network: Network,
    /// How long, and with how many clients.
    pub(crate) size: Size,
    /// With how many clients, if not as many as the size says.
    pub(crate) clients: Option<u64>,
}

/// How large an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Seconds.
    Short,
    /// Minutes, thousands of clients.
    Long,
}

impl Size {
    /// One of two.
    pub(crate) fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

impl Suite {
    /// Its name on the command line and in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ordering => "ordering",
            Self::Realtime => "realtime",
            Self::Tables => "tables",
        }
    }

    /// On which store it runs when none is named.
    pub(crate) const fn store(self) -> StoreKind {
        match self {
            Self::Ordering | Self::Realtime => StoreKind::Sqlite,
            Self::Tables => StoreKind::Postgres,
        }
    }
}

/// Runs all experiments of a suite, one after the other, or those with `only` in their names.
pub(crate) async fn run(
    suite: Suite,
    databases: &Databases,
    conditions: Conditions,
    only: Option<&str>,
) -> Vec<Finding> {
    match suite {
        Suite::Ordering => {
            let all = ordering::Experiment::ALL;
            run_all(all, |one| one.name(), only, async |one| one.find(databases).await).await
        }
        Suite::Realtime => {
            let all = realtime::Experiment::ALL;
            run_all(all, |one| one.name(), only, async |one| one.find(databases, conditions).await).await
        }
        Suite::Tables => {
            let all = tables::Experiment::ALL;
            run_all(all, |one| one.name(), only, async |one| one.find(databases, conditions).await).await
        }
    }
}

async fn run_all<E: Copy>(
    all: &[E],
    name: impl Fn(E) -> &'static str,
    only: Option<&str>,
    find: impl AsyncFn(E) -> Finding,
) -> Vec<Finding> {
    let is_chosen = |experiment: &E| only.is_none_or(|part| name(*experiment).contains(part));
    let experiments: Vec<_> = all.iter().copied().filter(is_chosen).collect();
    let progress = Progress::new(experiments.len());
    let mut findings = Vec::with_capacity(experiments.len());
    for experiment in experiments {
        progress.begin(name(experiment));
        findings.push(find(experiment).await);
        progress.step();
    }
    findings
}
