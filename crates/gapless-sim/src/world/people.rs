//! What users do.

use gapless_core::{Authority, Operation};
use gapless_proto::{ConvId, UserId};

use super::{Event, World};
use crate::Landmark;
use crate::dice::Spread;
use crate::names::DeviceNo;
use crate::store_model::Waiting;
use crate::utterance::Utterance;

impl World {
    pub(super) fn type_some(&mut self) {
        let Some(device) = self.any_device() else {
            return;
        };
        for _ in 0..=self.dice.mischief.below(4) {
            self.type_message(device, false);
        }
    }

    pub(super) fn type_together(&mut self) {
        for device in self.devices.keys().copied().collect::<Vec<_>>() {
            self.type_message(device, false);
        }
    }

    pub(super) fn reuse_key(&mut self) {
        if let Some(device) = self.any_device() {
            self.type_message(device, true);
        }
    }

    /// The user of a device types something.
    fn type_message(&mut self, device: DeviceNo, is_key_reused: bool) {
        let now = self.now();
        let Some(conv) = self.conversation_to_type_in(device) else {
            return;
        };
        let node = self.devices.get_mut(&device).expect("it was added");
        if !node.device.is_running() || node.asleep_until.is_some() {
            return;
        }
        node.typed += 1;
        let utterance = Utterance { device, number: node.typed };
        let key_of = if is_key_reused { utterance.number.saturating_sub(1).max(1) } else { utterance.number };
        let key = Utterance { device, number: key_of }.key();
        let sent = node.device.send(conv.clone(), key, utterance.body(), now);
        self.note(|| format!("{utterance} is typed in {conv}: {sent:?}"));
        self.settle_device(device)
    }

    pub(super) fn join_some(&mut self) {
        let (conv, user) = self.any_membership();
        if !self.checks.reference.is_member(&user, &conv) {
            self.join(conv, user);
        }
    }

    pub(super) fn leave_some(&mut self) {
        let (conv, user) = self.any_membership();
        if self.checks.reference.is_member(&user, &conv) {
            self.leave(conv, user);
        }
    }

    /// A connection breaks, and before it is replaced, its user leaves a conversation or joins one.
    pub(super) fn come_or_go_while_away(&mut self) {
        let Some(link) = self.any_link() else {
            return;
        };
        let device = self.network.link(link).expect("it stands").device.0;
        let user = self.devices.get(&device).expect("it was added").device.user.clone();
        let conv = self.dice.mischief.pick(&self.convs).expect("there is a conversation");
        self.break_link(link, true, self.clock.now());
        let delay = self.dice.mischief.duration(Spread::millis(200, 3_000));
        self.plan_in(delay, Event::ComesOrGoes { conv, user });
    }

    pub(super) fn comes_or_goes(&mut self, conv: ConvId, user: UserId) {
        if self.checks.reference.is_member(&user, &conv) {
            self.leave(conv, user);
        } else {
            self.join(conv, user);
        }
    }

    fn join(&mut self, conv: ConvId, user: UserId) {
        let is_known = self.checks.reference.knows(&user, &conv);
        self.coverage.note(if is_known { Landmark::Rejoin } else { Landmark::Join });
        // By themselves it works only if they left by themselves; a backend may add anyone.
        let authority = if self.dice.mischief.coin() { Authority::Member } else { Authority::Service };
        let operation = Operation::Join { user: user.clone(), by: user };
        self.change_membership(conv, authority, operation);
    }

    fn leave(&mut self, conv: ConvId, user: UserId) {
        self.coverage.note(Landmark::Leave);
        let by =
            if self.dice.mischief.coin() { user.clone() } else { UserId::new("root").expect("it is an id") };
        let operation = Operation::Leave { user, by };
        self.change_membership(conv, Authority::Service, operation);
    }

    fn change_membership(&mut self, conv: ConvId, authority: Authority, operation: Operation) {
        let gateway = self.any_gateway();
        self.note(|| format!("{operation:?} in {conv} over {gateway}"));
        if self.life_of(gateway).is_some() {
            self.append(gateway, Waiting::of_backend(conv, authority, operation));
        }
    }

    /// Mostly one that the user of the device is in.
    fn conversation_to_type_in(&mut self, device: DeviceNo) -> Option<ConvId> {
        let user = self.devices.get(&device)?.device.user.clone();
        let reference = &self.checks.reference;
        let own: Vec<_> =
            self.convs.iter().filter(|conv| reference.is_member(&user, conv)).cloned().collect();
        let options = if self.dice.mischief.below(20) > 0 { &own } else { &self.convs };
        self.dice.mischief.pick(options)
    }

    fn any_membership(&mut self) -> (ConvId, UserId) {
        let dice = &mut self.dice.mischief;
        let conv = dice.pick(&self.convs).expect("there is a conversation");
        (conv, dice.pick(&self.users).expect("there is a user"))
    }
}
