//! How a connection comes about.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gapless_proto::CloseCode;
use serde::Deserialize;
use tokio_tungstenite::connect_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self};

use super::socket::{Socket, network};
use crate::credentials::{Credentials, FetchError};
use crate::{Closed, ServerUrl};

/// Opens connections to one server as one user.
pub(super) struct Connector {
    url: ServerUrl,
    credentials: Credentials,
    /// The token that was fetched last.
    token: Option<String>,
}

/// A connection that stands, and the token that it was opened with.
pub(super) struct Opened {
    pub(super) socket: Socket,
    pub(super) token: Option<String>,
}

/// Small, since a client has one connection but a test has thousands; tungstenite reserves 128 KiB otherwise.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// How much of what a server says when it refuses is passed on.
const REFUSAL_CHARS_MAX: usize = 300;

impl Connector {
    pub(super) fn new(url: ServerUrl, credentials: Credentials) -> Self {
        if url.is_encrypted() {
            // Fails only if the process has chosen one already, which is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        Self { url, credentials, token: None }
    }

    /// Opens a connection.
    pub(super) fn connect(&self, fresh_token: bool) -> BoxFuture<'static, Result<Opened, Closed>> {
        let url = self.url.clone();
        let credentials = self.credentials.clone();
        let known_token = self.token.clone().filter(|_| !fresh_token);
        async move {
            match credentials {
                Credentials::Open { user, device } => {
                    let query = [("user", user.as_str()), ("device", device.as_str())];
                    open(&url, &query, None).await
                }
                Credentials::Token(source) => {
                    let token = match known_token {
                        Some(token) => token,
                        None => source.fetch().await.map_err(|error| no_token(&error))?,
                    };
                    open(&url, &[], Some(token)).await
                }
            }
        }
        .boxed()
    }

    /// Asks for another token.
    pub(super) fn fetch_token(&self) -> BoxFuture<'static, Result<String, FetchError>> {
        match self.credentials.clone() {
            Credentials::Open { .. } => futures_util::future::pending().boxed(),
            Credentials::Token(source) => async move { source.fetch().await }.boxed(),
        }
    }

    /// Takes a token for the connections to come.
    pub(super) fn set_token(&mut self, token: Option<String>) {
        self.token = token;
    }
}

async fn open(url: &ServerUrl, query: &[(&str, &str)], token: Option<String>) -> Result<Opened, Closed> {
    let request = request(&url.websocket(query), token.as_deref())?;
    let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER_BYTES).write_buffer_size(0);
    match connect_async_with_config(request, Some(config), true).await {
        Ok((stream, _)) => Ok(Opened { socket: Socket::new(stream), token }),
        Err(error) => Err(refusal(url, error)),
    }
}

fn request(url: &str, token: Option<&str>) -> Result<Request, Closed> {
    let mut request = url.into_client_request().map_err(|error| network(&error))?;
    if let Some(token) = token {
        let header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Closed::ByServer {
            code: CloseCode::Unauthenticated.number(),
            reason: "the token holds characters that no token has; give it whole and alone".to_owned(),
        })?;
        request.headers_mut().insert(AUTHORIZATION, header);
    }
    Ok(request)
}

fn no_token(error: &FetchError) -> Closed {
    Closed::Network { message: format!("no token could be had: {error}") }
}

/// What a failed attempt means: an HTTP status that says "not as you are" is like such a close code.
fn refusal(url: &ServerUrl, error: tungstenite::Error) -> Closed {
    let wrong_address = |found: String| Closed::WrongAddress { url: url.websocket(&[]), found };
    if speaks_no_tls(&error) {
        return wrong_address("what answers has no TLS, so its address begins with http://".to_owned());
    }
    if speaks_no_http(&error) {
        let found = "what answers speaks no HTTP; if it has TLS, its address begins with https://";
        return wrong_address(found.to_owned());
    }
    let tungstenite::Error::Http(response) = error else {
        return network(&error);
    };
    let status = response.status();
    if status == StatusCode::NOT_FOUND {
        return wrong_address(format!("the answer is {status}"));
    }
    let said = what_is_said(response.body().as_deref().unwrap_or_default());
    let is_passing =
        matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    let reason = format!("the server answered {status}: {said}");
    if !status.is_client_error() || is_passing {
        return Closed::Network { message: reason };
    }
    let code = match status {
        StatusCode::UNAUTHORIZED => CloseCode::Unauthenticated,
        StatusCode::FORBIDDEN => CloseCode::Kicked,
        _ => CloseCode::ProtocolError,
    };
    Closed::ByServer { code: code.number(), reason }
}

/// Whether bytes came where TLS was awaited; a certificate that isn't trusted is something else.
fn speaks_no_tls(error: &tungstenite::Error) -> bool {
    let tungstenite::Error::Io(error) = error else {
        return false;
    };
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(rustls::Error::InvalidMessage(_)))
}

/// Whether bytes came where the answer to the handshake was awaited.
fn speaks_no_http(error: &tungstenite::Error) -> bool {
    matches!(error, tungstenite::Error::Protocol(ProtocolError::HttparseError(_)))
}

/// A refusal as gapless words it.
#[derive(Deserialize)]
struct HttpError {
    error: HttpErrorBody,
}

#[derive(Deserialize)]
struct HttpErrorBody {
    message: String,
}

/// The message of a refusal; whatever the body is if it comes from something else, as from a proxy.
fn what_is_said(body: &[u8]) -> String {
    match serde_json::from_slice::<HttpError>(body) {
        Ok(HttpError { error }) => error.message,
        Err(_) => String::from_utf8_lossy(body).chars().take(REFUSAL_CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_gapless_is_told_in_its_words_and_any_other_as_it_is() {
        assert_eq!(what_is_said(br#"{"error":{"code":"UNAUTHENTICATED","message":"renew it"}}"#), "renew it");
        assert_eq!(what_is_said(b"<h1>Bad gateway</h1>"), "<h1>Bad gateway</h1>");
    }
}
