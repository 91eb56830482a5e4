//! Who is connected here, as the rest of the gateway sees it.

use std::sync::{Arc, Mutex, PoisonError};

use gapless_core::{Hub, HubConfig};
use gapless_proto::UserId;

/// Shares the hub. A clone is the same hub.
#[derive(Debug, Clone)]
pub(crate) struct HubHandle(Arc<Mutex<Hub<u64, ()>>>);

impl HubHandle {
    pub(crate) fn new(config: HubConfig) -> Self {
        Self(Arc::new(Mutex::new(Hub::new(config))))
    }

    /// Ends all connections of a user. Returns how many there were.
    pub(crate) fn kick(&self, user: &UserId) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sessions_of(user).len()
    }

    /// How many connections there are.
    pub(crate) fn session_count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).session_count()
    }
}
