//! One connection of a device, from its welcome to its end.

mod expiry;
mod inputs;
mod loading;
mod pipelines;
mod requests;
mod stall;
mod subscriptions;
mod work;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gapless_core::{Beat, Heartbeat, Outgoing};
use gapless_proto::{CloseCode, Notice, NoticeCode, Rid, ServerMessage, Welcome};
use gapless_store::{Generation, StoreError};
use tokio::time::{self, Sleep};
use tracing::{debug, info};

use self::expiry::{Expiring, Expiry};
use self::inputs::{Input, Turn};
use self::pipelines::Pipelines;
use self::stall::Stall;
use self::subscriptions::Subscriptions;
use self::work::{Done, Syncs};
use crate::auth::{Identity, unix_now};
use crate::config::SessionConfig;
use crate::gateway::Gateway;
use crate::hub::Registration;
use crate::mailbox::Order;
use crate::meters::Meters;
use crate::refusal::Refusal;
use crate::socket::{Frame, Incoming, Socket};
use crate::store_trouble;

/// Serves one connection. One task owns it; the hub and others reach it through its mailbox.
///
/// Nothing here grows without a bound: while the peer doesn't take what it is given, or has asked for more than is
/// allowed to be under way, nothing more is read from it.
pub(crate) struct Session {
    gateway: Arc<Gateway>,
    registration: Registration,
    identity: Identity,
    socket: Socket,
    state: State,
    /// Answers that wait for the socket; go before what the hub has.
    answers: VecDeque<Frame>,
    /// Sends and syncs that the store is working on.
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    pipelines: Pipelines<Generation>,
    syncs: Syncs,
    subscriptions: Subscriptions,
    heartbeat: Heartbeat,
    stall: Stall,
    expiry: Expiry,
    malformed_in_a_row: u32,
    turn: Turn,
    timer: Pin<Box<Sleep>>,
}

/// How far a session is.
enum State {
    /// Its user's conversations are being read; nothing is served yet.
    Loading(BoxFuture<'static, Result<(), StoreError>>),
    /// It serves requests and gets pushes.
    Serving,
    /// It takes no further requests, finishes those under way, and then closes with this code.
    Finishing(CloseCode),
}

/// How a session ends.
enum End {
    /// We close.
    Close(CloseCode),
    /// The peer closed, or is gone.
    HangUp,
}

impl Session {
    /// A session whose handshake is done and that the hub knows.
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        registration: Registration,
        identity: Identity,
        socket: Socket,
    ) -> Box<Self> {
        let now = now();
        let heartbeat = Heartbeat::new(gateway.config().session.heartbeat, now);
        let loading = loading::load(Arc::clone(&gateway), registration.session().clone());
        Box::new(Self {
            state: State::Loading(Box::pin(loading)),
            timer: Box::pin(time::sleep_until(heartbeat.poll_timeout().into())),
            heartbeat,
            expiry: Expiry::new(identity.expires_at, unix_now(), now),
            identity,
            gateway,
            registration,
            socket,
            answers: VecDeque::new(),
            work: FuturesUnordered::new(),
            pipelines: Pipelines::new(),
            syncs: Syncs::new(),
            subscriptions: Subscriptions::default(),
            stall: Stall::Free,
            malformed_in_a_row: 0,
            turn: Turn::Read,
        })
    }

    /// Serves until either side ends it.
    pub(crate) async fn run(mut self: Box<Self>) {
        debug!("connected");
        let end = loop {
            let input = poll_fn(|context| self.poll_input(context)).await;
            if let ControlFlow::Break(end) = self.handle(input, now()) {
                break end;
            }
        };
        Box::pin(self.end(end)).await;
    }

    async fn end(self, end: End) {
        let Self { registration, mut socket, answers, .. } = self;
        drop(registration);
        match end {
            End::HangUp => {
                debug!("disconnected");
                socket.finish().await;
            }
            End::Close(code) => {
                info!(%code, "closed");
                Meters::count_close(code);
                for answer in answers {
                    socket.push(answer);
                }
                socket.close(code).await;
            }
        }
    }

    fn handle(&mut self, input: Input, now: Instant) -> ControlFlow<End> {
        match input {
            Input::Order(order) => self.handle_order(order),
            Input::Loaded(loaded) => self.handle_loaded(loaded),
            Input::Done(done) => {
                self.handle_done(done);
                ControlFlow::Continue(())
            }
            Input::Incoming(incoming) => self.handle_incoming(incoming, now),
            Input::Answered => {
                self.start_syncs();
                ControlFlow::Continue(())
            }
            Input::Timeout => self.handle_timeout(now),
            Input::Finished(code) => ControlFlow::Break(End::Close(code)),
        }
    }

