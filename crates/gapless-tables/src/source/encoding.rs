//! How a page's rows are written.

use tokio_postgres::Row;

use super::raw::Raw;
use super::statements::{LEADING, Values};
use crate::wire::Column;

/// The form of a page's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON records, with commas between them.
    Json,
    /// JSON records, each on a line.
    Lines,
    /// The tuples of a binary `COPY`.
    Binary,
    /// The same with the texts of all values.
    Text,
}

/// Writes rows, one after the other.
pub(crate) struct Encoder<'a> {
    form: Form,
    columns: &'a [Column],
    /// Which of the columns are the key's.
    is_key: Vec<bool>,
    /// Where the columns begin in a row of the statement.
    first: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Form {
    pub(crate) fn values(self) -> Values {
        match self {
            Self::Binary => Values::Binary,
            Self::Json | Self::Lines | Self::Text => Values::Text,
        }
    }
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(form: Form, columns: &'a [Column], key: &[Column]) -> Self {
        Self { first: LEADING + key.len(), ..Self::of_keys(form, columns, key) }
    }

    /// Of rows that have only their op before the columns.
    pub(crate) fn of_keys(form: Form, columns: &'a [Column], key: &[Column]) -> Self {
        let is_key = columns.iter().map(|column| key.iter().any(|key| key.name == column.name)).collect();
        Self { form, columns, is_key, first: 1, bytes: Vec::new() }
    }

    /// The form of the rows.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Writes a row; `is_delete` is what its op says.
    pub(crate) fn write(&mut self, row: &Row, is_delete: bool) -> Result<(), tokio_postgres::Error> {
        match self.form {
            Form::Binary => self.tuple(row, &u16::from(is_delete).to_be_bytes()),
            Form::Text => self.tuple(row, if is_delete { b"1" } else { b"0" }),
            Form::Json => {
                if !self.bytes.is_empty() {
                    self.bytes.push(b',');
                }
                self.record(row, is_delete)
            }
            Form::Lines => {
                self.record(row, is_delete)?;
                self.bytes.push(b'\n');
                Ok(())
            }
        }
    }

    fn tuple(&mut self, row: &Row, op: &[u8]) -> Result<(), tokio_postgres::Error> {
        self.count_fields();
        self.field(Some(op));
        for index in 0..self.columns.len() {
            let Raw(value) = row.try_get(self.first + index)?;
            self.field(value);
        }
        Ok(())
    }

    fn count_fields(&mut self) {
        let fields = i16::try_from(1 + self.columns.len()).expect("a table has at most 1,600 columns");
        self.bytes.extend(fields.to_be_bytes());
    }

    fn field(&mut self, value: Option<&[u8]>) {
        let length =
            value.map_or(-1, |value| i32::try_from(value.len()).expect("a value has less than a gigabyte"));
        self.bytes.extend(length.to_be_bytes());
        self.bytes.extend(value.unwrap_or_default());
    }

    fn record(&mut self, row: &Row, is_delete: bool) -> Result<(), tokio_postgres::Error> {
        let opening: &[u8] =
            if is_delete { br#"{"op":"delete","key":{"# } else { br#"{"op":"upsert","row":{"# };
        self.bytes.extend(opening);
        let mut is_first = true;
        for (index, column) in self.columns.iter().enumerate() {
            if is_delete && !self.is_key[index] {
                continue;
            }
            if !is_first {
                self.bytes.push(b',');
            }
            is_first = false;
            self.text(&column.name);
            self.bytes.push(b':');
            let value: Option<&str> = row.try_get(self.first + index)?;
            self.value(column, value);
        }
        self.bytes.extend(b"}}");
        Ok(())
    }

    fn value(&mut self, column: &Column, value: Option<&str>) {
        let Some(value) = value else { return self.bytes.extend(b"null") };
        match column.type_name.as_str() {
            "boolean" => self.bytes.extend(if value == "true" { b"true".as_slice() } else { b"false" }),
            "json" | "jsonb" => self.json(value),
            "smallint" | "integer" => self.bytes.extend(value.as_bytes()),
            "real" | "double precision" if !matches!(value, "NaN" | "Infinity" | "-Infinity") => {
                self.bytes.extend(value.as_bytes());
            }
            _ => self.text(value),
        }
    }

    /// JSON as it is; but a record that has to fit on one line has spaces for the breaks, which can't be in its texts.
    fn json(&mut self, value: &str) {
        let start = self.bytes.len();
        self.bytes.extend(value.as_bytes());
        if self.form == Form::Lines {
            self.bytes[start..]
                .iter_mut()
                .filter(|byte| matches!(byte, b'\n' | b'\r'))
                .for_each(|byte| *byte = b' ');
        }
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.bytes, text).expect("a text is always JSON");
    }
}
