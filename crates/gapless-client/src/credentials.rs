//! Who the client is to the server.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use gapless_proto::{DeviceId, UserId};

/// How a client tells the server who it is.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// By name only; taken by servers that run with `--auth open`.
    Open {
        /// The user.
        user: UserId,
        /// The device; each device of a user has its own cursors.
        device: DeviceId,
    },
    /// By a token that names user and device.
    Token(TokenSource),
}

/// Where tokens come from.
#[derive(Clone)]
pub struct TokenSource(Source);

#[derive(Clone)]
enum Source {
    Fixed(Arc<str>),
    Fetch(Arc<dyn Fn() -> Fetched + Send + Sync>),
}

/// A token on its way.
type Fetched = Pin<Box<dyn Future<Output = Result<String, FetchError>> + Send>>;

/// Why a token couldn't be had; it is tried again with the next connection.
pub type FetchError = Box<dyn Error + Send + Sync>;

impl TokenSource {
    /// One token. When it is refused or expires, the client stops.
    pub fn fixed(token: &str) -> Self {
        Self(Source::Fixed(Arc::from(token.trim())))
    }

    /// Asks for a token before the first connection, again shortly before it expires, and again when it is refused.
    pub fn from_fn<F, R>(fetch: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, FetchError>> + Send + 'static,
    {
        Self(Source::Fetch(Arc::new(move || Box::pin(fetch()))))
    }

    pub(crate) fn is_renewable(&self) -> bool {
        matches!(self.0, Source::Fetch(_))
    }

    pub(crate) async fn fetch(&self) -> Result<String, FetchError> {
        match &self.0 {
            Source::Fixed(token) => Ok(token.as_ref().to_owned()),
            Source::Fetch(fetch) => fetch().await.map(|token| token.trim().to_owned()),
        }
    }
}

impl fmt::Debug for TokenSource {
    /// Never shows a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Fixed(_) => "TokenSource::fixed(..)",
            Source::Fetch(_) => "TokenSource::from_fn(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_shown() {
        let credentials = Credentials::Token(TokenSource::fixed("secret"));
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
