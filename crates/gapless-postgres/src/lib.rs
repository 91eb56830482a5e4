//! Connections to PostgreSQL: encrypted where asked for, found dead in time, and driven by a task of their own.

mod connector;
mod tls;

pub use connector::{Bell, CONNECT_PATIENCE, Connector, Parts, UrlError};
