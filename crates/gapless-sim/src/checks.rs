//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use gapless_client::{Change, ClientEvent, Delivered, RefusedSend};
use gapless_core::OutboxId;
use gapless_proto::{ClientMessage, ConvId, Entry, Epoch, Position, Rid, ServerMessage, UserId};

use crate::names::DeviceNo;
use crate::reference::Reference;
use crate::utterance::Utterance;
use crate::words::Words;
use crate::{Guarantee, Violation};

/// Watches what the parts of a world say and do, and compares it with the [`Reference`].
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) reference: Reference,
    devices: BTreeMap<DeviceNo, Record>,
    /// What the store has decided against at least once.
    refused: BTreeSet<Utterance>,
}

/// What one device was seen to do.
#[derive(Debug)]
struct Record {
    user: UserId,
    /// Where its cursors are with all changes that it has issued.
    issued: BTreeMap<ConvId, Position>,
    /// Where they are on its disk, and with what.
    held: BTreeMap<ConvId, Held>,
    /// What its outbox numbers stand for.
    numbers: BTreeMap<OutboxId, Utterance>,
    /// The outbox on its disk.
    outbox: BTreeSet<Utterance>,
    /// What its present connection was asked and hasn't answered.
    syncs: BTreeMap<Rid, ConvId>,
}

#[derive(Debug)]
struct Held {
    position: Position,
    entries: Vec<Entry>,
}

impl Checks {
    pub(crate) fn add_device(&mut self, device: DeviceNo, user: UserId) {
        let record = Record {
            user,
            issued: BTreeMap::new(),
            held: BTreeMap::new(),
            numbers: BTreeMap::new(),
            outbox: BTreeSet::new(),
            syncs: BTreeMap::new(),
        };
        self.devices.insert(device, record);
    }

    /// Entries are on the store's disk (G1, G2, G6).
    pub(crate) fn committed(
        &mut self,
        conv: &ConvId,
        epoch: Epoch,
        entries: &[Entry],
    ) -> Result<(), Violation> {
        let refused = &self.refused;
        self.reference.committed(conv, epoch, entries, |utterance| refused.contains(&utterance))
    }

    /// The store has decided against something. If the answer is lost and the sender is allowed to say it by then, it is said
    /// later than what was typed after it: a refusal is remembered nowhere.
    pub(crate) fn refused(&mut self, utterance: Utterance) {
        self.refused.insert(utterance);
    }

    /// A device begins another connection.
    pub(crate) fn connects(&mut self, device: DeviceNo) {
        self.record_mut(device).syncs.clear();
    }

    /// A frame has reached a device (G1, G2, G11).
    pub(crate) fn shown(&mut self, device: DeviceNo, message: &ServerMessage) -> Result<(), Violation> {
        let Self { reference, devices, .. } = self;
        let Record { user, syncs, .. } = devices.get_mut(&device).expect("it was added");
        match message {
            ServerMessage::Event(event) => {
                reference.check_shown(user, &event.conv, event.epoch, &event.entry)
            }
            ServerMessage::Page { rid, conv, page } => {
                syncs.remove(rid);
                let mut entries = page.events.iter();
                entries.try_for_each(|entry| reference.check_shown(user, conv, page.epoch, entry))
            }
            ServerMessage::Error(error) => {
                syncs.retain(|rid, _| Some(*rid) != error.rid);
                Ok(())
            }
            ServerMessage::Hint { conv, epoch, head } => {
                let position = Position { epoch: *epoch, seq: *head };
                if reference.may_see(user, conv, position) {
                    return Ok(());
                }
                let how = format!("{user} was hinted {position} of {conv}, which they may not see");
                Err(Violation::new(Guarantee::Privacy, how))
            }
            ServerMessage::Welcome(_)
            | ServerMessage::Sent(_)
            | ServerMessage::Renewed { .. }
            | ServerMessage::Ping
            | ServerMessage::Pong
            | ServerMessage::Notice(_)
            | ServerMessage::Subscribed(_)
            | ServerMessage::Unsubscribed { .. }
            | ServerMessage::Snapshot(_)
            | ServerMessage::TopicEvent(_)
            | ServerMessage::Revoke(_)
            | ServerMessage::Reset(_)
            | ServerMessage::Progress(_)
            | ServerMessage::Unknown { .. } => Ok(()),
        }
    }

