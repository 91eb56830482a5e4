//! The PostgreSQL that all tests of a run share.

use std::env;

use crate::postgres::{PostgresBinaries, database};

/// The environment variable with the superuser's URL of the PostgreSQL that tests share.
pub const GAPLESS_TEST_POSTGRES: &str = "GAPLESS_TEST_POSTGRES";

/// The PostgreSQL that `cargo xtask test` or `cargo xtask services` started; each test takes a database of its own.
#[derive(Debug, Clone)]
pub struct SharedPostgres {
    url: String,
}

impl SharedPostgres {
    /// Takes the server that [`GAPLESS_TEST_POSTGRES`] names.
    ///
    /// # Panics
    ///
    /// When the variable is not set: a test that needs PostgreSQL must not pass without it.
    pub fn from_environment() -> Self {
        let Ok(url) = env::var(GAPLESS_TEST_POSTGRES) else {
            panic!("run `cargo xtask test`, or set {GAPLESS_TEST_POSTGRES} to a superuser URL");
        };
        Self { url }
    }

    /// The superuser's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates an empty database with a name of its own and returns its URL.
    ///
    /// # Panics
    ///
    /// When the server can't be reached or its superuser isn't one.
    pub fn fresh_database(&self) -> String {
        PostgresBinaries::find()
            .and_then(|binaries| database::create(&binaries, &self.url))
            .unwrap_or_else(|error| panic!("{GAPLESS_TEST_POSTGRES} is {}: {error:#}", self.url))
    }
}
