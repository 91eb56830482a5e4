//! Fills a copy of a table, and keeps it equal.
//!
//! [`Replicator`] asks a server for pages and hands them to a [`Sink`], which writes each page and the position behind it in one
//! transaction. What decides is pure: [`Position`] is how far a copy is, `plan` is what a target lacks, [`Page`] is what came over the wire.

mod kept;
mod page;
mod plan;
mod position;
mod postgres_sink;
mod report;
mod run;
mod sink;
mod source_client;
mod source_fault;
mod sqlite_sink;

pub use page::{Answer, Op, Page, PageError, Record, Records, Values};
pub use plan::Misfit;
pub use position::{Position, Replay};
pub use postgres_sink::PostgresCopy;
pub use postgres_sink::PostgresSink;
pub use report::{Report, Side};
pub use run::{Fault, ReplicaConfig, Replicator, RunError};
pub use sink::{Sink, SinkError};
pub use source_client::{Question, Reader, SourceClient};
pub use source_fault::SourceFault;
pub use sqlite_sink::SqliteCopy;
pub use sqlite_sink::{SqliteFile, SqliteSink};
