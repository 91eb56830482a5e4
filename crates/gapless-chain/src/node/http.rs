//! Questions over HTTP, whose answers are bounded.

use std::task::{Context, Poll};
use std::time::Duration;

use alloy_json_rpc::{RequestPacket, ResponsePacket};
use alloy_transport::{TransportError, TransportErrorKind, TransportFut};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, Url};
use tower_service::Service;

/// Asks a node over HTTP and gives up on answers that are too long, so that none fills the memory.
#[derive(Debug, Clone)]
pub(super) struct BoundedHttp {
    pub(super) client: reqwest::Client,
    pub(super) url: Url,
    pub(super) answer_bytes_max: usize,
}

/// An answer is too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer is longer than {bytes_max} bytes")]
pub(super) struct AnswerTooLong {
    bytes_max: usize,
}

impl Service<RequestPacket> for BoundedHttp {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, questions: RequestPacket) -> Self::Future {
        let http = self.clone();
        Box::pin(async move { http.ask(questions).await })
    }
}

impl BoundedHttp {
    async fn ask(self, questions: RequestPacket) -> Result<ResponsePacket, TransportError> {
        let asked = self.client.post(self.url).json(&questions).send().await;
        let response = asked.map_err(TransportErrorKind::custom)?;
        let (status, pause) = (response.status(), retry_after(response.headers()));
        let body = body(response, self.answer_bytes_max).await;
        if !status.is_success() {
            // What is wrong is known without the rest of the body, too.
            let body = body.unwrap_or_default();
            // Some nodes put an error of JSON-RPC there.
            return match serde_json::from_slice::<ResponsePacket>(&body) {
                Ok(answer) if answer.is_error() && pause.is_none() => Ok(answer),
                _ => {
                    let body = String::from_utf8_lossy(&body).into_owned();
                    Err(TransportErrorKind::http_error_with_retry_after(status.as_u16(), body, pause))
                }
            };
        }
        let body = body?;
        serde_json::from_slice(&body)
            .map_err(|error| TransportError::deser_err(error, String::from_utf8_lossy(&body)))
    }
}

/// Reads an answer, at most so many bytes.
async fn body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, TransportError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(TransportErrorKind::custom)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(TransportErrorKind::custom(AnswerTooLong { bytes_max }));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The seconds that a node wants to be left alone.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
