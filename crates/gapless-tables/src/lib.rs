//! Rows of a live database, read by the compound cursor, and copies of them.
//!
//! [`Source`] reads a table page by page so that no change is missed, however late it is committed; what that takes is decided by
//! [`gapless_core::TableCursor`].

mod digest;
mod health;
mod quoting;
pub mod replicate;
mod served;
mod source;
pub mod verify;
mod wire;

pub use gapless_postgres::Bell;
pub use served::{DeclaredTables, Served, Tables, TablesError};
pub use source::install::{Lack, install, lacks, uninstall};
pub use source::purge::{Purged, purge};
pub use source::{
    Change, Changes, CursorError, CursorKeys, Form, KeyedRows, Moment, OpenError, PAGE_ROWS_MAX, Page,
    PageRequest, SetupError, Source, SourceError, TableConfig,
};
pub use wire::{
    BINARY_ROWS, Column, Consistency, CustomType, Deletes, KeyRange, NDJSON, PageHead, RangeDigest,
    RowDigest, RowsHead, SourceName, TEXT_ROWS, TableDescription,
};
