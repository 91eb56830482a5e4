//! Names as they stand in SQL.

/// A name that may have any characters.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table or type of a schema.
pub(crate) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

/// A text that may have any characters.
pub(crate) fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "''");
    format!("E'{escaped}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(qualified("Shop", "my \"orders\""), r#""Shop"."my ""orders""""#);
        assert_eq!(literal(r"it's \"), r"E'it''s \\'");
    }
}
