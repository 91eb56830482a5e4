//! Worlds of chains: blocks come and go, nodes lie, a follower hands them to a store, gateways tell clients.
//!
//! The pure parts are the real ones: what the follower decides (`gapless-chain`), what a block does to a feed and what a subscriber is told
//! next (`gapless-core`), the client's session and fold (`gapless-client`). Clock, dice, agenda, network and weather are those of the worlds
//! of conversations.

mod contracts;
mod coverage;
mod errand;
mod fault;
mod feed_model;
mod follower_model;
mod gateway_model;
mod holder;
mod miner;
mod node_model;
mod reader;
mod reality;
mod record;
mod simulation;
mod world;

pub use coverage::{ChainCoverage, ChainLandmark};
pub use fault::ChainFault;
pub use simulation::{ChainOptions, ChainOutcome, simulate_chains};
pub use world::ChainMischief;
