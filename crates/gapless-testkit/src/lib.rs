//! Starts the real services that tests need, and breaks them on purpose (test only).
//!
//! [`Postgres`] is a private PostgreSQL that can be killed and brought back, [`SharedPostgres`] the one that
//! `cargo xtask test` starts for all tests, [`Gateway`] a running `gapless serve`, [`ChainNode`] a node of a chain, and [`FaultyProxy`] the network
//! between a client and it. Everything is blocking and joins what it started when dropped.
//!
//! With the feature `busy-table` there is `BusyTable`, a table while many write. It is async, as what reads such a table is.

mod anvil;
mod browser;
#[cfg(feature = "busy-table")]
mod busy_table;
mod chain_node;
mod faulty_proxy;
mod gateway;
mod polling;
mod port;
mod postgres;
mod process;
mod shared_postgres;

pub use anvil::{ANVIL_PACKAGE, GAPLESS_TEST_ANVIL, anvil_binary, anvil_command, anvil_in};
pub use browser::{
    BROWSER_PACKAGE, GAPLESS_TEST_BROWSER, browser_folder, chromium_binary, has_browser_package,
};
#[cfg(feature = "busy-table")]
pub use busy_table::{BusyTable, BusyTableConfig, TrueRow, Work, Writers};
pub use chain_node::ChainNode;
pub use faulty_proxy::{FaultyProxy, Link};
pub use gateway::{GAPLESS_BIN, Gateway, gapless_binary};
pub use polling::poll_until;
pub use port::free_port;
pub use postgres::{Postgres, PostgresBinaries};
pub use process::{is_root, peak_resident_bytes, tied_command};
pub use shared_postgres::{GAPLESS_TEST_POSTGRES, SharedPostgres};
