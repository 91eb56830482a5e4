//! A table, and pages of it, as a source would send them.

use gapless_tables::replicate::{Answer, Page, Position, Values};
use gapless_tables::{Column, Consistency, Deletes, PageHead, SourceName, TableDescription};

/// What a record does to a key.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Put(&'static str, &'static str),
    Delete(&'static str),
}

/// A table of amounts by a number; all values come as texts.
pub(crate) fn amounts() -> TableDescription {
    TableDescription {
        table: "amounts".to_owned(),
        source: SourceName { schema: "public".to_owned(), table: "amounts".to_owned() },
        consistency: Consistency::Strict,
        deletes: Deletes::Tombstones,
        schema_version: "1".to_owned(),
        cursor_column: "updated_at".to_owned(),
        key: vec!["id".to_owned()],
        loose_key: Vec::new(),
        columns: vec![column("id", "bigint", true), column("note", "text", false)],
        types: Vec::new(),
        rows_estimate: None,
    }
}

pub(crate) fn column(name: &str, type_name: &str, not_null: bool) -> Column {
    let (name, type_name) = (name.to_owned(), type_name.to_owned());
    Column { name, type_name, binary: false, not_null, collation: None }
}

/// A page that leads to a cursor.
pub(crate) fn page(values: Values, cursor: &str, has_more: bool, changes: &[Change]) -> Page {
    let rows = changes.iter().map(|change| match change {
        Change::Put(id, note) => (false, vec![Some(id.as_bytes()), Some(note.as_bytes())]),
        Change::Delete(id) => (true, vec![Some(id.as_bytes()), None]),
    });
    page_of(values, cursor, has_more, &rows.collect::<Vec<_>>())
}

/// A page of rows: whether each is deleted, and its fields.
pub(crate) fn page_of(
    values: Values,
    cursor: &str,
    has_more: bool,
    rows: &[(bool, Vec<Option<&[u8]>>)],
) -> Page {
    let head = PageHead {
        records: rows.len(),
        has_more,
        next_cursor: cursor.to_owned(),
        consistency: Consistency::Strict,
        lag_ms: 0,
        held_by: None,
        schema_version: "1".to_owned(),
    };
    let head = serde_json::to_vec(&head).unwrap();
    let mut bytes = u32::try_from(head.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(head);
    for (is_delete, fields) in rows {
        let op: &[u8] = match (values, is_delete) {
            (Values::Binary, false) => &[0, 0],
            (Values::Binary, true) => &[0, 1],
            (Values::Text, false) => b"0",
            (Values::Text, true) => b"1",
        };
        bytes.extend(i16::try_from(fields.len() + 1).unwrap().to_be_bytes());
        for field in [Some(op)].iter().chain(fields) {
            bytes.extend(field.map_or(-1, |field| i32::try_from(field.len()).unwrap()).to_be_bytes());
            bytes.extend(field.unwrap_or_default());
        }
    }
    let columns = rows.first().map_or(0, |(_, fields)| fields.len());
    Page::new(Answer::parse(bytes.into()).unwrap(), columns, values).unwrap()
}

/// Where a copy is at a cursor.
pub(crate) fn at(cursor: &str) -> Position {
    Position { cursor: Some(cursor.to_owned()), ..Position::default() }
}
