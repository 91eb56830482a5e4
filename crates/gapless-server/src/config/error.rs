//! What is wrong with a configuration, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use super::raw::Place;

/// Everything that is wrong with a configuration, found in one go.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

/// One thing that is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: can't be read ({error}); correct the path, or the rights", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file isn't TOML.
    #[error("{place}: isn't TOML: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        message: String,
    },
    /// Something is set that doesn't exist.
    #[error("{place}: there is no key `{key}`{remedy}")]
    UnknownKey {
        /// Where.
        place: Place,
        /// The name that was typed.
        key: String,
        /// What to type instead.
        remedy: String,
    },
    /// A key has a value that it can't have.
    #[error("{place}: `{key}` {fault}: {remedy}")]
    Value {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
        /// Which value it can't have, or that it is wrong when it may not be shown.
        fault: String,
        /// What to do.
        remedy: String,
    },
    /// A key is needed and has no value.
    #[error("`{key}` isn't set: {remedy}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Two values don't go together.
    #[error("`{key}` ({place}) doesn't go with `{other_key}` ({other_place}): {remedy}")]
    Conflict {
        /// The one.
        key: &'static str,
        /// Where it is set.
        place: Place,
        /// The other.
        other_key: &'static str,
        /// Where that is set.
        other_place: Place,
        /// What to do.
        remedy: String,
    },
}

impl ConfigErrors {
    /// Nothing when there are none.
    pub(super) fn check(errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// Those that are about one value alone.
    pub(super) fn into_wrong_values(self) -> impl Iterator<Item = ConfigError> {
        self.0.into_iter().filter(|error| matches!(error, ConfigError::Value { .. }))
    }

    /// The errors, at least one.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
