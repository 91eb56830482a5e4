//! What operators do to the store.

use gapless_proto::Seq;

use super::World;
use crate::Landmark;
use crate::store_model::Ended;
use crate::words::Words;

impl World {
    pub(super) fn take_backup(&mut self) {
        self.backup = Some((self.store.backup(), self.checks.reference.remember()));
        self.note(|| "a backup is taken");
    }

    /// An earlier state takes the store's place, and every epoch is raised.
    pub(super) fn restore(&mut self) {
        let Some((disk, remembered)) = self.backup.clone() else {
            return;
        };
        self.coverage.note(Landmark::Restore);
        for batch in self.store.commits.open_batches() {
            if let Some(Ended { answers, .. }) = self.store.commits.roll_back(batch) {
                self.pass_on(answers);
            }
        }
        let heads_before: Vec<_> =
            self.convs.iter().filter_map(|conv| self.checks.reference.head(conv)).collect();
        let restored = self.store.restore(disk, self.clock.timestamp());
        for ((conv, position), before) in restored.into_iter().zip(heads_before) {
            self.note(|| format!("{conv} goes back from {before} to {position}"));
            self.coverage.add(Landmark::EntriesLostInRestore, u64::from(position.seq < before.seq));
            self.checks.reference.rewound(&conv, position.epoch, &remembered);
        }
        self.pump_lanes();
    }

    pub(super) fn trim(&mut self) {
        let conv = self.dice.mischief.pick(&self.convs).expect("there is a conversation");
        let Some(head) = self.store.position(&conv) else {
            return;
        };
        let kept = if self.dice.mischief.below(4) == 0 { 0 } else { self.dice.mischief.below(20) as u64 };
        let below = Seq::new((head.seq.get() + 1).saturating_sub(kept)).expect("it is small");
        if let Some(oldest) = self.store.trim(&conv, below) {
            self.coverage.note(Landmark::Trim);
            self.note(|| format!("{conv} is trimmed to {oldest} of {head}"));
            self.checks.reference.trimmed(&conv, oldest.epoch, oldest.seq);
        }
    }

    pub(super) fn raise_epoch(&mut self) {
        let conv = self.dice.mischief.pick(&self.convs).expect("there is a conversation");
        if let Some(position) = self.store.raise_epoch(&conv, self.clock.timestamp()) {
            self.coverage.note(Landmark::EpochRaised);
            self.note(|| format!("{conv} is at {position} now"));
            let present = self.checks.reference.remember();
            self.checks.reference.rewound(&conv, position.epoch, &present);
        }
    }

    pub(super) fn write_unknown_kind(&mut self) {
        let conv = self.dice.mischief.pick(&self.convs).expect("there is a conversation");
        let Some((epoch, entry)) = self.store.append_unknown(&conv, self.clock.timestamp()) else {
            return;
        };
        self.coverage.note(Landmark::UnknownKind);
        self.note(|| format!("{conv}: {}", Words(&entry)));
        let checked = self.checks.committed(&conv, epoch, &[entry]);
        self.uphold(checked);
    }
}
