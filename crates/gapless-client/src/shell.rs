//! The task that owns a session and does what it wants.

mod connect;
mod keeper;
mod socket;
#[cfg(test)]
mod tests;
mod wake;

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;

use futures_util::future::BoxFuture;
use gapless_proto::{Body, ConvId, Key, Seq, ServerMessage};
use tokio::sync::{mpsc, oneshot};
use tokio::time;

use connect::{Connector, Opened};
use keeper::Keeper;
use socket::Socket;
use wake::WakeWatch;

use crate::credentials::FetchError;
use crate::{
    ClientEvent, Closed, Command, ConnectionId, Credentials, Delivered, LocalState, OutboxId, PersistId,
    RefusedSend, SendError, ServerUrl, Session, StopReason, Topics, TopicsId, WatchError,
};

/// Drives a [`Session`] with a real socket, clock and local state.
pub(crate) struct Shell<S: LocalState> {
    session: Session,
    keeper: Keeper<S>,
    connector: Connector,
    link: Link,
    token: Option<BoxFuture<'static, Result<String, FetchError>>>,
    wake: WakeWatch,
    requests: mpsc::Receiver<Request>,
    /// Whether the application has a handle.
    is_held: bool,
    events: mpsc::Sender<ClientEvent>,
    /// Events that the application has no room for. While there are any, nothing is read from the server.
    untold: VecDeque<ClientEvent>,
    unanswered: BTreeMap<OutboxId, oneshot::Sender<Result<Delivered, RefusedSend>>>,
    stop_reason: Option<StopReason>,
}

/// What an application asks of its client.
#[derive(Debug)]
pub(crate) enum Request {
    Send {
        conv: ConvId,
        key: Key,
        body: Body,
        accepted: oneshot::Sender<Result<OutboxId, SendError>>,
        answered: oneshot::Sender<Result<Delivered, RefusedSend>>,
    },
    Watch {
        conv: ConvId,
        start: Seq,
        done: oneshot::Sender<Result<(), WatchError>>,
    },
    Subscribe {
        topics: Topics,
        done: oneshot::Sender<TopicsId>,
    },
}

/// Everything that can wake the task.
enum Input {
    Request(Request),
    /// Every handle is gone.
    HangUp,
    Opened(ConnectionId, Result<Opened, Closed>),
    Message(ConnectionId, ServerMessage),
    Closed(ConnectionId, Closed),
    Persisted(Result<PersistId, String>),
    Token(Result<String, FetchError>),
    /// The application has room for an event again, or doesn't want any more (`false`).
    Room(bool),
    Timeout,
}

/// The connection, as far as it is there.
enum Link {
    None,
    Opening(ConnectionId, BoxFuture<'static, Result<Opened, Closed>>),
    Open(ConnectionId, Socket),
}

/// While more changes than this wait for the local state, nothing is taken in that causes another.
const PERSISTING_MAX: usize = 256;

impl<S: LocalState> Shell<S> {
    pub(crate) fn new(
        session: Session,
        state: S,
        url: ServerUrl,
        credentials: Credentials,
        requests: mpsc::Receiver<Request>,
        events: mpsc::Sender<ClientEvent>,
    ) -> Self {
        Self {
            session,
            keeper: Keeper::new(state),
            connector: Connector::new(url, credentials),
            link: Link::None,
            token: None,
            wake: WakeWatch::new(),
            requests,
            is_held: true,
            events,
            untold: VecDeque::new(),
            unanswered: BTreeMap::new(),
            stop_reason: None,
        }
    }

    /// Runs until the session has stopped and everything is told.
    pub(crate) async fn run(mut self) -> StopReason {
        loop {
            self.carry_out().await;
            if let Some(reason) = self.stop_reason.take_if(|_| self.untold.is_empty()) {
                return reason;
            }
            let input = self.next_input().await;
            self.handle(input);
        }
    }

    fn handle(&mut self, input: Input) {
        let now = time::Instant::now().into_std();
        match input {
            Input::Request(Request::Send { conv, key, body, accepted, answered }) => {
                let outcome = self.session.send(conv, key, body);
                if let Ok(id) = &outcome {
                    self.unanswered.insert(*id, answered);
                }
                // Who asked may be gone; the message is sent all the same.
                accepted.send(outcome).ok();
            }
            Input::Request(Request::Watch { conv, start, done }) => {
                done.send(self.session.watch(&conv, start, now)).ok();
            }
            Input::Request(Request::Subscribe { topics, done }) => {
                done.send(self.session.subscribe(topics, now)).ok();
            }
            Input::HangUp => {
                self.is_held = false;
                self.untold.clear();
                self.session.handle_stop();
            }
            Input::Opened(id, Ok(Opened { socket, token })) => {
                self.connector.set_token(token);
                self.link = Link::Open(id, socket);
            }
            Input::Opened(id, Err(closed)) | Input::Closed(id, closed) => {
                self.link = Link::None;
                self.session.handle_closed(id, closed, now);
            }
            Input::Message(id, message) => self.session.handle_message(id, message, now),
            Input::Persisted(Ok(id)) => self.session.handle_persisted(id, now),
            Input::Persisted(Err(message)) => self.session.handle_state_failed(message),
            Input::Token(Ok(token)) => {
                self.connector.set_token(Some(token.clone()));
                self.session.handle_token(token, now);
            }
            // The server ends the connection when the token expires; then it is asked for again.
            Input::Token(Err(error)) => tracing::warn!(%error, "no fresh token could be had"),
            Input::Room(true) => {
                if let Some(event) = self.untold.pop_front() {
                    self.events.try_send(event).ok();
                }
            }
            Input::Room(false) => self.untold.clear(),
            Input::Timeout => {
                if self.wake.has_slept() {
                    tracing::info!("the machine slept; testing the connection");
                    self.session.handle_wake(now);
                }
                self.session.handle_timeout(now);
            }
        }
    }

