//! What the benchmarks hold the stores against, so that they needn't keep a copy.

pub use crate::postgres::{CHAIN_LOG, CHAIN_LOG_SEQ};
