//! Makes connections from a URL.

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tracing::debug;

use crate::tls::Rustls;

/// How long connecting may take, the handshakes included.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A connection's handle, and the task that runs it; the handle's end is the task's.
pub type Parts = (Client, JoinHandle<()>);

/// Hears what is announced on a channel. Dropped, it ends its connection.
pub struct Bell {
    rung: watch::Receiver<()>,
    _client: Client,
}

/// A URL can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It can't be read.
    #[error("the URL can't be read: {0}")]
    Url(#[from] tokio_postgres::Error),
    /// Encryption was asked for and can't be set up.
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Makes connections.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    tls: Option<Rustls>,
}

impl Connector {
    /// Reads a URL of PostgreSQL. With `sslmode=require` connections are encrypted and the server's certificate is checked; else
    /// they are plain.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        let mut config: Config = url.parse()?;
        let tls = if config.get_ssl_mode() == SslMode::Require { Some(Rustls::new()?) } else { None };
        if config.get_application_name().is_none() {
            config.application_name("gapless");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_PATIENCE);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(15));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(Duration::from_secs(10));
            config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        }
        Ok(Self { config, tls })
    }

    /// Takes only servers that can be written to, where several are named.
    #[must_use]
    pub fn writing(mut self) -> Self {
        self.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        self
    }

    /// The name of the database; PostgreSQL takes the user's when none is given.
    pub fn database(&self) -> String {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default().to_owned()
    }

    /// Connects.
    pub async fn connect(&self) -> Result<Parts, tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Ok((client, drive(connection, None)))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, drive(connection, None)))
            }
        }
    }

    /// Connects to listen to a channel, whose name is a plain word.
    pub async fn listen(&self, channel: &str) -> Result<Bell, tokio_postgres::Error> {
        let (sender, rung) = watch::channel(());
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                drive(connection, Some(sender));
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                drive(connection, Some(sender));
                client
            }
        };
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        Ok(Bell { rung, _client: client })
    }
}

impl Bell {
    /// Waits until something was announced since the last time, however often. False when the connection has ended, so that nothing is
    /// announced any more.
    pub async fn rung(&mut self) -> bool {
        self.rung.changed().await.is_ok()
    }
}

/// Runs a connection until its client is dropped or it breaks; rings with each notification.
fn drive<S, T>(mut connection: Connection<S, T>, bell: Option<watch::Sender<()>>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsStream + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match (message, &bell) {
                (Ok(AsyncMessage::Notification(_)), Some(bell)) => bell.send_replace(()),
                (Ok(AsyncMessage::Notice(notice)), _) => debug!(notice = notice.message(), "PostgreSQL says"),
                (Ok(_), _) => {}
                (Err(error), _) => {
                    debug!(error = &error as &dyn std::error::Error, "connection to PostgreSQL broke");
                    return;
                }
            }
        }
    })
}
