//! How a page's rows are written.

use tokio_postgres::Row;

use super::SourceError;
use super::raw::Raw;
use super::statements::{LEADING, Values};
use super::texts::Native;
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
    fields: Vec<Field<'a>>,
    /// Where the columns begin in a row of the statement.
    first: usize,
    pub(crate) bytes: Vec<u8>,
}

/// How the values of a column are written.
struct Field<'a> {
    column: &'a Column,
    /// Its name as JSON, with the colon behind it.
    name: Vec<u8>,
    is_key: bool,
    /// Its type, if what the statement gives is the binary form and not the text.
    native: Option<Native>,
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
        let fields = columns.iter().map(|column| {
            let mut name = Vec::new();
            write_text(&column.name, &mut name);
            name.push(b':');
            let is_key = key.iter().any(|key| key.name == column.name);
            Field { column, name, is_key, native: Native::of(column) }
        });
        Self { form, fields: fields.collect(), first: 1, bytes: Vec::new() }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Writes a row; `is_delete` is what its op says.
    pub(crate) fn write(&mut self, row: &Row, is_delete: bool) -> Result<(), SourceError> {
        match self.form {
            Form::Binary => self.tuple(row, &u16::from(is_delete).to_be_bytes()),
            Form::Text => self.texts(row, if is_delete { b"1" } else { b"0" }),
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

    fn tuple(&mut self, row: &Row, op: &[u8]) -> Result<(), SourceError> {
        self.begin(op);
        for index in 0..self.fields.len() {
            let Raw(value) = row.try_get(self.first + index)?;
            self.bytes.extend(value.map_or(NO_VALUE, |value| length(value.len())));
            self.bytes.extend(value.unwrap_or_default());
        }
        Ok(())
    }

    fn texts(&mut self, row: &Row, op: &[u8]) -> Result<(), SourceError> {
        self.begin(op);
        for (index, field) in self.fields.iter().enumerate() {
            let Raw(value) = row.try_get(self.first + index)?;
            let start = self.bytes.len();
            self.bytes.extend(value.map_or(NO_VALUE, |value| length(value.len())));
            match (value, field.native) {
                (None, _) => {}
                (Some(value), None) => self.bytes.extend(value),
                (Some(value), Some(native)) => {
                    let begin = self.bytes.len();
                    native.write(value, &mut self.bytes).ok_or_else(|| field.unreadable())?;
                    let length = length(self.bytes.len() - begin);
                    self.bytes[start..begin].copy_from_slice(&length);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, op: &[u8]) {
        let fields = i16::try_from(1 + self.fields.len()).expect("a table has at most 1,600 columns");
        self.bytes.extend(fields.to_be_bytes());
        self.bytes.extend(length(op.len()));
        self.bytes.extend(op);
    }

    fn record(&mut self, row: &Row, is_delete: bool) -> Result<(), SourceError> {
        let opening: &[u8] =
            if is_delete { br#"{"op":"delete","key":{"# } else { br#"{"op":"upsert","row":{"# };
        self.bytes.extend(opening);
        let is_line = self.form == Form::Lines;
        let mut is_first = true;
        for (index, field) in self.fields.iter().enumerate() {
            if is_delete && !field.is_key {
                continue;
            }
            if !is_first {
                self.bytes.push(b',');
            }
            is_first = false;
            self.bytes.extend(&field.name);
            let column = self.first + index;
            match field.native {
                Some(native) => {
                    let Raw(value) = row.try_get(column)?;
                    match value {
                        None => self.bytes.extend(b"null"),
                        Some(value) => write_json(native, value, is_line, &mut self.bytes)
                            .ok_or_else(|| field.unreadable())?,
                    }
                }
                None => match row.try_get(column)? {
                    None => self.bytes.extend(b"null"),
                    Some(text) if field.is_number(text) => self.bytes.extend(text.as_bytes()),
                    Some(text) => write_text(text, &mut self.bytes),
                },
            }
        }
        self.bytes.extend(b"}}");
        Ok(())
    }
}

impl Field<'_> {
    /// Whether a text of PostgreSQL's is a number of JSON.
    fn is_number(&self, text: &str) -> bool {
        matches!(self.column.type_name.as_str(), "real" | "double precision")
            && !matches!(text, "NaN" | "Infinity" | "-Infinity")
    }

    fn unreadable(&self) -> SourceError {
        SourceError::Unavailable(format!(
            "a value of column {} isn't one of its type, {}",
            self.column.name, self.column.type_name
        ))
    }
}

/// Writes a binary value as JSON; `None` if it isn't one of its type.
fn write_json(native: Native, value: &[u8], is_line: bool, out: &mut Vec<u8>) -> Option<()> {
    match native {
        Native::Boolean | Native::Smallint | Native::Integer => native.write(value, out),
        Native::Bigint
        | Native::Numeric
        | Native::Uuid
        | Native::Date
        | Native::Timestamp
        | Native::Timestamptz => {
            // None of these has what would have to be escaped.
            out.push(b'"');
            native.write(value, out)?;
            out.push(b'"');
            Some(())
        }
        Native::Text => {
            write_text(std::str::from_utf8(value).ok()?, out);
            Some(())
        }
        Native::Json | Native::Jsonb => {
            let start = out.len();
            std::str::from_utf8(value).ok()?;
            native.write(value, out)?;
            // A record that has to fit on one line has spaces for the breaks, which can't be in its texts.
            if is_line {
                let breaks = out[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
                breaks.for_each(|byte| *byte = b' ');
            }
            Some(())
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a text is always JSON");
}

/// The length of NULL.
const NO_VALUE: [u8; 4] = (-1_i32).to_be_bytes();

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).expect("a value has less than a gigabyte").to_be_bytes()
}
