//! A lane's connection, made again whenever it broke.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio::time::{Instant, timeout};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Statement};

use super::columns::Params;
use super::connection::{CONNECT_PATIENCE, Connector};
use super::fault::Fault;
use super::statements::Statements;

/// How long opening a transaction may take; more than the wait for a lock, so that the database gives up first.
pub(super) const LOCKED_PATIENCE: Duration = Duration::from_secs(6);
/// How long writing and committing may take.
pub(super) const WRITTEN_PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a failed attempt to connect; doubled by each further one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A connection on which the statements are prepared.
///
/// Its methods send at the first poll, so what is joined is sent in that order before any of it is answered.
pub(super) struct Session {
    client: ClientWrapper,
    pub(super) statements: Statements,
}

impl Session {
    /// Sends a command without parameters.
    pub(super) async fn command(&self, command: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(command).await
    }

    /// Sends a statement for its rows.
    pub(super) async fn query<const COLUMNS: usize>(
        &self,
        statement: &Statement,
        params: Params<'_, COLUMNS>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.client.query(statement, &params).await
    }

    /// Sends a statement that is prepared when it is first needed, for its rows.
    pub(super) async fn rows<const COLUMNS: usize>(
        &self,
        statement: &str,
        params: Params<'_, COLUMNS>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.client.query(&self.client.prepare_cached(statement).await?, &params).await
    }

    /// The same for its effect.
    pub(super) async fn run<const COLUMNS: usize>(
        &self,
        statement: &str,
        params: Params<'_, COLUMNS>,
    ) -> Result<u64, tokio_postgres::Error> {
        self.client.execute(&self.client.prepare_cached(statement).await?, &params).await
    }

    /// Sends a statement for its effect.
    pub(super) async fn execute<const COLUMNS: usize>(
        &self,
        statement: &Statement,
        params: Params<'_, COLUMNS>,
    ) -> Result<u64, tokio_postgres::Error> {
        self.client.execute(statement, &params).await
    }

    /// Writes rows by a `COPY … FROM STDIN (FORMAT binary)`: for many rows that costs the database less than an insert, for few more, since
    /// it takes an answer before.
    pub(super) async fn copy<'rows, const COLUMNS: usize>(
        &self,
        copy: &Statement,
        types: &[Type; COLUMNS],
        rows: impl Iterator<Item = Params<'rows, COLUMNS>>,
    ) -> Result<u64, tokio_postgres::Error> {
        let mut writer = pin!(BinaryCopyInWriter::new(self.client.copy_in(copy).await?, types));
        for row in rows {
            writer.as_mut().write(&row).await?;
        }
        writer.finish().await
    }

    /// A statement that is prepared when it is first needed. What is sent together needs that done before, since it takes an answer.
    pub(super) async fn prepared(&self, statement: &str) -> Result<Statement, tokio_postgres::Error> {
        self.client.prepare_cached(statement).await
    }
}

/// A lane's connection.
///
/// It is made when it is needed. While the database can't be reached, attempts are spaced out, and what asks in between
/// is told so at once.
pub(super) struct Link {
    connector: Connector,
    state: State,
    /// How the last attempt to connect failed, if one did.
    last_failure: Arc<str>,
}

enum State {
    Up(Box<Session>),
    Down { failures: u32, retry_at: Instant },
}

impl Link {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, state: down_since_now(), last_failure: Arc::default() }
    }

    /// The session; connects if there is none.
    pub(super) async fn session(&mut self) -> Result<&Session, Fault> {
        if let State::Up(session) = &self.state
            && session.client.is_closed()
        {
            self.state = down_since_now();
        }
        if let State::Down { failures, retry_at } = self.state {
            if Instant::now() < retry_at {
                return Err(self.backing_off());
            }
            match self.connect().await {
                Ok(session) => self.state = State::Up(Box::new(session)),
                Err(fault) => {
                    self.last_failure = fault.words().into();
                    self.state = State::Down {
                        failures: failures.saturating_add(1),
                        retry_at: Instant::now() + pause_after(failures),
                    };
                    return Err(fault);
                }
            }
        }
        match &self.state {
            State::Up(session) => Ok(session),
            State::Down { .. } => Err(self.backing_off()),
        }
    }

    /// Ends the session, with whatever transaction is open in it.
    pub(super) fn hang_up(&mut self) {
        self.state = down_since_now();
    }

    fn backing_off(&self) -> Fault {
        Fault::BackingOff { last: Arc::clone(&self.last_failure) }
    }

    async fn connect(&self) -> Result<Session, Fault> {
        let connecting = async {
            let (client, driver) = self.connector.connect().await?;
            let client = ClientWrapper::new(client, driver);
            let statements = Statements::prepare(&client).await?;
            Ok(Session { client, statements })
        };
        timeout(CONNECT_PATIENCE, connecting)
            .await
            .map_err(|_| Fault::Silent(CONNECT_PATIENCE))?
            .map_err(Fault::Connecting)
    }
}

fn down_since_now() -> State {
    State::Down { failures: 0, retry_at: Instant::now() }
}

fn pause_after(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.min(8)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let pauses: Vec<_> = [0, 1, 2, 40].map(pause_after).map(|pause| pause.as_millis()).into();
        assert_eq!(pauses, [100, 200, 400, 2_000]);
    }
}
