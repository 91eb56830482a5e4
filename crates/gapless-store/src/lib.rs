//! The source of truth: feeds and entries in SQLite or PostgreSQL.
//!
//! [`Store`] says what a store must do and when; both stores run the same contract suite (`tests/contract`). Everything that a
//! gateway pushes or answers comes from here, and only this crate knows SQL.

mod chain_store;
mod commit_queue;
mod error;
#[doc(hidden)]
pub mod measured;
mod news;
mod open;
mod postgres;
mod sqlite;
mod store;

pub use chain_store::{
    CHAIN_ENTRIES_MAX, CHAIN_SLICE_BYTES_MAX, CHAIN_VALUES_MAX, ChainInfo, ChainLogRequest, ChainNews,
    ChainSlice, ChainStore, ChainValues, ChainValuesRequest, INGESTION_BLOCKS_MAX, IngestError, Ingested,
    Ingestion, KeptBlock, Rewound,
};
pub use commit_queue::Generation;
pub use error::{AppendError, CreateError, OpenError, PageError, StoreError};
pub use news::{CommitNews, News, NewsReceiver};
pub use open::{Migrated, PostgresUrl, StoreUrl, StoreUrlError, migrate, open};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use store::{
    Creation, FeedHead, FeedInfo, LogSlice, Membership, PAGE_ENTRIES_DEFAULT, PAGE_ENTRIES_MAX, PageRequest,
    Reader, Store, TrimmedTo,
};
