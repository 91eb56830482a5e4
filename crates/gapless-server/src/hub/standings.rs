//! Reading where a user's conversations are.

use gapless_store::{Store, StoreError};

use super::reader::standing;
use super::{HubHandle, SessionHandle};

/// How many conversations are read in one go.
const MEMBERSHIPS_MAX: u32 = 200;

/// Enters a session, which the hub knows already, as a reader of all conversations that its user is or was in. Tell the hub
/// afterwards that it is loaded, also if this fails.
pub(crate) async fn read_standings(
    hub: &HubHandle,
    store: &dyn Store,
    session: &SessionHandle,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let found = store.memberships(session.user(), after.as_ref(), MEMBERSHIPS_MAX).await?;
        let is_last = found.len() < MEMBERSHIPS_MAX as usize;
        after = found.last().map(|membership| membership.conv.clone());
        hub.handle_standings(session, found.into_iter().map(standing).collect());
        if is_last {
            return Ok(());
        }
    }
}
