//! What was typed, where, and which of it counts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::error::{ConfigError, ConfigErrors};
use super::file;
use super::key::{self, KEYS, Key, VARIABLE_PREFIX};

/// Where a configuration is typed.
#[derive(Debug, Default)]
pub struct ConfigSources {
    /// On the command line. These count most; of two that set the same key, the later one.
    pub flags: Vec<Flag>,
    /// In the environment; only those that begin with `GAPLESS_` are looked at.
    pub variables: Vec<(OsString, OsString)>,
    /// In a TOML file.
    pub file: Option<PathBuf>,
}

/// A key that was set on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as it was typed, for errors.
    pub flag: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// What was typed: each key's value and where it stands. Flags count more than the environment, that more than the file, that more
/// than the defaults.
#[derive(Debug)]
pub struct RawConfig(BTreeMap<&'static str, Typed>);

/// A value as it was typed.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) key: &'static Key,
    /// One value; any number of them when the key takes several.
    pub(super) values: Vec<String>,
    pub(super) place: Place,
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it is the default.
    Default,
    /// In a file.
    File {
        /// Which.
        path: PathBuf,
        /// On which line.
        line: usize,
    },
    /// In an environment variable.
    Variable(String),
    /// On the command line.
    Flag(String),
}

impl RawConfig {
    /// Gathers what was typed, and refuses keys that don't exist. Then it names the values that are wrong, too.
    pub fn gather(sources: ConfigSources) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let mut typed = defaults();
        typed.extend(sources.file.map(|path| file::read(path, &mut errors)).unwrap_or_default());
        typed.extend(variables(sources.variables, &mut errors));
        typed.extend(flags(sources.flags, &mut errors));
        // What comes later counts more.
        let raw = Self(typed.into_iter().map(|typed| (typed.key.name, typed)).collect());
        if errors.is_empty() {
            return Ok(raw);
        }
        // What is missing or doesn't go together may be so because of a key that is misspelt.
        let wrong_values = raw.check().err().into_iter().flat_map(ConfigErrors::into_wrong_values);
        errors.extend(wrong_values);
        ConfigErrors::check(errors).map(|()| raw)
    }

    /// The values that count, in the order in which keys are shown.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Typed> {
        KEYS.iter().map(|key| self.typed(key.name))
    }

    pub(super) fn typed(&self, name: &str) -> &Typed {
        self.0.get(name).expect("every key has a default")
    }
}

impl Typed {
    /// Splits a text where the key takes several values.
    fn of_text(key: &'static Key, text: &str, place: Place) -> Self {
        let text = text.trim();
        let values = match key.is_list {
            true => text.split(',').map(|value| value.trim().to_owned()).collect(),
            false => vec![text.to_owned()],
        };
        let values = if text.is_empty() { Vec::new() } else { values };
        Self { key, values, place }
    }

    /// That it can't have this value; one that may hold a password isn't shown, its remedy says what of it may be.
    pub(super) fn fault(&self, value: &str) -> String {
        if self.key.is_secret { "has a wrong value".to_owned() } else { format!("can't be `{value}`") }
    }
}

fn defaults() -> Vec<Typed> {
    KEYS.iter().map(|key| Typed::of_text(key, key.default, Place::Default)).collect()
}

/// Variables that aren't keys and yet ours.
const OTHER_VARIABLES: [&str; 4] = ["GAPLESS_CONFIG", "GAPLESS_URL", "GAPLESS_TOKEN", "GAPLESS_BIN"];
/// Variables for tests, and those that Kubernetes sets for a service that is called `gapless`.
const OTHER_VARIABLE_PREFIXES: [&str; 4] =
    ["GAPLESS_TEST_", "GAPLESS_SIM_", "GAPLESS_SERVICE_", "GAPLESS_PORT"];

fn variables(given: Vec<(OsString, OsString)>, errors: &mut Vec<ConfigError>) -> Vec<Typed> {
    let mut typed = Vec::new();
    for (name, value) in given {
        let name = name.to_string_lossy().into_owned();
        if !name.starts_with(VARIABLE_PREFIX) || is_other(&name) {
            continue;
        }
        let place = Place::Variable(name.clone());
        match (KEYS.iter().find(|key| key.variable() == name), value.into_string()) {
            (Some(key), Ok(value)) => typed.push(Typed::of_text(key, &value, place)),
            (Some(key), Err(_)) => errors.push(ConfigError::Value {
                place,
                key: key.name,
                fault: "can't be read".to_owned(),
                remedy: "it isn't UTF-8; write it in UTF-8".to_owned(),
            }),
            (None, _) => errors.push(unknown_variable(&name, place)),
        }
    }
    typed
}

fn is_other(name: &str) -> bool {
    OTHER_VARIABLES.contains(&name) || OTHER_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn unknown_variable(name: &str, place: Place) -> ConfigError {
    let variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
    // What all of them begin with makes no two of them more alike.
    let own = |variable| str::strip_prefix(variable, VARIABLE_PREFIX).unwrap_or(variable);
    let remedy = match key::nearest(own(name), variables.iter().map(|variable| own(variable))) {
        Some(near) => format!("; did you mean {VARIABLE_PREFIX}{near}?"),
        None => "; unset it, `gapless check-config` shows those there are".to_owned(),
    };
    ConfigError::UnknownKey { place, key: name.to_owned(), remedy }
}

fn flags(given: Vec<Flag>, errors: &mut Vec<ConfigError>) -> Vec<Typed> {
    let mut typed = Vec::new();
    for Flag { flag, key, value } in given {
        match key::find(&key) {
            Some(key) => typed.push(Typed::of_text(key, &value, Place::Flag(flag))),
            None => errors.push(unknown_key(key, Place::Flag(flag))),
        }
    }
    typed
}

pub(super) fn unknown_key(key: String, place: Place) -> ConfigError {
    let remedy = match key::nearest(&key, KEYS.iter().map(|key| key.name)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => "; remove it, `gapless check-config` shows those there are".to_owned(),
    };
    ConfigError::UnknownKey { place, key, remedy }
}

impl Place {
    /// What a value that stands here counts, compared with others.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}
