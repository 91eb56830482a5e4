//! From an HTTP request to a session.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use gapless_proto::ErrorCode;
use hyper::upgrade::{OnUpgrade, Parts};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tracing::{Instrument as _, debug, info_span};

use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::socket::Socket;
use crate::write_limit::WriteLimited;

/// The subprotocol that browsers name beside their token.
const SUBPROTOCOL: &str = "gapless.v1";
/// What a frame may have beside its body: field names, ids and keys with escapes, or a token.
const ENVELOPE_BYTES_MAX: usize = 4 << 10;

/// `GET /v1/ws`: checks who it is, answers the handshake, and has a session serve the connection from then on.
pub(crate) async fn upgrade(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    mut request: Request,
) -> Result<Response, Refusal> {
    if gateway.is_draining() {
        let message = "the server is about to stop; connect again in a moment";
        return Err(Refusal::new(ErrorCode::Unavailable, message));
    }
    let mut response = create_response_with_body(&request, Body::empty)
        .map_err(|error| Refusal::bad_request(format!("this is no WebSocket handshake: {error}")))?;
    if offers_subprotocol(request.headers()) {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    gateway.spawn(serve(Arc::clone(&gateway), identity, upgrade));
    Ok(response)
}

async fn serve(gateway: Arc<Gateway>, identity: Identity, upgrade: OnUpgrade) {
    let Some(socket) = Box::pin(take_over(&gateway, upgrade)).await else {
        debug!("gave up before the handshake was through");
        return;
    };
    let registration = gateway.hub().connect(gateway.new_session(identity.user.clone()));
    let span = info_span!("session", session = %registration.session().id(), user = %identity.user);
    let session = Session::new(gateway, registration, identity, socket);
    session.run().instrument(span).await;
}

/// Takes the connection over from HTTP, and leaves nothing of what that needed behind.
async fn take_over(gateway: &Gateway, upgrade: OnUpgrade) -> Option<Socket> {
    let config = &gateway.config().session;
    let upgraded = timeout(config.handshake_max, upgrade).await.ok()?.ok()?;
    let Ok(Parts { io, read_buf, .. }) = upgraded.downcast::<TokioIo<WriteLimited>>() else {
        unreachable!("the listener serves TCP");
    };
    let frame_bytes_max = config.body_bytes_max + ENVELOPE_BYTES_MAX;
    Some(Socket::new(io.into_inner().into_inner(), read_buf.to_vec(), frame_bytes_max).await)
}

fn offers_subprotocol(headers: &HeaderMap) -> bool {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|offered| offered.trim() == SUBPROTOCOL)
}
