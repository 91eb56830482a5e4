//! `cargo xtask services`: what tests need, kept running for tests that are started by hand.

use anyhow::Context as _;
use gapless_testkit::{GAPLESS_TEST_ANVIL, GAPLESS_TEST_BROWSER, GAPLESS_TEST_POSTGRES, Postgres};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::requirement::{self, Requirement};

/// Starts PostgreSQL, finds anvil and a browser, prints how tests find them, and stops PostgreSQL on Ctrl-C.
pub(crate) fn services() -> anyhow::Result<()> {
    requirement::meet(&[Requirement::PostgreSql])?;
    let anvil = requirement::anvil()?;
    let browser = requirement::browser()?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("watching for Ctrl-C")?;
    let mut postgres = Postgres::start()?;
    eprintln!("PostgreSQL runs until Ctrl-C; in another terminal, type:");
    println!("export {GAPLESS_TEST_POSTGRES}={}", postgres.url());
    println!("export {GAPLESS_TEST_ANVIL}={}", anvil.display());
    println!("export {GAPLESS_TEST_BROWSER}={}", browser.display());
    signals.forever().next();
    postgres.stop()
}