    fn handle_order(&mut self, order: Order) -> ControlFlow<End> {
        match order {
            Order::End(code) => ControlFlow::Break(End::Close(code)),
            Order::Drain { reconnect_after } => {
                self.answer(&ServerMessage::Notice(Notice {
                    code: NoticeCode::Draining,
                    reconnect_after_ms: Some(millis(reconnect_after)),
                    expires_in_ms: None,
                }));
                self.finish(CloseCode::ServiceRestart);
                ControlFlow::Continue(())
            }
        }
    }

    fn handle_loaded(&mut self, loaded: Result<(), StoreError>) -> ControlFlow<End> {
        if let Err(error) = loaded {
            store_trouble::tell(&error, "read a user's conversations");
            return ControlFlow::Break(End::Close(CloseCode::Unavailable));
        }
        let session = self.registration.session();
        let config = self.config();
        let welcome = Welcome {
            user: session.user().clone(),
            device: self.identity.device.clone(),
            session: session.id().clone(),
            heartbeat_ms: millis(config.heartbeat.ping_after),
            body_bytes_max: config.body_bytes_max as u64,
            expires_at: self.identity.expires_at,
        };
        // A notice may have come first.
        self.answers.push_front(Frame::from(ServerMessage::Welcome(welcome).encode()));
        self.state = State::Serving;
        ControlFlow::Continue(())
    }

    fn handle_incoming(&mut self, incoming: Incoming, now: Instant) -> ControlFlow<End> {
        self.heartbeat.handle_received(now);
        match incoming {
            Incoming::Text(text) => self.handle_frame(&text, now),
            Incoming::SignOfLife => ControlFlow::Continue(()),
            Incoming::Refused(code) => ControlFlow::Break(End::Close(code)),
            Incoming::HangUp => ControlFlow::Break(End::HangUp),
        }
    }

    fn handle_timeout(&mut self, now: Instant) -> ControlFlow<End> {
        match self.expiry.handle_timeout(now) {
            Some(Expiring::End) => return ControlFlow::Break(End::Close(CloseCode::Unauthenticated)),
            Some(Expiring::Tell { expires_in }) => self.answer(&ServerMessage::Notice(Notice {
                code: NoticeCode::TokenExpiring,
                reconnect_after_ms: None,
                expires_in_ms: Some(millis(expires_in)),
            })),
            None => {}
        }
        if self.stall.poll_timeout(self.config().write_stall_max).is_some_and(|at| at <= now) {
            return ControlFlow::Break(End::Close(CloseCode::WriteStalled));
        }
        if !self.listens() {
            // The silence is ours.
            self.heartbeat.handle_received(now);
        }
        match self.heartbeat.handle_timeout(now) {
            Some(Beat::GiveUp) => return ControlFlow::Break(End::Close(CloseCode::HeartbeatTimeout)),
            Some(Beat::Ping) => self.answer(&ServerMessage::Ping),
            None => {}
        }
        ControlFlow::Continue(())
    }

    /// Takes no further requests, and closes with `code` once those under way are answered.
    fn finish(&mut self, code: CloseCode) {
        if !matches!(self.state, State::Finishing(_)) {
            self.state = State::Finishing(code);
            self.syncs.forget_waiting();
        }
    }

    fn answer(&mut self, message: &ServerMessage) {
        self.answers.push_back(Frame::from(message.encode()));
    }

    fn refuse(&mut self, rid: Option<Rid>, refusal: Refusal) {
        debug!(code = ?refusal.code, "refused a request");
        self.answer(&ServerMessage::Error(refusal.into_reply(rid)));
    }

    /// Takes what to write next: nothing before the welcome, and nothing of the hub's after the last answer.
    fn next_outgoing(&mut self, context: &mut Context<'_>) -> Option<Frame> {
        let takes_pushes = match self.state {
            State::Loading(_) => return None,
            State::Serving => true,
            State::Finishing(_) => false,
        };
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        // An idle connection keeps no memory of its last burst.
        self.answers = VecDeque::new();
        if !takes_pushes {
            return None;
        }
        match self.registration.session().mailbox().poll_outgoing() {
            Some(Outgoing::Event(frame)) => Some(frame),
            Some(Outgoing::Hint { conv, position }) => {
                let hint = ServerMessage::Hint { conv, epoch: position.epoch, head: position.seq };
                Some(Frame::from(hint.encode()))
            }
            None => match self.subscriptions.poll_told(context) {
                Poll::Ready(frame) => Some(frame),
                Poll::Pending => None,
            },
        }
    }

    fn config(&self) -> &SessionConfig {
        &self.gateway.config().session
    }
}

fn now() -> Instant {
    time::Instant::now().into_std()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
