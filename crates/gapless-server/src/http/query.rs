//! What stands behind the `?` of a request.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// The parameters of a request, each named once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

/// Why parameters can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// A percent sign that begins no byte, or bytes that are no UTF-8.
    #[error(
        "the address holds a broken percent-encoding; encode the bytes of UTF-8 as `%` and two hex digits"
    )]
    Encoding,
    /// The same parameter twice.
    #[error("the parameter `{0}` is given twice; give it once")]
    Twice(String),
    /// A parameter that the route doesn't take.
    #[error("this route takes no parameter `{name}`; it takes {known}")]
    Unknown { name: String, known: String },
    /// A value that can't be read.
    #[error("the parameter `{name}` is wrong: {reason}")]
    Value { name: &'static str, reason: String },
}

/// The parameters that tell who asks; every route takes them.
const CREDENTIALS: [&str; 3] = ["token", "user", "device"];

/// Longest piece of a peer's text that is repeated to it.
const QUOTED_CHARS_MAX: usize = 40;

impl Query {
    pub(crate) fn parse(raw: Option<&str>) -> Result<Self, QueryError> {
        let mut parameters = BTreeMap::new();
        for (name, value) in pairs(raw.unwrap_or_default()) {
            let (name, value) = (decode(name)?, decode(value)?);
            if parameters.contains_key(&name) {
                return Err(QueryError::Twice(quoted(&name)));
            }
            parameters.insert(name, value);
        }
        Ok(Self(parameters))
    }

    /// Takes a parameter out; `None` when it isn't given.
    pub(crate) fn take<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, QueryError> {
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        let wrong = |error: T::Err| QueryError::Value { name, reason: error.to_string() };
        value.parse().map(Some).map_err(wrong)
    }

    /// Takes the number of how many are wanted; `None` when it isn't given. None at all can't be meant.
    pub(crate) fn take_limit(&mut self) -> Result<Option<u32>, QueryError> {
        let limit = self.take("limit")?;
        if limit == Some(0) {
            let reason = "it is 0, and would bring nothing; give 1 or more, or leave it out".to_owned();
            return Err(QueryError::Value { name: "limit", reason });
        }
        Ok(limit)
    }

    /// Refuses what wasn't taken, given what could be.
    pub(crate) fn finish(self, known: &[&str]) -> Result<(), QueryError> {
        let left = self.0.into_keys().find(|name| !CREDENTIALS.contains(&name.as_str()));
        match left {
            None => Ok(()),
            Some(name) if known.is_empty() => {
                Err(QueryError::Unknown { name: quoted(&name), known: "none".to_owned() })
            }
            Some(name) => Err(QueryError::Unknown { name: quoted(&name), known: known.join(", ") }),
        }
    }
}

/// Looks for one parameter, whatever else there is. One that is broken isn't found.
pub(crate) fn find(raw: Option<&str>, wanted: &str) -> Option<String> {
    let mut pairs = pairs(raw.unwrap_or_default());
    pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| decode(value).ok())
}

/// Checks that the percent-encoding of a path is whole.
pub(crate) fn check_path(path: &str) -> Result<(), QueryError> {
    decode(path).map(drop)
}

fn pairs(raw: &str) -> impl Iterator<Item = (&str, &str)> {
    let given = raw.split('&').filter(|pair| !pair.is_empty());
    given.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn decode(encoded: &str) -> Result<String, QueryError> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (hex_digit(bytes.next())?, hex_digit(bytes.next())?);
                high << 4 | low
            }
            plain => plain,
        });
    }
    String::from_utf8(decoded).map_err(|_| QueryError::Encoding)
}

fn hex_digit(byte: Option<u8>) -> Result<u8, QueryError> {
    let digit = byte.and_then(|byte| char::from(byte).to_digit(16));
    digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(QueryError::Encoding)
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use gapless_proto::Seq;

    use super::*;

    #[test]
    fn parameters_are_taken_by_name_and_none_may_be_left() -> Result<(), QueryError> {
        let mut query = Query::parse(Some("limit=20&after=7&token=x&user=a"))?;
        assert_eq!(query.take::<Seq>("after")?.map(Seq::get), Some(7));
        assert_eq!(query.take("limit")?, Some(20_u32));
        assert_eq!(query.take::<Seq>("epoch")?, None);
        query.finish(&["after", "limit"])
    }

    #[test]
    fn a_mistyped_parameter_is_named_with_those_there_are() -> Result<(), QueryError> {
        let error = Query::parse(Some("aftr=7"))?.finish(&["after", "limit"]).unwrap_err();
        assert_eq!(error.to_string(), "this route takes no parameter `aftr`; it takes after, limit");
        let error = Query::parse(Some("x"))?.finish(&[]).unwrap_err();
        assert_eq!(error.to_string(), "this route takes no parameter `x`; it takes none");
        Ok(())
    }

    #[test]
    fn a_value_that_can_not_be_read_is_named() -> Result<(), QueryError> {
        for value in ["", "-1", "1.5", "x", "9007199254740992"] {
            let error = Query::parse(Some(&format!("after={value}")))?.take::<Seq>("after").unwrap_err();
            assert!(error.to_string().starts_with("the parameter `after` is wrong: "), "{error}");
        }
        Ok(())
    }

    #[test]
    fn percent_encoding_is_read_exactly() -> Result<(), QueryError> {
        let mut query = Query::parse(Some("after=a%2Bb%C3%BC+c"))?;
        assert_eq!(query.take("after")?, Some("a+bü c".to_owned()));
        for broken in ["after=%", "after=%4", "after=%zz", "after=%+1", "after=%ff", "%ff=1"] {
            assert_eq!(Query::parse(Some(broken)), Err(QueryError::Encoding), "{broken}");
        }
        Ok(())
    }

    #[test]
    fn a_parameter_given_twice_is_refused() {
        assert_eq!(Query::parse(Some("after=1&after=2")), Err(QueryError::Twice("after".to_owned())));
    }

    #[test]
    fn one_parameter_is_found_among_broken_ones() {
        assert_eq!(find(Some("x=%zz&token=a%2Eb&y"), "token"), Some("a.b".to_owned()));
        assert_eq!(find(Some("token=%zz"), "token"), None);
        assert_eq!(find(None, "token"), None);
    }
}
