//! What users, operators and misfortune do to a world.

use std::fmt;

use super::{Event, World};
use crate::dice::{Dice, Spread};
use crate::names::{DeviceNo, GatewayNo, LinkNo};
use crate::plan::Plan;
use crate::{Climate, Landmark, Options};

/// Something that is done to a world from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mischief {
    /// Somebody types one to four messages.
    Type,
    /// Everybody types at once.
    TypeTogether,
    /// Somebody types a message with a key that they have used before.
    ReuseKey,
    /// A connection breaks; each end may learn of it, or not.
    BreakLink,
    /// A device reads nothing for a while.
    StallReader,
    /// A device sleeps for a while.
    Sleep,
    /// A device's process is killed and started again.
    CrashDevice,
    /// A gateway's process is killed and started again.
    CrashGateway,
    /// A gateway is stopped in good order and started again.
    DrainGateway,
    /// The store can't be reached for a while.
    StoreOutage,
    /// Somebody joins a conversation, or comes back.
    Join,
    /// Somebody leaves a conversation, or is removed.
    Leave,
    /// A connection breaks, and meanwhile its user leaves a conversation or joins one.
    ComeOrGoWhileAway,
    /// A log loses its beginning.
    Trim,
    /// An operator takes a backup.
    Backup,
    /// An operator restores the last backup and raises every epoch.
    Restore,
    /// An operator raises an epoch for no reason.
    RaiseEpoch,
    /// A newer server writes an entry of a kind that this version doesn't know.
    UnknownKind,
}

impl Mischief {
    /// All there are.
    pub const ALL: [Self; 18] = [
        Self::Type,
        Self::TypeTogether,
        Self::ReuseKey,
        Self::BreakLink,
        Self::StallReader,
        Self::Sleep,
        Self::CrashDevice,
        Self::CrashGateway,
        Self::DrainGateway,
        Self::StoreOutage,
        Self::Join,
        Self::Leave,
        Self::ComeOrGoWhileAway,
        Self::Trim,
        Self::Backup,
        Self::Restore,
        Self::RaiseEpoch,
        Self::UnknownKind,
    ];

    /// Whether it is what users do, and no misfortune.
    const fn is_friendly(self) -> bool {
        matches!(self, Self::Type | Self::TypeTogether | Self::Join | Self::Leave)
    }

    /// How often it is drawn, compared with others.
    const fn weight(self) -> usize {
        match self {
            Self::Type => 40,
            Self::TypeTogether | Self::BreakLink | Self::StallReader | Self::CrashDevice => 8,
            Self::Join => 20,
            Self::Leave => 12,
            Self::ComeOrGoWhileAway => 6,
            Self::Sleep | Self::CrashGateway => 4,
            Self::DrainGateway | Self::StoreOutage | Self::Trim | Self::Backup => 3,
            Self::Restore | Self::ReuseKey => 2,
            Self::RaiseEpoch | Self::UnknownKind => 1,
        }
    }
}

impl fmt::Display for Mischief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::str::FromStr for Mischief {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|mischief| mischief.to_string() == name)
            .ok_or_else(|| format!("there is no mischief {name}; there are {:?}", Self::ALL))
    }
}

/// Each kind is left out of about a third of the worlds, and frequent in another third: a storm of one kind hides what
/// another would show.
pub(super) fn plan(dice: &mut Dice, options: &Options) -> Plan<Mischief> {
    let mut lots = Vec::new();
    for mischief in Mischief::ALL {
        let times = match mischief {
            Mischief::Type => 1,
            Mischief::TypeTogether
            | Mischief::ReuseKey
            | Mischief::BreakLink
            | Mischief::StallReader
            | Mischief::Sleep
            | Mischief::CrashDevice
            | Mischief::CrashGateway
            | Mischief::DrainGateway
            | Mischief::StoreOutage
            | Mischief::Join
            | Mischief::Leave
            | Mischief::ComeOrGoWhileAway
            | Mischief::Trim
            | Mischief::Backup
            | Mischief::Restore
            | Mischief::RaiseEpoch
            | Mischief::UnknownKind => dice.pick(&[0, 1, 4]).expect("there are some"),
        };
        let is_possible = options.climate == Climate::Stormy || mischief.is_friendly();
        if is_possible && !options.without.contains(&mischief) {
            lots.extend(std::iter::repeat_n(mischief, mischief.weight() * times));
        }
    }
    let pause = match dice.below(3) {
        0 => Spread::millis(1, 200),
        1 => Spread::millis(50, 1_500),
        _ => Spread::millis(200, 6_000),
    };
    Plan::new(lots, pause, options.mischief_max, dice)
}

