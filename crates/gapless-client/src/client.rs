//! The handle that an application holds.

use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gapless_proto::{Body, ConvId, Key, Seq};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time;

use crate::shell::{Request, Shell};
use crate::{
    ClientEvent, Credentials, Delivered, LocalState, OutboxId, RefusedSend, SendError, ServerUrl, Session,
    SessionConfig, StopReason, Topics, TopicsId, WatchError,
};

/// What a [`Client`] needs to know.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Where the server is.
    pub url: ServerUrl,
    /// Who the client is.
    pub credentials: Credentials,
    /// Bounds and times.
    pub session: SessionConfig,
    /// How many events may wait for the application. While they do, nothing more is read from the server.
    pub events_max: usize,
}

/// How many calls may wait for the client's task.
const REQUESTS_MAX: usize = 64;

impl ClientConfig {
    /// The usual bounds and times.
    pub fn new(url: ServerUrl, credentials: Credentials) -> Self {
        Self { url, credentials, session: SessionConfig::default(), events_max: 256 }
    }
}

/// A client that keeps itself connected and loses nothing.
///
/// One task does all the work and ends with [`Self::close`], or soon after the handle is dropped.
///
/// - Sends of one client are stored in the order of the calls, however often the connection fails.
/// - An application that doesn't take its [`Events`] slows the server down; after 35 s it loses the connection, never an entry.
#[derive(Debug)]
pub struct Client {
    requests: mpsc::Sender<Request>,
    task: JoinHandle<StopReason>,
}

/// What happens at a [`Client`], in order.
#[derive(Debug)]
pub struct Events(mpsc::Receiver<ClientEvent>);

/// A message that waits for the server's answer. Await it for the answer, or drop it: the message is sent all the same.
#[derive(Debug)]
pub struct SendTicket {
    /// The message's number in the outbox.
    pub id: OutboxId,
    /// The name under which it is stored once.
    pub key: Key,
    answer: oneshot::Receiver<Result<Delivered, RefusedSend>>,
}

/// Why a message isn't sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The server won't take it, however often it is sent.
    #[error(transparent)]
    Refused(#[from] RefusedSend),
    /// The client ended before the answer. If its local state is durable, the next client with that state sends it.
    #[error("the client stopped before the message {key} was answered; it is still in the outbox")]
    Stopped {
        /// The message's name.
        key: Key,
    },
}

impl Client {
    /// Reads the local state and starts to connect. It needs a tokio runtime.
    pub async fn start<S: LocalState>(
        config: ClientConfig,
        mut state: S,
    ) -> Result<(Self, Events), S::Error> {
        let snapshot = state.load().await?;
        let mut session_config = config.session;
        session_config.token_is_renewable = match &config.credentials {
            Credentials::Open { .. } => false,
            Credentials::Token(source) => source.is_renewable(),
        };
        let now = time::Instant::now().into_std();
        let session = Session::new(session_config, snapshot, rand::random(), now);

        let (requests, requests_of_shell) = mpsc::channel(REQUESTS_MAX);
        let (events_of_shell, events) = mpsc::channel(config.events_max.max(1));
        let shell =
            Shell::new(session, state, config.url, config.credentials, requests_of_shell, events_of_shell);
        let task = tokio::spawn(shell.run());
        Ok((Self { requests, task }, Events(events)))
    }

    /// Sends a message under a random key. Returns when it is in the outbox; await the ticket for the answer.
    pub async fn send(&self, conv: &ConvId, body: Body) -> Result<SendTicket, SendError> {
        self.send_with_key(conv, random_key(), body).await
    }

    /// Sends a message under a key of the application's own. The same key in the same conversation is stored once, whichever
    /// client, process or device sends it for the user.
    pub async fn send_with_key(&self, conv: &ConvId, key: Key, body: Body) -> Result<SendTicket, SendError> {
        let (accepted, is_accepted) = oneshot::channel();
        let (answered, answer) = oneshot::channel();
        let request = Request::Send { conv: conv.clone(), key: key.clone(), body, accepted, answered };
        self.requests.send(request).await.map_err(|_| SendError::Stopped)?;
        let id = is_accepted.await.map_err(|_| SendError::Stopped)??;
        Ok(SendTicket { id, key, answer })
    }

    /// Follows a conversation from where the local state is, or from its beginning.
    pub async fn watch(&self, conv: &ConvId) -> Result<(), WatchError> {
        self.watch_after(conv, Seq::ZERO).await
    }

    /// Follows a conversation from where the local state is, or, if that knows nothing of it, after a seq.
    pub async fn watch_after(&self, conv: &ConvId, start: Seq) -> Result<(), WatchError> {
        let (done, is_done) = oneshot::channel();
        let request = Request::Watch { conv: conv.clone(), start, done };
        self.requests.send(request).await.map_err(|_| WatchError::Stopped)?;
        is_done.await.map_err(|_| WatchError::Stopped)?
    }

    /// Follows topics of a chain; what happens to the subscription is told as [`ClientEvent::Topics`]. It is kept in memory: an application
    /// that wants to go on later keeps the cursor together with what it made of the events.
    pub async fn subscribe(&self, topics: Topics) -> Result<TopicsId, WatchError> {
        let (done, is_done) = oneshot::channel();
        self.requests.send(Request::Subscribe { topics, done }).await.map_err(|_| WatchError::Stopped)?;
        is_done.await.map_err(|_| WatchError::Stopped)
    }

    /// Ends the client and waits until it has ended. Events that weren't taken are dropped; unanswered messages stay in
    /// the local state.
    pub async fn close(self) -> StopReason {
        let Self { requests, task } = self;
        drop(requests);
        match task.await {
            Ok(reason) => reason,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Only the end of the runtime cancels it.
            Err(_) => StopReason::Requested,
        }
    }
}

/// A key that nobody else has.
pub fn random_key() -> Key {
    let random = format!("{:032x}", rand::random::<u128>());
    Key::new(&random).expect("hexadecimal digits are a key")
}

impl Events {
    /// The next event; `None` after [`ClientEvent::Stopped`]. Nothing is lost if it is dropped before it is done.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        self.0.recv().await
    }
}

impl IntoFuture for SendTicket {
    type Output = Result<Delivered, TicketError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { key, answer, .. } = self;
        async move {
            match answer.await {
                Ok(answer) => Ok(answer?),
                Err(_) => Err(TicketError::Stopped { key }),
            }
        }
        .boxed()
    }
}