    /// A device has decided a change of its state (G3, G5).
    pub(crate) fn issued(&mut self, device: DeviceNo, change: &Change) -> Result<(), Violation> {
        let Self { reference, devices, .. } = self;
        let record = devices.get_mut(&device).expect("it was added");
        match change {
            Change::Advance { conv, advance } => {
                let from = record.issued.insert(conv.clone(), advance.position);
                reference.check_advance(&record.user, conv, from, advance)
            }
            Change::Reset { conv } => {
                let user = &record.user;
                let current = reference.head(conv).map(|head| head.epoch);
                match record.issued.remove(conv) {
                    Some(from) if Some(from.epoch) < current => Ok(()),
                    from => {
                        let how = format!(
                            "{user} starts {conv} over from {}, and it is in {current:?}",
                            Words(&from)
                        );
                        Err(Violation::new(Guarantee::HonestPositions, how))
                    }
                }
            }
            Change::Enqueue(message) => {
                let utterance = Utterance::of_body(&message.body).expect("nothing else is typed");
                record.numbers.insert(message.id, utterance);
                Ok(())
            }
            Change::Dequeue(_) | Change::Claim(_) => Ok(()),
        }
    }

    /// A change is on a device's disk.
    pub(crate) fn stored(&mut self, device: DeviceNo, change: Change) {
        let record = self.record_mut(device);
        match change {
            Change::Advance { conv, advance } => {
                let held = record
                    .held
                    .entry(conv)
                    .or_insert_with(|| Held { position: advance.position, entries: Vec::new() });
                held.position = advance.position;
                held.entries.extend(advance.entries);
            }
            Change::Reset { conv } => {
                record.held.remove(&conv);
            }
            Change::Enqueue(message) => {
                record.outbox.extend(record.numbers.get(&message.id));
            }
            Change::Claim(_) => {}
            Change::Dequeue(id) => {
                if let Some(utterance) = record.numbers.get(&id) {
                    record.outbox.remove(utterance);
                }
            }
        }
    }

    /// A device's process has ended: what isn't on its disk never was.
    pub(crate) fn crashed(&mut self, device: DeviceNo) {
        let record = self.record_mut(device);
        record.issued = record.held.iter().map(|(conv, held)| (conv.clone(), held.position)).collect();
    }

    /// A device has written a frame (G3, G6, and one sync at a time).
    pub(crate) fn transmitted(&mut self, device: DeviceNo, message: &ClientMessage) -> Result<(), Violation> {
        let record = self.record_mut(device);
        match message {
            ClientMessage::Ack { conv, cursor, epoch } => {
                let stored = record.held.get(conv).map(|held| held.position);
                if stored.is_some_and(|stored| Some(stored.epoch) == *epoch && *cursor <= stored.seq) {
                    return Ok(());
                }
                let how =
                    format!("{device} acknowledges {cursor} of {conv}, but has stored {}", Words(&stored));
                Err(Violation::new(Guarantee::ContiguousCursor, how))
            }
            ClientMessage::Send { body, .. } => {
                let utterance = Utterance::of_body(body).expect("nothing else is typed");
                if record.outbox.contains(&utterance) {
                    return Ok(());
                }
                let how = format!("{utterance} is sent, but not stored");
                Err(Violation::new(Guarantee::Sends, how))
            }
            ClientMessage::Sync { rid, conv, .. } => {
                if !record.syncs.values().any(|asked| asked == conv) {
                    record.syncs.insert(*rid, conv.clone());
                    return Ok(());
                }
                let how = format!("{device} syncs {conv} twice at a time");
                Err(Violation::new(Guarantee::NoBusyLoop, how))
            }
            ClientMessage::Renew { .. }
            | ClientMessage::Ping
            | ClientMessage::Subscribe(_)
            | ClientMessage::Unsubscribe { .. }
            | ClientMessage::Pong => Ok(()),
        }
    }

