//! What every store must do, as sentences; each runs on each store.
//!
//! A test is an `async fn(World)` that its module hands to [`contract!`], which makes one test a store of it. A store takes part
//! with a [`world::Database`] and one line in [`contract!`].

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

/// Makes tests of sentences: one a store.
macro_rules! contract {
    ($($sentence:ident),* $(,)?) => {
        on_store!(sqlite, crate::sqlite_file::SqliteFile::fresh(); $($sentence)*);
        on_store!(postgres, crate::postgres_database::PostgresDatabase::fresh(); $($sentence)*);
    };
}

/// Makes tests of sentences for one store, given how to get a fresh database of it.
macro_rules! on_store {
    ($store:ident, $database:expr; $($sentence:ident)*) => {
        mod $store {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $sentence() {
                    super::$sentence(crate::world::World::begin($database).await).await;
                }
            )*
        }
    };
}

mod append;
mod chain_feed;
mod chain_trims;
mod chains;
mod checks;
mod controls;
mod lifecycle;
mod lookups;
mod membership;
mod model;
mod news;
mod paging;
mod positions;
mod postgres_alone;
mod postgres_broken;
mod postgres_crash;
mod postgres_database;
mod postgres_shared;
mod sqlite_alone;
mod sqlite_crash;
mod sqlite_file;
mod trim;
mod world;
