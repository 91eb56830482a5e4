//! A copy in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use gapless_postgres::{Connector, UrlError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use self::arrangement::arrange;
pub use self::copy::PostgresCopy;
use self::errors::Trouble;
use self::statements::{Statements, Way};
use self::writing::Prepared;
use super::page::{Page, Values};
use super::position::Position;
use super::sink::{Sink, SinkError};
use crate::quoting::qualified;
use crate::wire::{SourceName, TableDescription};

mod arrangement;
mod catalog;
mod copy;
mod copying;
mod ddl;
mod errors;
mod state;
mod statements;
mod writing;

/// A copy in PostgreSQL: a table with the source's exact types, and its position in the table `gapless_replica` beside it.
pub struct PostgresSink {
    connector: Connector,
    /// Where rows come from, for people.
    origin: String,
    into: Option<SourceName>,
    session: Option<Session>,
}

/// A connection that has the target for itself.
struct Session {
    client: Client,
    driver: JoinHandle<()>,
    name: SourceName,
    prepared: Option<Prepared>,
}

/// How connections are set: texts of values are read as a source writes them, names are never guessed, and a server notices soon when
/// this end is gone. A page is matched with the table by its key, whatever the planner thinks of tables without statistics.
const SESSION: &str = "
    SET standard_conforming_strings = on;
    SET TimeZone = 'UTC';
    SET DateStyle = 'ISO, YMD';
    SET IntervalStyle = 'postgres';
    SET lc_monetary = 'C';
    SET xmloption = 'content';
    SET search_path = '';
    SET lock_timeout = '30s';
    SET idle_in_transaction_session_timeout = '120s';
    SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SET jit = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off";

/// Ends with the session, however that ends.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended('gapless replica ' || $1, 0))";

/// How long whoever held the lock before may take to be noticed as gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

impl PostgresSink {
    /// Prepares to write into a database; nothing is asked yet. Without `into`, the table is called as at the source.
    pub fn new(url: &str, into: Option<SourceName>, origin: &str) -> Result<Self, UrlError> {
        let connector = Connector::new(url)?.writing();
        Ok(Self { connector, origin: origin.to_owned(), into, session: None })
    }

    /// A session that has the target for itself: the one there is, or another.
    async fn session(&mut self, name: &SourceName) -> Result<Session, SinkError> {
        if let Some(session) = self.session.take()
            && !session.client.is_closed()
            && session.name == *name
        {
            return Ok(session);
        }
        let (client, driver) = self.connector.connect().await.map_err(errors::sink_error)?;
        client.batch_execute(SESSION).await.map_err(errors::sink_error)?;
        let session = Session { client, driver, name: name.clone(), prepared: None };
        session.lock().await?;
        Ok(session)
    }
}

impl Session {
    async fn lock(&self) -> Result<(), SinkError> {
        let relation = qualified(&self.name.schema, &self.name.table);
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            let row = self.client.query_one(LOCK, &[&relation]).await.map_err(errors::sink_error)?;
            if row.get(0) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(SinkError::InUse(relation));
            }
            sleep(LOCK_PAUSE).await;
        }
    }

    async fn apply(&mut self, page: &Page, from: &Position, to: &Position) -> Result<(), Trouble> {
        let Self { client, prepared, .. } = self;
        let prepared = prepared.as_ref().ok_or(Trouble::Unprepared)?;
        let mut way = prepared.statements.way(&page.records, from);
        loop {
            match prepared.write(client, way, page, from, to).await {
                // Somebody else has put rows in.
                Err(Trouble::Database(error))
                    if way == Way::Straight && error.code() == Some(&SqlState::UNIQUE_VIOLATION) =>
                {
                    way = Way::Staged;
                }
                // A key comes twice, which keys that are equal without being the same may do.
                Err(Trouble::Database(error))
                    if way == Way::Staged && error.code() == Some(&SqlState::CARDINALITY_VIOLATION) =>
                {
                    way = Way::Merged;
                }
                written => return written,
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It would end by itself, once all is sent.
        self.driver.abort();
    }
}

#[async_trait]
impl Sink for PostgresSink {
    fn values(&self) -> Values {
        Values::Binary
    }

    async fn prepare(&mut self, description: &TableDescription) -> Result<Position, SinkError> {
        let name = self.into.clone().unwrap_or_else(|| description.source.clone());
        let mut session = self.session(&name).await?;
        let position = arrange(&mut session.client, &name, &self.origin, description).await?;
        let statements = Statements::new(&name, description);
        session.prepared =
            Some(Prepared::new(&session.client, statements).await.map_err(errors::sink_error)?);
        self.session = Some(session);
        Ok(position)
    }

    async fn note(&mut self, from: &Position, to: &Position) -> Result<(), SinkError> {
        let session = self.session.take();
        let mut session = session.ok_or(Trouble::Unprepared)?;
        let prepared = session.prepared.as_ref().ok_or(Trouble::Unprepared)?;
        prepared.note(&mut session.client, from, to).await?;
        self.session = Some(session);
        Ok(())
    }

    async fn apply(&mut self, page: &Page, from: &Position, to: &Position) -> Result<(), SinkError> {
        // One that fails is given up, and with it whatever it has begun.
        let mut session = self.session.take().ok_or(Trouble::Unprepared)?;
        session.apply(page, from, to).await?;
        self.session = Some(session);
        Ok(())
    }

    async fn clear(&mut self) -> Result<(), SinkError> {
        let mut session = self.session.take().ok_or(Trouble::Unprepared)?;
        state::clear(&mut session.client, &session.name).await.map_err(errors::sink_error)?;
        self.session = Some(session);
        Ok(())
    }
}
