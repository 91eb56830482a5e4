//! Who is let in.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use gapless_tables::CursorKeys;

use super::error::ConfigError;
use super::raw::{Place, Typed};
use super::reader::Reader;
use super::secret::{Secret, Secrets};

/// Who is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthConfig {
    /// Whoever has a token that one of these secrets has signed.
    Jwt(Secrets),
    /// Everyone, as whom they say they are. For development: the server must listen on loopback only.
    Open,
}

/// Nobody is let in.
impl Default for AuthConfig {
    fn default() -> Self {
        Self::Jwt(Secrets::default())
    }
}

impl AuthConfig {
    /// What signs the cursors of tables: keys made from the secrets, so that they are rotated with these.
    pub fn cursor_keys(&self) -> CursorKeys {
        match self {
            Self::Jwt(secrets) => CursorKeys::new(secrets.verifying().iter().map(Secret::as_bytes)),
            Self::Open => CursorKeys::new([]),
        }
    }
}

const HOW_TO_GET_A_SECRET: &str = "make a secret with `openssl rand -hex 32` and set it as GAPLESS_AUTH_SECRETS, \
                                   or use `--auth open` for development on this machine";

impl Reader<'_> {
    /// Who is let in, given where the server will listen.
    pub(super) fn auth(&mut self, listen: Option<SocketAddr>) -> AuthConfig {
        let is_open = self.choice("auth.mode", [("jwt", false), ("open", true)]);
        if !is_open {
            return AuthConfig::Jwt(self.secrets());
        }
        if let Some(public) = listen.filter(|address| !address.ip().is_loopback()) {
            let remedy = format!(
                "an open server lets in everyone who reaches {public}; listen on 127.0.0.1, or use `--auth jwt`"
            );
            self.conflict("auth.mode", "listen", &remedy);
        }
        AuthConfig::Open
    }

    fn secrets(&mut self) -> Secrets {
        let Some(typed) = self.typed_secrets() else {
            return Secrets::default();
        };
        let mut secrets = Vec::new();
        for value in &typed.values {
            match Secret::new(value) {
                Ok(secret) => secrets.push(secret),
                Err(error) => self.wrong(&typed, value, &error.to_string()),
            }
        }
        secrets.into_iter().collect()
    }

    /// The secrets from where they are set; when they are listed and in a file, whichever counts more.
    fn typed_secrets(&mut self) -> Option<Typed> {
        let (listed, in_file) = (self.raw.typed("auth.secrets"), self.raw.typed("auth.secrets_file"));
        if listed.values.is_empty() && in_file.values.is_empty() {
            self.missing("auth.secrets", HOW_TO_GET_A_SECRET);
            return None;
        }
        if in_file.values.is_empty() || listed.place.rank() > in_file.place.rank() {
            return Some(listed.clone());
        }
        if listed.values.is_empty() || listed.place.rank() < in_file.place.rank() {
            return self.secrets_file(in_file);
        }
        self.conflict("auth.secrets", "auth.secrets_file", "keep one of them");
        None
    }

    /// Reads the secrets from the file that is named, one a line.
    fn secrets_file(&mut self, typed: &Typed) -> Option<Typed> {
        let path = PathBuf::from(typed.values.concat());
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                self.errors.push(ConfigError::File { path, error });
                return None;
            }
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let values: Vec<String> = lines.map(str::to_owned).collect();
        if values.is_empty() {
            self.wrong(typed, &typed.values.concat(), "the file is empty; write one secret a line into it");
        }
        let key = self.raw.typed("auth.secrets").key;
        Some(Typed { key, values, place: Place::File { path, line: 1 } })
    }
}
