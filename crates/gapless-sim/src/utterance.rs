//! What the users of a world say: each thing once, and recognisable wherever it turns up.

use std::fmt;

use gapless_proto::{Body, Entry, Key, Kind};

use crate::names::DeviceNo;

/// The `number`th thing that a device's user has typed, over all conversations and crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Utterance {
    pub(crate) device: DeviceNo,
    pub(crate) number: u64,
}

impl Utterance {
    pub(crate) fn body(self) -> Body {
        Body::from_text(format!("[{},{}]", self.device.0, self.number)).expect("it is JSON")
    }

    pub(crate) fn key(self) -> Key {
        Key::new(&format!("d{}-{}", self.device.0, self.number)).expect("it is short")
    }

    /// Reads it back; `None` for what nobody has typed.
    pub(crate) fn of_body(body: &Body) -> Option<Self> {
        let (device, number) = body.parse().ok()?;
        Some(Self { device: DeviceNo(device), number })
    }

    pub(crate) fn of_entry(entry: &Entry) -> Option<Self> {
        (entry.kind == Kind::Message).then(|| Self::of_body(&entry.body)).flatten()
    }
}

impl fmt::Display for Utterance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of {}", self.number, self.device)
    }
}