    /// A device has told its application something (G3, G6).
    pub(crate) fn reported(&mut self, device: DeviceNo, event: &ClientEvent) -> Result<(), Violation> {
        match event {
            ClientEvent::Sent(delivered) => self.check_sent(device, delivered),
            ClientEvent::SendRefused(refused) => self.check_refused(device, refused),
            ClientEvent::Entries { conv, advance } => {
                let stored = self.record(device).held.get(conv).map(|held| held.position);
                let position = advance.position;
                // Of another life: the log was rewound after that.
                if stored.is_none_or(|stored| stored >= position || stored.epoch != position.epoch) {
                    return Ok(());
                }
                let how =
                    format!("{device} tells of {position} in {conv}, but has stored {}", Words(&stored));
                Err(Violation::new(Guarantee::ContiguousCursor, how))
            }
            ClientEvent::Fault(fault) => Err(Violation::new(
                Guarantee::HonestPositions,
                format!("{device} was served nonsense: {fault}"),
            )),
            ClientEvent::Stopped(reason) => {
                let how = format!("{device} has stopped for good: {reason}");
                Err(Violation::new(Guarantee::ReplayOrConverge, how))
            }
            ClientEvent::Connected { .. }
            | ClientEvent::Disconnected { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::Reset { .. }
            | ClientEvent::Refused { .. }
            | ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::TokenExpiring { .. } => Ok(()),
        }
    }

    /// These users hold an entry, on every device (G7).
    pub(crate) fn is_with(
        &self,
        users: &[UserId],
        conv: &ConvId,
        position: Position,
    ) -> Result<(), Violation> {
        for (device, Record { user, held, .. }) in &self.devices {
            let held = held.get(conv).map(|held| held.position);
            if users.contains(user) && held < Some(position) {
                let how =
                    format!("{position} of {conv} is overdue at {device}, which is at {}", Words(&held));
                return Err(Violation::new(Guarantee::ReplayOrConverge, how));
            }
        }
        Ok(())
    }

    /// After a long enough calm: every device holds everything that it may see, and everything typed was answered (G7).
    pub(crate) fn converged(&self) -> Result<(), Violation> {
        for (device, record) in &self.devices {
            if let Some(utterance) = record.outbox.first() {
                let how = format!("{utterance} is still in the outbox");
                return Err(Violation::new(Guarantee::ReplayOrConverge, how));
            }
            for conv in self.reference.conversations().filter(|conv| self.reference.knows(&record.user, conv))
            {
                let held = record.held.get(conv);
                let position = held.map(|held| held.position);
                let entries = held.map_or(&[][..], |held| &held.entries);
                self.reference
                    .check_held(&record.user, conv, position, entries)
                    .map_err(|error| Violation::new(error.guarantee, format!("{device}: {}", error.how)))?;
            }
        }
        Ok(())
    }

    /// G6: what is acknowledged is in the log.
    fn check_sent(&self, device: DeviceNo, delivered: &Delivered) -> Result<(), Violation> {
        let Delivered { conv, seq, epoch, id, .. } = delivered;
        let utterance = *self.record(device).numbers.get(id).expect("it was typed");
        let position = Position { epoch: *epoch, seq: *seq };
        let stored = self.reference.entry(conv, position);
        if stored.and_then(Utterance::of_entry) == Some(utterance) {
            return Ok(());
        }
        let how = format!("{utterance} was acknowledged as {position} of {conv}, where {stored:?} is");
        Err(Violation::new(Guarantee::Sends, how))
    }

    /// A send is given up only when the store has refused it.
    fn check_refused(&self, device: DeviceNo, refused: &RefusedSend) -> Result<(), Violation> {
        let utterance = *self.record(device).numbers.get(&refused.id).expect("it was typed");
        if self.refused.contains(&utterance) {
            return Ok(());
        }
        let how = format!("{utterance} was given up, but the store never refused it");
        Err(Violation::new(Guarantee::Sends, how))
    }

    fn record(&self, device: DeviceNo) -> &Record {
        self.devices.get(&device).expect("it was added")
    }

    fn record_mut(&mut self, device: DeviceNo) -> &mut Record {
        self.devices.get_mut(&device).expect("it was added")
    }
}
