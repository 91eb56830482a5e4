//! How the hub and others name a session.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use gapless_core::DeliveryConfig;
use gapless_proto::{SessionId, UserId};

use super::HubHandle;
use crate::mailbox::Mailbox;

/// One session, with its mailbox, so that a push needs no look-up. A clone is the same session; ordered by number, the order
/// of the connections.
#[derive(Clone)]
pub(crate) struct SessionHandle(Arc<Inner>);

struct Inner {
    number: u64,
    id: SessionId,
    user: UserId,
    mailbox: Mailbox,
}

impl SessionHandle {
    /// Names a session. `number` must not have been given to another one of this gateway.
    pub(crate) fn new(number: u64, id: SessionId, user: UserId, delivery: DeliveryConfig) -> Self {
        Self(Arc::new(Inner { number, id, user, mailbox: Mailbox::new(delivery) }))
    }

    /// Its name in the log.
    pub(crate) fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// Whose it is.
    pub(crate) fn user(&self) -> &UserId {
        &self.0.user
    }

    /// Where others leave things for it.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.0.mailbox
    }
}

impl PartialEq for SessionHandle {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for SessionHandle {}

impl PartialOrd for SessionHandle {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SessionHandle {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.id, f)
    }
}

/// That a session is known to the hub; the hub forgets it when this is dropped.
pub(crate) struct Registration {
    hub: HubHandle,
    session: SessionHandle,
}

impl Registration {
    pub(super) fn new(hub: HubHandle, session: SessionHandle) -> Self {
        Self { hub, session }
    }

    /// The session.
    pub(crate) fn session(&self) -> &SessionHandle {
        &self.session
    }

    /// The hub that knows it.
    pub(crate) fn hub(&self) -> &HubHandle {
        &self.hub
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.hub.handle_disconnected(&self.session);
    }
}
