//! Making a session a reader of its user's conversations.

use std::sync::Arc;

use gapless_store::StoreError;

use crate::gateway::Gateway;
use crate::hub::{self, SessionHandle};

/// How many conversations are read in one go.
const MEMBERSHIPS_MAX: u32 = 200;

/// Enters a session, which the hub knows already, as a reader of all conversations that its user is or was in.
///
/// When this is through, whatever is committed is pushed to the session.
pub(super) async fn load(gateway: Arc<Gateway>, session: SessionHandle) -> Result<(), StoreError> {
    let _turn = gateway.loading_turn().await;
    let mut after = None;
    loop {
        let found = gateway.store().memberships(session.user(), after.as_ref(), MEMBERSHIPS_MAX).await?;
        let is_last = found.len() < MEMBERSHIPS_MAX as usize;
        after = found.last().map(|membership| membership.conv.clone());
        gateway.hub().handle_standings(&session, found.into_iter().map(hub::standing).collect());
        if is_last {
            gateway.hub().handle_loaded(&session);
            return Ok(());
        }
    }
}
