//! Rows of a live database, read by the compound cursor.

mod wire;

pub use wire::{
    BINARY_ROWS, Column, Consistency, CustomType, Deletes, NDJSON, PageHead, SourceName, TEXT_ROWS,
    TableDescription,
};
