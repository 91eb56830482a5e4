//! One device: the real client [`Session`], a disk that may be slow, and a process that may die.

use std::collections::VecDeque;
use std::time::Instant;

use gapless_client::{
    Change, ClientEvent, Closed, Command, ConnectionId, PersistId, SendError, Session, SessionConfig,
    Snapshot,
};
use gapless_proto::{Body, ClientMessage, ConvId, Key, ServerMessage, UserId};

use crate::Fault;
use crate::broken_client::BrokenClient;
use crate::names::Life;

/// A device, over all lives of its process.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) user: UserId,
    fault: Option<Fault>,
    disk: Snapshot,
    process: Option<Process>,
    commands: VecDeque<DeviceCommand>,
}

/// What a crash takes away.
#[derive(Debug)]
struct Process {
    life: Life,
    session: Session,
    broken: BrokenClient,
    /// Handed to the disk and not yet on it, in order.
    writing: VecDeque<(PersistId, Change)>,
    /// How many of them the write under way covers.
    write_under_way: Option<usize>,
}

/// What a device wants done, or did.
#[derive(Debug)]
pub(crate) enum DeviceCommand {
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
    /// Wait for the disk, then call [`Device::handle_written`].
    Write {
        life: Life,
    },
    /// A change is on its way to the disk.
    Issued(Change),
    /// A change is on the disk.
    Stored(Change),
    Report(ClientEvent),
}

impl Device {
    pub(crate) fn new(user: UserId, fault: Option<Fault>) -> Self {
        Self { user, fault, disk: Snapshot::default(), process: None, commands: VecDeque::new() }
    }

    /// Starts the process from what is on disk.
    pub(crate) fn start(&mut self, config: SessionConfig, life: Life, seed: u64, now: Instant) {
        let session = Session::new(config, self.disk.clone(), seed, now);
        let broken = BrokenClient::new(self.fault);
        self.process =
            Some(Process { life, session, broken, writing: VecDeque::new(), write_under_way: None });
        self.settle(now);
    }

    /// Ends the process at once. Of what was being written, the first `survivors` changes are on the disk.
    pub(crate) fn crash(&mut self, survivors: usize) {
        let Some(Process { writing, write_under_way, .. }) = self.process.take() else {
            return;
        };
        let survivors = survivors.min(write_under_way.unwrap_or(0));
        for (_, change) in writing.into_iter().take(survivors) {
            self.store(change);
        }
    }

    pub(crate) fn send(&mut self, conv: ConvId, key: Key, body: Body, now: Instant) -> Result<(), SendError> {
        let Some(process) = &mut self.process else {
            return Err(SendError::Stopped);
        };
        process.session.send(conv, key, body)?;
        self.settle(now);
        Ok(())
    }

    pub(crate) fn handle_message(&mut self, connection: ConnectionId, message: ServerMessage, now: Instant) {
        if let Some(process) = &mut self.process {
            process.broken.note_received(&message);
            process.session.handle_message(connection, message, now);
        }
        self.settle(now);
    }

    pub(crate) fn handle_closed(&mut self, connection: ConnectionId, closed: Closed, now: Instant) {
        if let Some(process) = &mut self.process {
            process.session.handle_closed(connection, closed, now);
        }
        self.settle(now);
    }

    /// The disk is through with what it was given.
    pub(crate) fn handle_written(&mut self, life: Life, now: Instant) {
        let Some(process) = self.process.as_mut().filter(|process| process.life == life) else {
            return;
        };
        let written = process.write_under_way.take().unwrap_or(0);
        let written: Vec<_> = process.writing.drain(..written).collect();
        let last = written.last().map(|(id, _)| *id);
        for (_, change) in written {
            self.store(change);
        }
        if let (Some(process), Some(last)) = (&mut self.process, last) {
            process.session.handle_persisted(last, now);
        }
        self.settle(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(process) = &mut self.process
            && process.session.poll_timeout().is_some_and(|due| due <= now)
        {
            process.session.handle_timeout(now);
        }
        self.settle(now);
    }

    /// The device has slept.
    pub(crate) fn handle_wake(&mut self, now: Instant) {
        if let Some(process) = &mut self.process {
            process.session.handle_wake(now);
        }
        self.settle(now);
    }

    pub(crate) fn poll_command(&mut self) -> Option<DeviceCommand> {
        self.commands.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let process = self.process.as_ref()?;
        process.session.poll_timeout().into_iter().chain(process.broken.poll_timeout()).min()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The life of its process.
    pub(crate) fn life(&self) -> Option<Life> {
        self.process.as_ref().map(|process| process.life)
    }

    /// How many changes a crash could take away.
    pub(crate) fn unwritten(&self) -> usize {
        self.process.as_ref().map_or(0, |process| process.writing.len())
    }

    fn store(&mut self, change: Change) {
        self.disk.apply(&change);
        self.commands.push_back(DeviceCommand::Stored(change));
    }

    /// Passes on what the session wants, and keeps one write under way while something waits for the disk.
    fn settle(&mut self, now: Instant) {
        let Some(process) = &mut self.process else {
            return;
        };
        while let Some(command) = process.session.poll_command() {
            match command {
                Command::Connect { connection, .. } => {
                    process.broken.note_connect();
                    self.commands.push_back(DeviceCommand::Connect { connection });
                }
                Command::Transmit { connection, message } => {
                    let messages = process.broken.transmit(connection, message, now);
                    self.commands.extend(
                        messages
                            .into_iter()
                            .map(|(connection, message)| DeviceCommand::Transmit { connection, message }),
                    );
                }
                Command::Close { connection } => self.commands.push_back(DeviceCommand::Close { connection }),
                Command::FetchToken => {}
                Command::Persist { id, change } => {
                    self.commands.push_back(DeviceCommand::Issued(change.clone()));
                    process.writing.push_back((id, change));
                    if process.broken.claims_persisted(&process.writing) {
                        process.session.handle_persisted(id, now);
                    }
                }
                Command::Report(event) => self.commands.push_back(DeviceCommand::Report(event)),
            }
        }
        self.commands.extend(
            process
                .broken
                .release(now)
                .into_iter()
                .map(|(connection, message)| DeviceCommand::Transmit { connection, message }),
        );
        if process.write_under_way.is_none() && !process.writing.is_empty() {
            process.write_under_way = Some(process.writing.len());
            self.commands.push_back(DeviceCommand::Write { life: process.life });
        }
    }
}
