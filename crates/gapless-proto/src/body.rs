//! The content of an entry.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// JSON text, passed on byte for byte as it came in.
///
/// It is checked once, where it enters; from then on it is text. Two bodies are equal when their texts are. A clone is one
/// reference count.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Body(Arc<RawValue>);

/// Why a text can't be a body.
#[derive(Debug, thiserror::Error)]
#[error("a body must be one JSON value")]
pub struct BodyError(#[source] serde_json::Error);

impl Body {
    /// Checks that a text is one JSON value and keeps it.
    pub fn from_text(text: String) -> Result<Self, BodyError> {
        RawValue::from_string(text).map(|raw| Self(Arc::from(raw))).map_err(BodyError)
    }

    /// Encodes a value.
    pub fn from_value(value: &impl Serialize) -> Result<Self, BodyError> {
        serde_json::value::to_raw_value(value).map(|raw| Self(Arc::from(raw))).map_err(BodyError)
    }

    /// Reads the text as a `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Body {}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_keeps_the_text_that_came_in() -> Result<(), serde_json::Error> {
        let text = r#"{"b":1.0,  "a":1e2,"b":"\u00e9"}"#;
        let body: Body = serde_json::from_str(text)?;
        assert_eq!(serde_json::to_string(&body)?, text);
        Ok(())
    }

    #[test]
    fn what_is_not_one_json_value_is_no_body() {
        for text in ["", "{", "1 2", "nul", "\u{0}"] {
            assert!(Body::from_text(text.to_owned()).is_err(), "{text:?} passed");
        }
    }
}
