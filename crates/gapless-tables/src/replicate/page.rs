//! A page of rows as it comes over the wire.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::wire::{PageHead, RowsHead};

/// What an answer holds: the head, and behind it the rows, which are taken apart later, since only a description tells their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What is said about the page.
    pub head: PageHead,
    /// The rows as they came.
    rows: Bytes,
}

/// A page whose rows are all there and of the shape that was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What is said about it.
    pub head: PageHead,
    /// Its records.
    pub records: Records,
}

/// Records that are all there and of the shape that was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// How many records put a row in place.
    pub upserts: usize,
    /// How many records take a row away.
    pub deletes: usize,
    rows: Bytes,
    values: Values,
}

/// How the fields of a page are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// As in PostgreSQL's binary `COPY`.
    Binary,
    /// As texts.
    Text,
}

/// What a record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Puts a row in place of what is there under its key.
    Upsert,
    /// Takes away what is there under its key.
    Delete,
}

/// One record of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it does.
    pub op: Op,
    /// Its fields, each a length and the bytes.
    fields: &'a [u8],
}

/// An answer isn't a page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It ends too early, as when the network is cut.
    #[error("the page ends in the middle")]
    Cut,
    /// It goes on behind its end.
    #[error("the page goes on behind its last record")]
    TooLong,
    /// The head can't be read.
    #[error("the head of the page can't be read; is that a gapless server?")]
    Head,
    /// A record doesn't have the fields that the table's description tells.
    #[error("record {index} of the page has {found} fields and {expected} were expected")]
    Fields {
        /// Which record, from 0.
        index: usize,
        /// How many it has.
        found: i64,
        /// How many it should have.
        expected: usize,
    },
    /// A record says neither that it is an upsert nor a delete.
    #[error("record {index} of the page has an unknown op; update this program")]
    Op {
        /// Which record, from 0.
        index: usize,
    },
}

const LENGTH_BYTES: usize = 4;

impl Answer {
    /// Reads the head of an answer.
    pub fn parse(bytes: Bytes) -> Result<Self, PageError> {
        let (head, rows) = split(bytes)?;
        Ok(Self { head, rows })
    }
}

impl Page {
    /// Makes sure that all records are there, with as many fields as there are columns, and the op before them.
    pub fn new(answer: Answer, columns: usize, values: Values) -> Result<Self, PageError> {
        let Answer { head, rows } = answer;
        let records = Records::new(rows, head.records, columns, values)?;
        Ok(Self { head, records })
    }
}

impl Records {
    /// Reads an answer that isn't a page but has records of some keys.
    pub fn of_keys(bytes: Bytes, columns: usize, values: Values) -> Result<(RowsHead, Self), PageError> {
        let (head, rows): (RowsHead, Bytes) = split(bytes)?;
        let records = Self::new(rows, head.records, columns, values)?;
        Ok((head, records))
    }

    fn new(rows: Bytes, count: usize, columns: usize, values: Values) -> Result<Self, PageError> {
        let (mut upserts, mut deletes) = (0, 0);
        let mut rest = &rows[..];
        for index in 0..count {
            match read_record(&mut rest, index, columns, values)?.op {
                Op::Upsert => upserts += 1,
                Op::Delete => deletes += 1,
            }
        }
        if !rest.is_empty() {
            return Err(PageError::TooLong);
        }
        Ok(Self { upserts, deletes, rows, values })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.upserts + self.deletes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows as they came: the tuples of a `COPY` whose first field is the op.
    pub fn bytes(&self) -> &Bytes {
        &self.rows
    }

    /// The records in their order.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let (mut rest, mut index) = (&self.rows[..], 0);
        std::iter::from_fn(move || {
            let fields = usize::from(u16::from_be_bytes(*rest.first_chunk()?)).checked_sub(1)?;
            let record = read_record(&mut rest, index, fields, self.values).ok()?;
            index += 1;
            Some(record)
        })
    }
}

/// The head of an answer, and what is behind it.
fn split<T: DeserializeOwned>(mut bytes: Bytes) -> Result<(T, Bytes), PageError> {
    let (length, _) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or(PageError::Cut)?;
    let end = LENGTH_BYTES
        .checked_add(usize::try_from(u32::from_be_bytes(*length)).map_err(|_| PageError::Head)?)
        .ok_or(PageError::Head)?;
    if bytes.len() < end {
        return Err(PageError::Cut);
    }
    let head = bytes.split_to(end).split_off(LENGTH_BYTES);
    let head = serde_json::from_slice(&head).map_err(|_| PageError::Head)?;
    Ok((head, bytes))
}

impl<'a> Record<'a> {
    /// The fields behind the op, each with its length before it.
    pub fn encoded_fields(&self) -> &'a [u8] {
        self.fields
    }

    /// The values of the columns in their order; `None` is NULL.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut rest = self.fields;
        std::iter::from_fn(move || read_field(&mut rest).ok())
    }
}

fn read_record<'a>(
    rest: &mut &'a [u8],
    index: usize,
    columns: usize,
    values: Values,
) -> Result<Record<'a>, PageError> {
    let (count, behind) = rest.split_first_chunk::<2>().ok_or(PageError::Cut)?;
    let found = i64::from(i16::from_be_bytes(*count));
    if usize::try_from(found) != Ok(columns + 1) {
        return Err(PageError::Fields { index, found, expected: columns + 1 });
    }
    *rest = behind;
    let op = op(read_field(rest)?, values).ok_or(PageError::Op { index })?;
    let begin = *rest;
    for _ in 0..columns {
        read_field(rest)?;
    }
    Ok(Record { op, fields: &begin[..begin.len() - rest.len()] })
}

fn read_field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, PageError> {
    let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(PageError::Cut)?;
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        *rest = behind;
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| PageError::Cut)?;
    let (value, behind) = behind.split_at_checked(length).ok_or(PageError::Cut)?;
    *rest = behind;
    Ok(Some(value))
}

fn op(field: Option<&[u8]>, values: Values) -> Option<Op> {
    match (field?, values) {
        (b"\0\0", Values::Binary) | (b"0", Values::Text) => Some(Op::Upsert),
        (b"\0\x01", Values::Binary) | (b"1", Values::Text) => Some(Op::Delete),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
