//! Seeded simulation of whole worlds (test only).
//!
//! A world has the pure parts of gapless in it: a client `Session` on every device, a `Hub` and delivery queues in every gateway,
//! `AppendBatch` in the store. What stands around them is modelled, so that it can fail between any two steps: disks, processes,
//! the network, the news between gateways. Time is virtual and jumps to the next event; everything is drawn from one seed.
//!
//! There are two kinds of worlds. In one, users talk in conversations; in the other ([`simulate_chains`]) chains grow and are
//! reorganised, nodes lie, a follower fills the store, and clients hold what their subscriptions tell.
//!
//! [`simulate`] runs one seed and checks the guarantees after each step against a plain reference. The same seed gives the
//! same world, to the last frame. A [`Fault`] replaces one strategy by a broken one, so that the checks prove that they see.

mod agenda;
mod broken_client;
mod chains;
mod checks;
mod clock;
mod coverage;
mod device;
mod dice;
mod fault;
mod gateway_model;
mod names;
mod network;
mod plan;
mod reference;
mod report;
mod simulation;
mod store_model;
mod trace;
mod utterance;
mod violation;
mod weather;
mod words;
mod world;

pub use chains::{
    ChainCoverage, ChainFault, ChainLandmark, ChainMischief, ChainOptions, ChainOutcome, simulate_chains,
};
pub use coverage::{Coverage, Landmark, Landmarks};
pub use fault::Fault;
pub use report::{Seeded, report};
pub use simulation::{Climate, Options, Outcome, simulate};
pub use violation::{Guarantee, Violation};
pub use world::Mischief;
