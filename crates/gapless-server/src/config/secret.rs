//! Secrets, which show themselves to nobody.

use std::fmt;

/// The fewest bytes of a secret. HS256 is no stronger than its key, and a shorter one can be guessed.
pub(crate) const SECRET_BYTES_MIN: usize = 32;

/// A text that signs and verifies tokens. As text and in logs it is hidden.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// The secrets of a server: the first signs, all of them verify. So a new one is put in front, and the old one is taken
/// away once its tokens have expired.
///
/// The default has none and lets nobody in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secrets(Vec<Secret>);

/// Why a text can't be a secret. Doesn't say the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The text is too short.
    #[error("a secret of {bytes} bytes is too short; give it at least {min}, as `openssl rand -hex 32` does", min = SECRET_BYTES_MIN)]
    TooShort {
        /// How long it was.
        bytes: usize,
    },
}

impl Secret {
    /// Takes a text of at least 32 bytes.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        if text.len() < SECRET_BYTES_MIN {
            return Err(SecretError::TooShort { bytes: text.len() });
        }
        Ok(Self(text.into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Secrets {
    /// The one that signs, if there is any.
    pub(crate) fn signing(&self) -> Option<&Secret> {
        self.0.first()
    }

    /// Those that verify.
    pub(crate) fn verifying(&self) -> &[Secret] {
        &self.0
    }
}

impl FromIterator<Secret> for Secrets {
    fn from_iter<I: IntoIterator<Item = Secret>>(secrets: I) -> Self {
        Self(secrets.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_secret_is_refused_without_being_repeated() {
        let error = Secret::new("tooshort-tooshort").unwrap_err();
        assert_eq!(error, SecretError::TooShort { bytes: 17 });
        assert!(!error.to_string().contains("tooshort"), "{error}");
    }

    #[test]
    fn a_secret_shows_itself_to_nobody() {
        let text = "0123456789abcdef0123456789abcdef";
        let secrets = Secrets::from_iter([Secret::new(text).unwrap()]);
        assert_eq!(format!("{secrets:?}"), "Secrets([Secret(hidden)])");
    }
}