impl World {
    pub(super) fn do_mischief(&mut self) {
        let Some(mischief) = self.mischief.draw(&mut self.dice.mischief) else {
            return self.calm_down();
        };
        let pause = self.dice.mischief.duration(self.mischief.pause());
        self.plan_in(pause, Event::Mischief);
        self.note(|| format!("--- {mischief}"));
        match mischief {
            Mischief::Type => self.type_some(),
            Mischief::TypeTogether => self.type_together(),
            Mischief::ReuseKey => self.reuse_key(),
            Mischief::BreakLink => self.break_some_link(),
            Mischief::StallReader => self.stall_reader(),
            Mischief::Sleep => self.fall_asleep(),
            Mischief::CrashDevice => self.crash_some_device(),
            Mischief::CrashGateway => self.crash_some_gateway(),
            Mischief::DrainGateway => self.drain_some_gateway(),
            Mischief::StoreOutage => self.lose_store(),
            Mischief::Join => self.join_some(),
            Mischief::Leave => self.leave_some(),
            Mischief::ComeOrGoWhileAway => self.come_or_go_while_away(),
            Mischief::Trim => self.trim(),
            Mischief::Backup => self.take_backup(),
            Mischief::Restore => self.restore(),
            Mischief::RaiseEpoch => self.raise_epoch(),
            Mischief::UnknownKind => self.write_unknown_kind(),
        }
    }

    fn break_some_link(&mut self) {
        if let Some(link) = self.any_link() {
            let device_learns = self.dice.mischief.below(3) > 0;
            self.break_link(link, device_learns, self.clock.now());
        }
    }

    fn stall_reader(&mut self) {
        let how_long = self.dice.mischief.duration(Spread::millis(500, 40_000));
        if let Some(link) = self.any_link() {
            self.network.stall(link, self.clock.now() + how_long);
            self.note(|| format!("{link} brings nothing for {how_long:?}"));
        }
    }

    fn fall_asleep(&mut self) {
        let how_long = self.dice.mischief.duration(Spread::millis(500, 90_000));
        let wake = self.clock.now() + how_long;
        let Some(device) = self.any_device() else {
            return;
        };
        let node = self.devices.get_mut(&device).expect("it was added");
        if node.device.is_running() && node.asleep_until.is_none() {
            node.asleep_until = Some(wake);
            self.agenda.plan(wake, Event::DeviceWakes { device });
            self.coverage.note(Landmark::DeviceSlept);
            self.note(|| format!("{device} sleeps for {how_long:?}"));
        }
    }

    fn crash_some_device(&mut self) {
        let back_after = self.dice.mischief.duration(Spread::millis(0, 10_000));
        if let Some(device) = self.any_device() {
            self.crash_device(device, back_after);
        }
    }

    fn crash_some_gateway(&mut self) {
        let gateway = self.any_gateway();
        self.crash_gateway(gateway);
    }

    fn drain_some_gateway(&mut self) {
        let gateway = self.any_gateway();
        self.drain_gateway(gateway)
    }

    fn lose_store(&mut self) {
        let back_after = self.dice.mischief.duration(Spread::millis(100, 10_000));
        if !self.store_is_down {
            self.store_goes_down(back_after);
        }
    }

    pub(super) fn any_device(&mut self) -> Option<DeviceNo> {
        let devices: Vec<_> = self.devices.keys().copied().collect();
        self.dice.mischief.pick(&devices)
    }

    pub(super) fn any_gateway(&mut self) -> GatewayNo {
        let gateways: Vec<_> = self.gateways.keys().copied().collect();
        self.dice.mischief.pick(&gateways).expect("there is a gateway")
    }

    pub(super) fn any_link(&mut self) -> Option<LinkNo> {
        let links: Vec<_> = self.network.standing().map(|(link, _)| link).collect();
        self.dice.mischief.pick(&links)
    }
}
