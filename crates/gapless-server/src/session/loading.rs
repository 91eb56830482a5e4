//! Making a session a reader of its user's conversations.

use std::sync::Arc;

use gapless_store::StoreError;

use crate::gateway::Gateway;
use crate::hub::{SessionHandle, read_standings};

/// Enters a session, which the hub knows already, as a reader of all conversations that its user is or was in.
///
/// When this is through, whatever is committed is pushed to the session.
pub(super) async fn load(gateway: Arc<Gateway>, session: SessionHandle) -> Result<(), StoreError> {
    let _turn = gateway.loading_turn().await;
    let read = read_standings(gateway.hub(), &**gateway.store(), &session).await;
    gateway.hub().handle_loaded(&session);
    read
}
