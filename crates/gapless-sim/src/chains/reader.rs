//! One client of a chain: the real [`Session`] and [`TopicFold`], an application that saves what it has made of the events, and a
//! process that may die.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use gapless_client::{
    ClientEvent, Closed, Command, ConnectionId, FoldError, Session, SessionConfig, Snapshot, TopicFold,
    Topics, TopicsStart, TopicsTold,
};
use gapless_proto::{ChainCursor, ChainId, ChainPoint, ClientMessage, Cursor, ServerMessage, UserId};

use super::fault::ChainFault;
use super::holder::{Holder, Wish};
use crate::names::Life;

/// A client, over all lives of its process.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) user: UserId,
    pub(super) chain: ChainId,
    pub(super) wish: Wish,
    start: TopicsStart,
    fault: Option<ChainFault>,
    disk: Option<Held>,
    process: Option<Process>,
    commands: VecDeque<ReaderCommand>,
}

/// What an application has made of what it was told; saved as a whole.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) fold: TopicFold,
    pub(super) holder: Holder,
    cursor: Option<Cursor>,
    /// The places of all events, for who goes by them.
    seen: BTreeSet<ChainPoint>,
}

/// What a crash takes away.
#[derive(Debug)]
struct Process {
    life: Life,
    session: Session,
    start: TopicsStart,
    held: Held,
    /// Whether it has more than is saved.
    is_ahead: bool,
}

/// What a client wants done, or did.
#[derive(Debug)]
pub(super) enum ReaderCommand {
    Connect {
        connection: ConnectionId,
    },
    Transmit {
        connection: ConnectionId,
        message: ClientMessage,
    },
    Close {
        connection: ConnectionId,
    },
    /// Its application was told something: call [`Reader::take`].
    Told(TopicsTold),
    /// Its subscription was refused.
    Refused,
}

impl Reader {
    pub(super) fn new(
        user: UserId,
        chain: ChainId,
        wish: Wish,
        start: TopicsStart,
        fault: Option<ChainFault>,
    ) -> Self {
        Self { user, chain, wish, start, fault, disk: None, process: None, commands: VecDeque::new() }
    }

    /// Starts the process from what is saved.
    pub(super) fn start(&mut self, config: SessionConfig, life: Life, seed: u64, now: Instant) {
        let fresh = || Held {
            fold: TopicFold::new(self.wish.events_max),
            holder: Holder::default(),
            cursor: None,
            seen: BTreeSet::new(),
        };
        let held = self.disk.clone().unwrap_or_else(fresh);
        let start = held.cursor.clone().map_or_else(|| self.start.clone(), TopicsStart::After);
        let mut session = Session::new(config, Snapshot::default(), seed, now);
        let names = self.wish.topics.iter().map(|topic| topic.whole_name(self.chain)).collect();
        session.subscribe(Topics { names, mode: self.wish.mode, start: start.clone() }, now);
        self.process = Some(Process { life, session, start, held, is_ahead: false });
        self.settle();
    }

    /// Ends the process at once. Returns whether that loses something.
    pub(super) fn crash(&mut self) -> bool {
        self.commands.clear();
        self.process.take().is_some_and(|process| process.is_ahead)
    }

    /// Forgets all, so that it starts from nothing.
    pub(super) fn forget(&mut self) {
        self.disk = None;
        self.process = None;
        self.commands.clear();
    }

    /// Saves what the application has.
    pub(super) fn save(&mut self) {
        if let Some(process) = &mut self.process {
            process.is_ahead = false;
            self.disk = Some(process.held.clone());
        }
    }

    pub(super) fn handle_message(&mut self, connection: ConnectionId, message: ServerMessage, now: Instant) {
        if let Some(process) = &mut self.process {
            process.session.handle_message(connection, message, now);
        }
        self.settle();
    }

    pub(super) fn handle_closed(&mut self, connection: ConnectionId, closed: Closed, now: Instant) {
        if let Some(process) = &mut self.process {
            process.session.handle_closed(connection, closed, now);
        }
        self.settle();
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(process) = &mut self.process
            && process.session.poll_timeout().is_some_and(|due| due <= now)
        {
            process.session.handle_timeout(now);
        }
        self.settle();
    }

    /// The device has slept.
    pub(super) fn handle_wake(&mut self, now: Instant) {
        if let Some(process) = &mut self.process {
            process.session.handle_wake(now);
        }
        self.settle();
    }

    pub(super) fn poll_command(&mut self) -> Option<ReaderCommand> {
        self.commands.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.process.as_ref()?.session.poll_timeout()
    }

    pub(super) fn life(&self) -> Option<Life> {
        self.process.as_ref().map(|process| process.life)
    }

    pub(super) fn held_mut(&mut self) -> Option<(&mut Held, &Wish)> {
        let process = self.process.as_mut()?;
        Some((&mut process.held, &self.wish))
    }

    pub(super) fn held(&self) -> Option<&Held> {
        self.process.as_ref().map(|process| &process.held)
    }

    /// Whether values come when a subscription begins without a cursor.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.start == TopicsStart::Snapshot)
    }

    /// The application makes of it what it does.
    pub(super) fn take(&mut self, told: &TopicsTold) -> Result<(), FoldError> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let held = &mut process.held;
        process.is_ahead = true;
        match told {
            TopicsTold::Event(event) => {
                held.cursor = Some(event.cursor.clone());
                let place = event.cursor.as_str().parse::<ChainCursor>()?.point;
                let is_known = !held.seen.insert(place);
                if is_known && self.fault == Some(ChainFault::DeduplicateByPlace) {
                    return Ok(());
                }
            }
            TopicsTold::Revoke { cursor } | TopicsTold::Progress { cursor } => {
                held.cursor = Some(cursor.clone())
            }
            TopicsTold::Snapshot(snapshot) => {
                held.cursor = (!snapshot.has_more).then(|| snapshot.cursor.clone());
            }
            TopicsTold::Begun { cursor } => {
                if process.start != TopicsStart::Snapshot {
                    held.cursor.get_or_insert_with(|| cursor.clone());
                }
            }
            TopicsTold::Reset(gapless_proto::TopicResetReason::SlowConsumer) => {}
            TopicsTold::Reset(_) => held.cursor = None,
        }
        held.fold.handle(told)
    }

    /// Passes on what the session wants.
    fn settle(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        while let Some(command) = process.session.poll_command() {
            let command = match command {
                Command::Connect { connection, .. } => ReaderCommand::Connect { connection },
                Command::Transmit { connection, message } => {
                    ReaderCommand::Transmit { connection, message: transmitted(self.fault, message) }
                }
                Command::Close { connection } => ReaderCommand::Close { connection },
                Command::Report(ClientEvent::Topics { told, .. }) => ReaderCommand::Told(told),
                Command::Report(ClientEvent::TopicsRefused { .. }) => ReaderCommand::Refused,
                Command::FetchToken | Command::Persist { .. } | Command::Report(_) => continue,
            };
            self.commands.push_back(command);
        }
    }
}

/// What goes out for a message: a broken client gives back only the place of its cursor.
fn transmitted(fault: Option<ChainFault>, message: ClientMessage) -> ClientMessage {
    let ClientMessage::Subscribe(mut subscribe) = message else {
        return message;
    };
    if fault == Some(ChainFault::ResumeByPlace)
        && let Some(Ok(cursor)) =
            subscribe.cursor.as_ref().map(|cursor| cursor.as_str().parse::<ChainCursor>())
    {
        subscribe.cursor = Some(ChainCursor { seq: None, ..cursor }.into());
    }
    ClientMessage::Subscribe(subscribe)
}
