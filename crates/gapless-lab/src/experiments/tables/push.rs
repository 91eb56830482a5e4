//! A reader that is told of each change by the database as it commits, over a connection that breaks now and then.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{self, interval_at};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};

use super::holding::{Change, Holding};
use crate::elapse::elapse;

/// How long a connection lasts.
const CONNECTED: Duration = Duration::from_secs(1);
/// How long the reader is away in between.
const AWAY: Duration = Duration::from_millis(500);
/// How many changes wait for the reader; when more do, the connection isn't read.
const WAITING_MAX: usize = 1_024;

/// Makes the database tell.
pub(super) const INSTALL: &str = "
CREATE FUNCTION orders_push() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE written orders := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    PERFORM pg_notify('orders',
        json_build_object('id', written.id, 'version', written.version, 'deleted', TG_OP = 'DELETE')::text);
    RETURN NULL;
END $$;
CREATE TRIGGER orders_push AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION orders_push();
";

pub(super) struct Push {
    url: String,
    listener: Listener,
    holding: Holding,
}

impl Push {
    pub(super) async fn connect(url: String) -> anyhow::Result<Self> {
        let listener = Listener::connect(&url).await?;
        Ok(Self { url, listener, holding: Holding::new()? })
    }

    /// Takes what it is told until it is told to finish.
    pub(super) async fn read(mut self, mut finish: watch::Receiver<bool>) -> anyhow::Result<Holding> {
        let mut breaks = interval_at(time::Instant::now() + CONNECTED, CONNECTED + AWAY);
        loop {
            tokio::select! {
                payload = self.listener.payloads.recv() => {
                    self.take(&payload.context("the database ended the connection")?)?;
                }
                _ = breaks.tick() => {
                    self.listener.close().await?;
                    elapse(AWAY).await;
                    self.listener = Listener::connect(&self.url).await?;
                }
                _ = finish.changed() => break,
            }
        }
        while let Ok(payload) = self.listener.payloads.try_recv() {
            self.take(&payload)?;
        }
        self.listener.close().await?;
        Ok(self.holding)
    }

    fn take(&mut self, payload: &str) -> anyhow::Result<()> {
        let Payload { id, version, deleted } = serde_json::from_str(payload)?;
        let change = if deleted { Change::Deleted { id } } else { Change::Written { id, version } };
        self.holding.take(change, Instant::now());
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
struct Payload {
    id: i64,
    version: i64,
    deleted: bool,
}

/// One connection that listens.
struct Listener {
    /// The connection lasts as long as this.
    _client: Client,
    payloads: mpsc::Receiver<String>,
    connection: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Listener {
    async fn connect(url: &str) -> anyhow::Result<Self> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.context("connecting to PostgreSQL")?;
        let (sender, payloads) = mpsc::channel(WAITING_MAX);
        let connection = tokio::spawn(forward(connection, sender));
        client.batch_execute("LISTEN orders").await?;
        Ok(Self { _client: client, payloads, connection })
    }

    /// Breaks it; what waits is lost.
    async fn close(&mut self) -> anyhow::Result<()> {
        self.connection.abort();
        match (&mut self.connection).await {
            Ok(ended) => Ok(ended?),
            Err(aborted) if aborted.is_cancelled() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn forward(
    mut connection: Connection<Socket, tokio_postgres::tls::NoTlsStream>,
    payloads: mpsc::Sender<String>,
) -> Result<(), tokio_postgres::Error> {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message? {
            // Nobody takes it who is about to break the connection.
            payloads.send(notification.payload().to_owned()).await.ok();
        }
    }
    Ok(())
}
