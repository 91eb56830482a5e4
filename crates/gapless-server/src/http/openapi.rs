//! The description of the API, made from the handlers.

use axum::http::{StatusCode, header};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::answers::EntrySchema;

/// What isn't told by the handlers themselves.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "gapless",
        description = "Brings an application's changes to everyone who must see them: in order, none missed, none \
                       twice. PROTOCOL.md tells what the answers promise.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(websocket, openapi),
    components(schemas(EntrySchema)),
    security(("token" = [])),
    modifiers(&Token),
)]
pub(super) struct Description;

/// How a token is sent.
struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The same log as a stream of frames in both directions; see PROTOCOL.md. The token may also stand in the list of
/// subprotocols, as `gapless.v1, bearer.TOKEN`.
#[utoipa::path(
    get, path = "/v1/ws", tag = "websocket", operation_id = "websocket",
    params(
        ("token" = Option<String>, Query, description = "the token, where nothing else is possible"),
        ("user" = Option<String>, Query, description = "who one is, on a server in open mode, which takes no token"),
        ("device" = Option<String>, Query, description = "which device, on a server in open mode; `default` when left out"),
    ),
    responses(
        (status = 101, description = "the connection is a WebSocket from now on"),
        (status = "default", body = crate::refusal::ErrorBody),
    ),
)]
#[allow(dead_code, reason = "it describes a route that is made elsewhere")]
fn websocket() {}

/// This description.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "health", operation_id = "openapi", security(()),
    responses((status = 200, body = Value)),
)]
#[allow(dead_code, reason = "it describes what `serving` makes")]
fn openapi() {}

/// Serves a description.
pub(super) fn serving<S: Clone + Send + Sync + 'static>(
    description: &utoipa::openapi::OpenApi,
) -> MethodRouter<S> {
    let mut description =
        serde_json::to_value(description).expect("the description is made of texts and numbers");
    describe_answers(&mut description);
    let json = Bytes::from(description.to_string());
    get(move || {
        let json = json.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], json) }
    })
}

/// Says of each answer what it is, as OpenAPI asks for; where a handler says nothing, the status does.
fn describe_answers(description: &mut Value) {
    let operations = description["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in operations.filter_map(Value::as_object_mut).flat_map(|path| path.values_mut()) {
        let answers = operation.get_mut("responses").and_then(Value::as_object_mut);
        for (status, answer) in answers.into_iter().flatten() {
            let reason =
                StatusCode::from_bytes(status.as_bytes()).ok().and_then(|code| code.canonical_reason());
            if answer["description"].as_str().is_none_or(str::is_empty) {
                answer["description"] = reason.unwrap_or("a refusal; its `code` says why").into();
            }
        }
    }
}
