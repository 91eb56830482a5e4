//! The content of an entry.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// JSON text, passed on byte for byte as it came in.
///
/// It is checked once, where it enters; from then on it is text. Two bodies are equal when their texts are. A clone is one
/// reference count.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Body(Arc<RawValue>);

/// How deep the arrays and objects of a body may nest. Parsers of many languages give up not far beyond, and one body must
/// not keep a reader from its whole page.
const BODY_DEPTH_MAX: usize = 100;

/// Why a text can't be a body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It isn't JSON.
    #[error("a body must be one JSON value")]
    NotJson(#[source] serde_json::Error),
    /// Its arrays and objects nest too deep.
    #[error("a body nests {depth} deep; flatten it to {max} at most", max = BODY_DEPTH_MAX)]
    TooDeep {
        /// How deep.
        depth: usize,
    },
}

impl Body {
    /// Checks that a text is one JSON value and keeps it.
    pub fn from_text(text: String) -> Result<Self, BodyError> {
        Self::from_raw(RawValue::from_string(text).map_err(BodyError::NotJson)?)
    }

    /// Encodes a value.
    pub fn from_value(value: &impl Serialize) -> Result<Self, BodyError> {
        Self::from_raw(serde_json::value::to_raw_value(value).map_err(BodyError::NotJson)?)
    }

    fn from_raw(raw: Box<RawValue>) -> Result<Self, BodyError> {
        match depth(raw.get()) {
            depth if depth > BODY_DEPTH_MAX => Err(BodyError::TooDeep { depth }),
            _ => Ok(Self(Arc::from(raw))),
        }
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

/// How deep the arrays and objects of a JSON text nest.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::<RawValue>::deserialize(deserializer)?).map_err(D::Error::custom)
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

    // Behaviour 19
    #[test]
    fn a_body_that_other_parsers_would_choke_on_is_refused() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Body::from_text(nested(100)).is_ok());
        assert!(matches!(Body::from_text(nested(101)), Err(BodyError::TooDeep { depth: 101 })));
        assert!(serde_json::from_str::<Body>(&nested(30_000)).is_err());
    }

    #[test]
    fn brackets_in_texts_do_not_nest() {
        let text = format!(r#"["\"{}\\", {{"[": 1}}]"#, "[".repeat(200));
        assert_eq!(depth(&text), 2);
        assert!(Body::from_text(text).is_ok());
    }
}
