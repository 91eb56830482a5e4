//! Asks a server for a table.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gapless_proto::ErrorCode;
use reqwest::header::ACCEPT;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::{Deserialize, Serialize};

use super::page::{Answer, PageError, Values};
use crate::wire::{BINARY_ROWS, TEXT_ROWS, TableDescription};

/// A table of a server.
#[derive(Debug, Clone)]
pub struct SourceClient {
    client: Client,
    table: Url,
    server: Url,
    who: Reader,
}

/// Who one is to a server.
#[derive(Debug, Clone)]
pub enum Reader {
    /// Who a token says.
    Token(String),
    /// A name, for a server that lets everybody in.
    User(String),
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Question<'a> {
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<&'a str>,
    /// Without a cursor: where to begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<&'a str>,
    /// The most rows.
    pub limit: u32,
    /// How long to wait for rows, in milliseconds.
    pub wait_ms: u64,
}

/// Why a server gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// Nobody answers, or the answer breaks off.
    #[error("can't reach {server}: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The server refuses.
    #[error("{message} ({code})")]
    Refused {
        /// What kind of refusal.
        code: ErrorCode,
        /// What the server says about it.
        message: String,
        /// When to ask again.
        retry_after: Option<Duration>,
    },
    /// The answer isn't one of this protocol.
    #[error("{server} answers {what}; is that a gapless server?")]
    Strange {
        /// The server.
        server: String,
        /// What it answers.
        what: String,
        /// Whether it may be a passing fault of something between.
        is_passing: bool,
    },
    /// A page is broken.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A page is larger than any should be.
    #[error("an answer has more than {} MiB; a row may be too large to be copied", ANSWER_BYTES_MAX >> 20)]
    TooLarge,
}

impl SourceFault {
    /// Whether the same question may be answered later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => code.is_retryable(),
            Self::Strange { is_passing, .. } => *is_passing,
            Self::Page(PageError::Cut | PageError::TooLong | PageError::Head) => true,
            Self::Page(PageError::Fields { .. } | PageError::Op { .. }) | Self::TooLarge => false,
        }
    }

    /// Whether the server can't go on from the cursor.
    pub fn is_about_the_cursor(&self) -> bool {
        match self {
            Self::Refused { code, .. } => {
                matches!(code, ErrorCode::CursorInvalid | ErrorCode::EpochChanged | ErrorCode::CursorExpired)
            }
            Self::Unreachable { .. } | Self::Strange { .. } | Self::Page(_) | Self::TooLarge => false,
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. } | Self::Strange { .. } | Self::Page(_) | Self::TooLarge => None,
        }
    }
}

/// How a refusal is told.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalContent,
}

#[derive(Deserialize)]
struct RefusalContent {
    code: ErrorCode,
    message: String,
    #[serde(default)]
    retry_after_ms: Option<u64>,
}

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longer than a server waits for rows.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A page ends at 8 MiB, but its last row may be large.
const ANSWER_BYTES_MAX: usize = 256 << 20;
const DESCRIPTION_BYTES_MAX: usize = 16 << 20;
const REFUSAL_BYTES_MAX: usize = 64 << 10;

impl SourceClient {
    /// Prepares to ask; nothing is asked yet. Whoever uses `https` has installed what does the cryptography.
    pub fn new(server: Url, table: &str, who: Reader) -> Result<Self, reqwest::Error> {
        let client = Client::builder().connect_timeout(CONNECT_MAX).read_timeout(SILENCE_MAX);
        // A proxy that is set for the internet can't reach this machine's own loopback.
        let is_loopback = matches!(server.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let client = if is_loopback { client.no_proxy() } else { client };
        let mut address = server.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty().extend(["v1", "tables", table]);
        }
        Ok(Self { client: client.build()?, table: address, server, who })
    }

    /// The server, without what isn't to be shown.
    pub fn server(&self) -> String {
        let host = self.server.host_str().unwrap_or_default();
        let port = self.server.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}", self.server.scheme())
    }

    /// Asks what a copy needs to be.
    pub async fn describe(&self) -> Result<TableDescription, SourceFault> {
        let answer = self.answer(self.client.get(self.table.clone()), DESCRIPTION_BYTES_MAX).await?;
        serde_json::from_slice(&answer).map_err(|error| SourceFault::Strange {
            server: self.server(),
            what: format!("what is no description of a table ({error})"),
            is_passing: false,
        })
    }

    /// Asks for a page.
    pub async fn page(&self, question: &Question<'_>, values: Values) -> Result<Answer, SourceFault> {
        let mut address = self.table.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.push("sync");
        }
        let accept = match values {
            Values::Binary => BINARY_ROWS,
            Values::Text => TEXT_ROWS,
        };
        let request = self.client.post(address).header(ACCEPT, accept).json(question);
        Ok(Answer::parse(self.answer(request, ANSWER_BYTES_MAX).await?)?)
    }

    async fn answer(&self, request: RequestBuilder, bytes_max: usize) -> Result<Bytes, SourceFault> {
        let request = match &self.who {
            Reader::Token(token) => request.bearer_auth(token),
            Reader::User(user) => request.query(&[("user", user)]),
        };
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return self.body(response, bytes_max).await;
        }
        let body = self.body(response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(Refusal { error: RefusalContent { code, message, retry_after_ms } }) => {
                Err(SourceFault::Refused {
                    code,
                    message,
                    retry_after: retry_after_ms.map(Duration::from_millis),
                })
            }
            Err(_) => Err(SourceFault::Strange {
                server: self.server(),
                what: status.to_string(),
                is_passing: status.is_server_error(),
            }),
        }
    }

    async fn body(&self, mut response: Response, bytes_max: usize) -> Result<Bytes, SourceFault> {
        let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
        if announced.is_some_and(|length| length > bytes_max) {
            return Err(SourceFault::TooLarge);
        }
        let mut body = BytesMut::with_capacity(announced.unwrap_or_default());
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + chunk.len() > bytes_max {
                return Err(SourceFault::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn unreachable(&self, error: &reqwest::Error) -> SourceFault {
        // What lies at the bottom is what tells most.
        let mut cause: &dyn std::error::Error = error;
        while let Some(below) = cause.source() {
            cause = below;
        }
        SourceFault::Unreachable { server: self.server(), reason: cause.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_an_address_behind_whatever_path_the_server_has() {
        let client = client("https://h.example:1/base/");
        assert_eq!(client.table.as_str(), "https://h.example:1/base/v1/tables/orders");
        assert_eq!(client.server(), "https://h.example:1");
    }

    #[test]
    fn what_a_server_says_decides_whether_it_is_asked_again() {
        let refused = |code| SourceFault::Refused { code, message: String::new(), retry_after: None };
        assert!(refused(ErrorCode::Unavailable).is_retryable());
        assert!(!refused(ErrorCode::NotFound).is_retryable());
        assert!(!refused(ErrorCode::EpochChanged).is_retryable());
        assert!(refused(ErrorCode::CursorExpired).is_about_the_cursor());
        assert!(!refused(ErrorCode::Forbidden).is_about_the_cursor());
        assert!(SourceFault::Page(PageError::Cut).is_retryable());
        assert!(!SourceFault::Page(PageError::Op { index: 0 }).is_retryable());
    }

    fn client(server: &str) -> SourceClient {
        // A provider that was installed before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        SourceClient::new(server.parse().unwrap(), "orders", Reader::User("me".to_owned())).unwrap()
    }
}
