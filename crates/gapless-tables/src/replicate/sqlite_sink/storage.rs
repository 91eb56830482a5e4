//! How values are kept so that they stay exact.

use rusqlite::types::Value;

/// What SQLite keeps a column's values as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    Integer,
    /// `NaN` and the infinities stay texts.
    Real,
    Blob,
    /// PostgreSQL's text.
    Text,
}

impl Storage {
    /// For a type as PostgreSQL spells it.
    pub(super) fn of(type_name: &str) -> Self {
        match type_name {
            "smallint" | "integer" | "bigint" => Self::Integer,
            "real" | "double precision" => Self::Real,
            "bytea" => Self::Blob,
            _ => Self::Text,
        }
    }

    /// The type in SQLite. Floats have none: a column that is declared `REAL` would make zero of minus zero.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "",
            Self::Blob => "BLOB",
            Self::Text => "TEXT",
        }
    }

    /// A value, given its text; none if that can't be read.
    pub(super) fn value(self, text: Option<&[u8]>) -> Option<Value> {
        let Some(text) = text else { return Some(Value::Null) };
        if self == Self::Blob {
            return blob(text).map(Value::Blob);
        }
        let text = std::str::from_utf8(text).ok()?;
        match self {
            Self::Integer => text.parse().ok().map(Value::Integer),
            Self::Real => real(text),
            Self::Text | Self::Blob => Some(Value::Text(text.to_owned())),
        }
    }
}

fn real(text: &str) -> Option<Value> {
    let number: f64 = text.parse().ok()?;
    Some(if number.is_finite() { Value::Real(number) } else { Value::Text(text.to_owned()) })
}

/// Reads `\x` and hexadecimal digits.
fn blob(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.strip_prefix(b"\\x")?.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Table behaviour 10
    #[test]
    fn values_stay_exact() {
        let value = |type_name: &str, text: &str| Storage::of(type_name).value(Some(text.as_bytes()));
        assert_eq!(value("bigint", "-9223372036854775808"), Some(Value::Integer(i64::MIN)));
        assert_eq!(value("double precision", "0.1"), Some(Value::Real(0.1)));
        assert!(matches!(value("real", "-0"), Some(Value::Real(zero)) if zero.is_sign_negative()));
        assert_eq!(value("double precision", "NaN"), Some(Value::Text("NaN".to_owned())));
        assert_eq!(value("real", "-Infinity"), Some(Value::Text("-Infinity".to_owned())));
        assert_eq!(value("bytea", "\\x00Ff10"), Some(Value::Blob(vec![0, 255, 16])));
        assert_eq!(value("bytea", "\\x"), Some(Value::Blob(vec![])));
        assert_eq!(value("numeric(38,18)", "1.10"), Some(Value::Text("1.10".to_owned())));
        assert_eq!(Storage::of("text").value(None), Some(Value::Null));
        for (type_name, text) in [("bigint", "x"), ("bytea", "00"), ("bytea", "\\x0"), ("real", "")] {
            assert_eq!(value(type_name, text), None, "{type_name} {text}");
        }
    }
}
