//! The node over HTTP.

use std::iter;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::script::{Answer, Script};

/// So many that memory would show it, and not so many that a test without bounds harms the machine.
const ENDLESS_CHUNKS: usize = 50_000;

/// Serves on a port of its own. Returns its address.
pub(super) async fn serve_http(script: Arc<Mutex<Script>>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/", post(answer)).with_state(script);
    (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    let mut script = script.lock().unwrap();
    let requests = match &request {
        Value::Array(requests) => requests.clone(),
        _ => vec![request.clone()],
    };
    let mut answers = Vec::new();
    for one in requests {
        match script.answer(None, one["method"].as_str().unwrap(), &one["params"]) {
            Answer::Result(result) => {
                answers.push(json!({"jsonrpc": "2.0", "id": one["id"], "result": result}))
            }
            Answer::Error(code, message) => answers.push(
                json!({"jsonrpc": "2.0", "id": one["id"], "error": {"code": code, "message": message}}),
            ),
            Answer::Status(status, retry_after) => {
                let retry_after = retry_after.map(|value| (header::RETRY_AFTER, value.parse().unwrap()));
                let headers: HeaderMap = retry_after.into_iter().collect();
                return (StatusCode::from_u16(status).unwrap(), headers, "no").into_response();
            }
            Answer::Truncated => {
                let half = [Ok(Bytes::from_static(b"{\"jsonrpc\":")), Err("the connection ends")];
                return Body::from_stream(stream::iter(half)).into_response();
            }
            Answer::Endless => {
                let spaces = Ok::<_, &str>(Bytes::from_static(&[b' '; 4_096]));
                return Body::from_stream(stream::iter(iter::repeat_n(spaces, ENDLESS_CHUNKS)))
                    .into_response();
            }
        }
    }
    let body = if request.is_array() { Value::Array(answers) } else { answers.remove(0) };
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