    /// Does what the session wants.
    async fn carry_out(&mut self) {
        while let Some(command) = self.session.poll_command() {
            match command {
                Command::Connect { connection, fresh_token } => {
                    tracing::debug!(%connection, "connecting");
                    self.link = Link::Opening(connection, self.connector.connect(fresh_token));
                }
                Command::Transmit { connection, message } => {
                    tracing::trace!(%connection, ?message, "transmitting");
                    if let Some(socket) = self.link.socket(connection) {
                        socket.push(&message);
                    }
                }
                Command::Close { connection } => self.close(connection).await,
                Command::FetchToken => self.token = Some(self.connector.fetch_token()),
                Command::Persist { id, change } => self.keeper.push(id, change),
                Command::Report(event) => self.tell(event),
            }
        }
    }

    async fn close(&mut self, connection: ConnectionId) {
        match std::mem::replace(&mut self.link, Link::None) {
            // Only who leaves for good says goodbye; a connection that failed would take none.
            Link::Open(id, socket) if id == connection && self.session.is_stopped() => socket.close().await,
            Link::Open(..) | Link::Opening(..) | Link::None => {}
        }
    }

    fn tell(&mut self, event: ClientEvent) {
        match &event {
            ClientEvent::Sent(delivered) => self.answer(delivered.id, Ok(delivered.clone())),
            ClientEvent::SendRefused(refused) => self.answer(refused.id, Err(refused.clone())),
            ClientEvent::Stopped(reason) => {
                self.stop_reason = Some(reason.clone());
                self.unanswered.clear();
            }
            ClientEvent::Connected { .. }
            | ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::Reset { .. }
            | ClientEvent::Refused { .. }
            | ClientEvent::TokenExpiring { .. }
            | ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::Fault(_) => {}
        }
        let event = match self.untold.is_empty().then(|| self.events.try_send(event.clone())) {
            Some(Ok(()) | Err(mpsc::error::TrySendError::Closed(_))) => return,
            Some(Err(mpsc::error::TrySendError::Full(event))) => event,
            None => event,
        };
        // Who has let go of the client takes no events either.
        if self.is_held {
            self.untold.push_back(event);
        }
    }

    fn answer(&mut self, id: OutboxId, answer: Result<Delivered, RefusedSend>) {
        if let Some(ticket) = self.unanswered.remove(&id) {
            // The ticket may have been dropped.
            ticket.send(answer).ok();
        }
    }

    async fn next_input(&mut self) -> Input {
        let is_told = self.untold.is_empty();
        let takes_more = self.session.persisting() < PERSISTING_MAX;
        let reads = is_told && takes_more;
        // Who takes no events is neither connected nor disconnected over and over, which would be further events.
        let has_time = is_told || !matches!(self.link, Link::None);
        let due = self.wake.poll_timeout();
        let due = self.session.poll_timeout().map_or(due, |session_due| session_due.min(due));

        tokio::select! {
            request = self.requests.recv(), if self.is_held && takes_more => {
                request.map_or(Input::HangUp, Input::Request)
            }
            input = self.link.next(reads) => input,
            persisted = self.keeper.next() => Input::Persisted(persisted),
            token = fetched(&mut self.token) => Input::Token(token),
            room = self.events.reserve(), if !is_told => Input::Room(room.is_ok()),
            () = time::sleep_until(due.into()), if has_time => Input::Timeout,
        }
    }
}

impl Link {
    /// What comes of the connection. Nothing is lost if it is dropped before it is done.
    async fn next(&mut self, reads: bool) -> Input {
        match self {
            Self::None => pending().await,
            Self::Opening(id, opening) => Input::Opened(*id, opening.await),
            Self::Open(id, socket) if reads => match socket.next().await {
                Ok(message) => Input::Message(*id, message),
                Err(closed) => Input::Closed(*id, closed),
            },
            Self::Open(id, socket) => Input::Closed(*id, socket.write().await),
        }
    }

    fn socket(&mut self, connection: ConnectionId) -> Option<&mut Socket> {
        match self {
            Self::Open(id, socket) if *id == connection => Some(socket),
            Self::Open(..) | Self::Opening(..) | Self::None => None,
        }
    }
}

/// Waits for a token that is on its way, and for ever if none is.
async fn fetched(
    token: &mut Option<BoxFuture<'static, Result<String, FetchError>>>,
) -> Result<String, FetchError> {
    let Some(fetching) = token else {
        return pending().await;
    };
    let fetched = fetching.await;
    *token = None;
    fetched
}
