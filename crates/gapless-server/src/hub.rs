//! Who is connected here, and what they are told.

mod reader;
mod session_handle;
mod standings;
mod upkeep;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_core::{FeedNews, Hub, HubCommand, HubConfig, Standing};
use gapless_proto::{CloseCode, ConvId, Epoch, Seq, UserId};
use tokio::time::Instant;

use self::reader::{HubRead, HubReads};
use crate::mailbox::Order;
use crate::meters::Meters;
use crate::socket::Frame;

pub(crate) use self::reader::HubReader;
pub(crate) use self::session_handle::{Registration, SessionHandle};
pub(crate) use self::standings::read_standings;
pub(crate) use self::upkeep::{follow_heads, follow_memberships, follow_news, sweep};

/// Shares the hub. A clone is the same hub.
///
/// Whatever the hub decides is carried out before the lock is given back: pushes go into the sessions' mailboxes, reads
/// of the store to the [`HubReader`]. So two sessions never see two orders.
#[derive(Clone)]
pub(crate) struct HubHandle(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    reads: HubReads,
    meters: Arc<Meters>,
}

struct State {
    hub: Hub<SessionHandle, Frame>,
    /// Set once the gateway drains: how far the sessions' returns are spread.
    draining: Option<Duration>,
}

impl HubHandle {
    /// A hub, and the task that reads the store for it.
    pub(crate) fn new(config: HubConfig, meters: Arc<Meters>) -> (Self, HubReader) {
        let (reads, reader) = reader::channel();
        let state = Mutex::new(State { hub: Hub::new(config), draining: None });
        (Self(Arc::new(Shared { state, reads, meters })), reader)
    }

    /// Registers a session. It is forgotten when the registration is dropped.
    pub(crate) fn connect(&self, session: SessionHandle) -> Registration {
        let mut state = self.state();
        state.hub.handle_connected(session.clone(), session.user().clone());
        if let Some(spread) = state.draining {
            session.mailbox().order(drain_order(spread));
        }
        self.0.meters.connections.set(state.hub.session_count() as f64);
        drop(state);
        Registration::new(self.clone(), session)
    }

    /// Ends all connections of a user with [`CloseCode::Kicked`]. Returns how many there were.
    pub(crate) fn kick(&self, user: &UserId) -> usize {
        let sessions = self.state().hub.sessions_of(user);
        for session in &sessions {
            session.mailbox().order(Order::End(CloseCode::Kicked));
        }
        sessions.len()
    }

    /// Tells every session, present and future, to come back elsewhere after a random time of at most `spread`.
    pub(crate) fn drain(&self, spread: Duration) {
        let mut state = self.state();
        state.draining = Some(spread);
        for session in state.hub.sessions() {
            session.mailbox().order(drain_order(spread));
        }
    }

    /// How many connections there are.
    pub(crate) fn session_count(&self) -> usize {
        self.state().hub.session_count()
    }

    /// Registers that a session's standings are about to be read anew. Returns whether it is still there.
    fn handle_reloading(&self, session: &SessionHandle) -> bool {
        self.state().hub.handle_reloading(session)
    }

    /// Enters a session as a reader of conversations.
    fn handle_standings(&self, session: &SessionHandle, standings: Vec<Standing>) {
        self.act(|hub| {
            for standing in standings {
                hub.handle_standing(session, standing, now());
            }
        });
    }

    /// Ends a session's loading.
    pub(crate) fn handle_loaded(&self, session: &SessionHandle) {
        self.act(|hub| hub.handle_loaded(session));
    }

    /// Takes a client's word that it keeps everything visible up to `cursor`.
    pub(crate) fn handle_ack(
        &self,
        session: &SessionHandle,
        conv: &ConvId,
        cursor: Seq,
        epoch: Option<Epoch>,
    ) {
        self.act(|hub| hub.handle_ack(session, conv, cursor, epoch, now()));
    }

    fn meters(&self) -> &Meters {
        &self.0.meters
    }

    fn handle_news(&self, news: FeedNews<Frame>) {
        self.act(|hub| hub.handle_news(news, now()));
    }

    fn handle_disconnected(&self, session: &SessionHandle) {
        self.act(|hub| hub.handle_disconnected(session));
        self.0.meters.connections.set(self.session_count() as f64);
    }

    fn handle_log(&self, log: FeedNews<Frame>) {
        self.act(|hub| hub.handle_log(log, now()));
    }

    fn handle_fetch_failed(&self, conv: &ConvId) {
        self.act(|hub| hub.handle_fetch_failed(conv));
    }

    fn handle_looked_up(&self, session: &SessionHandle, conv: &ConvId, standing: Option<Standing>) {
        self.act(|hub| hub.handle_looked_up(session, conv, standing, now()));
    }

    fn handle_sweep(&self) {
        self.0.meters.sweeps.increment(1);
        self.act(|hub| hub.handle_sweep(now()));
    }

    fn feeds_after(&self, after: Option<&ConvId>, limit: usize) -> Vec<ConvId> {
        self.state().hub.feeds_after(after, limit)
    }

    fn sessions_after(&self, after: Option<&SessionHandle>, limit: usize) -> Vec<SessionHandle> {
        self.state().hub.sessions_after(after, limit)
    }

    /// Hands something to the hub and carries out what it decides.
    fn act(&self, input: impl FnOnce(&mut Hub<SessionHandle, Frame>)) {
        let mut state = self.state();
        input(&mut state.hub);
        while let Some(command) = state.hub.poll_command() {
            self.carry_out(command, &mut state.hub);
        }
    }

    fn carry_out(&self, command: HubCommand<SessionHandle, Frame>, hub: &mut Hub<SessionHandle, Frame>) {
        let meters = &self.0.meters;
        match command {
            HubCommand::Push { session, conv, position, frame } => {
                meters.pushes.increment(1);
                if session.mailbox().push(conv, position, frame) {
                    meters.overflows.increment(1);
                }
            }
            HubCommand::Hint { session, conv, position } => {
                meters.hints.increment(1);
                session.mailbox().hint(conv, position);
            }
            HubCommand::Fetch { conv, after } => {
                if let Err(HubRead::Log { conv, .. }) = self.0.reads.queue(HubRead::Log { conv, after }) {
                    hub.handle_fetch_failed(&conv);
                }
            }
            HubCommand::LookUp { session, conv } => {
                let ended = session.clone();
                if self.0.reads.queue(HubRead::Standing { session, conv }).is_err() {
                    ended.mailbox().order(Order::End(CloseCode::Unavailable));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn drain_order(spread: Duration) -> Order {
    Order::Drain { reconnect_after: rand::random_range(Duration::ZERO..=spread) }
}
