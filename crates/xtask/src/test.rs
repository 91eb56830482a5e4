//! `cargo xtask test`: everything that must hold before a change is merged.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use gapless_testkit::{
    GAPLESS_BIN, GAPLESS_TEST_ANVIL, GAPLESS_TEST_BROWSER, GAPLESS_TEST_POSTGRES, Postgres,
};

use crate::cargo::{binary, cargo, workspace};
use crate::requirement::{self, Requirement};
use crate::step::{Run, Step};

/// Starts what the tests need, carries out all steps up to the first that fails, and stops what it started.
pub(crate) fn test(filter: Option<&str>) -> anyhow::Result<()> {
    requirement::meet(&Requirement::ALL)?;
    let postgres = Postgres::start().context("starting PostgreSQL for the tests")?;
    let mut run = Run::start()?;
    let services =
        Services { postgres: postgres.url(), anvil: requirement::anvil()?, browser: requirement::browser()? };
    let outcome = steps(filter, &services)?.into_iter().try_for_each(|step| run.carry_out(step));
    eprintln!("\n{}", run.summary());
    outcome
}

/// Where tests find what isn't built with the workspace.
struct Services {
    postgres: String,
    anvil: PathBuf,
    browser: PathBuf,
}

/// All steps in their order; with a filter only the tests that it selects.
fn steps(filter: Option<&str>, services: &Services) -> anyhow::Result<Vec<Step>> {
    let gapless = binary("gapless")?;
    let in_cargo = |name: &str, arguments: &[&str]| Step::new(name, cargo(arguments));
    let with_services = |mut command: Command| {
        command
            .env(GAPLESS_TEST_POSTGRES, &services.postgres)
            .env(GAPLESS_TEST_ANVIL, &services.anvil)
            .env(GAPLESS_TEST_BROWSER, &services.browser)
            .env(GAPLESS_BIN, &gapless);
        command
    };

    let build = in_cargo("build", &["build", "--workspace", "--all-targets"]);
    if let Some(filter) = filter {
        let test = with_services(cargo(&["test", "--workspace", "--no-fail-fast", "--", filter]));
        return Ok(vec![build, Step::of_tests(test, Some(filter))]);
    }
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    let mut steps = vec![
        in_cargo("format", &["fmt", "--all", "--check"]),
        in_cargo("lint", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::new("documentation", doc),
        build,
        Step::of_tests(with_services(cargo(&["test", "--workspace", "--no-fail-fast"])), None),
    ];
    let laboratory = binary("gapless-lab")?;
    let in_laboratory = |name: String, arguments: &[&str]| {
        let mut command = Command::new(&laboratory);
        command.args(arguments).current_dir(workspace());
        Step::new(name, with_services(command))
    };
    steps.extend(STORES.map(|store| {
        in_laboratory(format!("experiments on {store}"), &["experiment", "ordering", "--store", store])
    }));
    steps.extend(
        BENCHES.map(|bench| in_laboratory(format!("bench {bench}, tiny"), &["bench", bench, "--tiny"])),
    );
    Ok(steps)
}

const STORES: [&str; 2] = ["sqlite", "postgres"];

/// Each is run with little to do, so that none stops working unnoticed.
const BENCHES: [&str; 5] = ["append-hot", "append-spread", "send-latency", "page", "idle"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_checks_come_before_the_tests() {
        let steps = steps(None, &services()).unwrap();
        assert_eq!(names(&steps)[..5], ["format", "lint", "documentation", "build", "test"]);
        assert_eq!(names(&steps).len(), 5 + STORES.len() + BENCHES.len());
    }

    #[test]
    fn a_filter_leaves_only_the_tests() {
        let steps = steps(Some("paging"), &services()).unwrap();
        assert_eq!(names(&steps), ["build", "test"]);
    }

    fn services() -> Services {
        Services { postgres: "postgres://".to_owned(), anvil: "anvil".into(), browser: "browser".into() }
    }

    fn names(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.name.as_str()).collect()
    }
}
