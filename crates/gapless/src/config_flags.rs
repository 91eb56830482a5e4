//! The flags that set what a server may be told.

use std::env;
use std::path::PathBuf;

use clap::Args;
use gapless_server::{ConfigErrors, ConfigSources, Flag, RawConfig};

/// Where the configuration comes from: flags count more than the environment, that more than the file.
#[derive(Args)]
pub(crate) struct ConfigFlags {
    /// Read this TOML file; `gapless check-config` shows what may stand in it
    #[arg(long, value_name = "FILE", env = "GAPLESS_CONFIG")]
    config: Option<PathBuf>,
    /// Set any key of the configuration, as in `--set limits.body_bytes_max=128KiB`; the last one of a key counts, and a flag of
    /// the key's own, as `--listen`, counts more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    secret: SecretFlags,
}

/// What signs tokens.
#[derive(Args)]
struct SecretFlags {
    /// Sign and verify tokens with this secret (better in GAPLESS_AUTH_SECRETS: others on this machine see flags)
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
    /// Read the secrets from this file, one a line
    #[arg(long, value_name = "FILE")]
    secrets_file: Option<String>,
}

/// The store, where a command needs one.
#[derive(Args)]
pub(crate) struct StoreFlag {
    /// Keep the logs here: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

/// What only a server is told.
#[derive(Args)]
pub(crate) struct ServerFlags {
    /// Listen on this address; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    store: StoreFlag,
    /// Let in whoever has a token (jwt), or everyone (open; on loopback only)
    #[arg(long, value_name = "jwt|open")]
    auth: Option<String>,
    /// Write the log for people (text) or for programs (json)
    #[arg(long, value_name = "text|json")]
    log_format: Option<String>,
    /// Log nothing that is less than this: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl ConfigFlags {
    /// Gathers the configuration, with further flags.
    pub(crate) fn gather(&self, further: Vec<Flag>) -> Result<RawConfig, ConfigErrors> {
        let mut flags: Vec<Flag> = self.set.iter().map(|set| set_flag(set)).collect();
        flags.extend(self.secret.flags());
        flags.extend(further);
        RawConfig::gather(ConfigSources {
            flags,
            variables: env::vars_os().collect(),
            file: self.config.clone(),
        })
    }
}

impl SecretFlags {
    fn flags(&self) -> Vec<Flag> {
        let secret = flag("--secret", "auth.secrets", self.secret.as_ref());
        let file = flag("--secrets-file", "auth.secrets_file", self.secrets_file.as_ref());
        secret.into_iter().chain(file).collect()
    }
}

impl StoreFlag {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        flag("--store", "store", self.store.as_ref()).into_iter().collect()
    }
}

impl ServerFlags {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let mut flags = self.store.flags();
        flags.extend(flag("--listen", "listen", self.listen.as_ref()));
        flags.extend(flag("--auth", "auth.mode", self.auth.as_ref()));
        flags.extend(flag("--log-format", "log.format", self.log_format.as_ref()));
        flags.extend(flag("--log-level", "log.level", self.log_level.as_ref()));
        flags
    }
}

fn flag(flag: &str, key: &str, value: Option<&String>) -> Option<Flag> {
    Some(Flag { flag: flag.to_owned(), key: key.to_owned(), value: value?.clone() })
}

/// `KEY=VALUE` as a flag; a text without `=` is a key that doesn't exist, and refused as one.
fn set_flag(set: &str) -> Flag {
    let (key, value) = set.split_once('=').unwrap_or((set, ""));
    Flag { flag: format!("--set {key}"), key: key.trim().to_owned(), value: value.to_owned() }
}
