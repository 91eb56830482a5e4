//! Asks a server for a table.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gapless_proto::ErrorCode;
use reqwest::header::ACCEPT;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::page::{Answer, Records, Values};
use super::source_fault::SourceFault;
use crate::wire::{BINARY_ROWS, KeyRange, RangeDigest, RowDigest, RowsHead, TEXT_ROWS, TableDescription};

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

#[derive(Serialize)]
struct Keys<'a> {
    keys: &'a [Vec<String>],
}

#[derive(Deserialize)]
struct RowDigests {
    rows: Vec<RowDigest>,
}

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longer than a server waits for rows.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A page ends at 8 MiB, but its last row may be large.
pub(super) const ANSWER_BYTES_MAX: usize = 256 << 20;
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
        serde_json::from_slice(&answer)
            .map_err(|error| self.strange(&format!("what is no description of a table ({error})")))
    }

    /// Asks for a page.
    pub async fn page(&self, question: &Question<'_>, values: Values) -> Result<Answer, SourceFault> {
        let request = self.client.post(self.below("sync")).header(ACCEPT, accept(values)).json(question);
        Ok(Answer::parse(self.answer(request, ANSWER_BYTES_MAX).await?)?)
    }

    /// Asks for the sum of a range, or of so many rows from its beginning.
    pub async fn digest(&self, range: &KeyRange, rows: Option<u32>) -> Result<RangeDigest, SourceFault> {
        #[derive(Serialize)]
        struct Asked<'a> {
            #[serde(flatten)]
            range: &'a KeyRange,
            #[serde(skip_serializing_if = "Option::is_none")]
            limit: Option<u32>,
        }
        self.digests(&Asked { range, limit: rows }).await
    }

    /// Asks for the hashes of so many rows from the beginning of a range, in the order of their keys.
    pub async fn row_digests(&self, range: &KeyRange, rows: u32) -> Result<Vec<RowDigest>, SourceFault> {
        #[derive(Serialize)]
        struct Asked<'a> {
            #[serde(flatten)]
            range: &'a KeyRange,
            rows: u32,
        }
        let RowDigests { rows } = self.digests(&Asked { range, rows }).await?;
        Ok(rows)
    }

    /// Asks for the hashes of the rows that have some keys.
    pub async fn key_digests(&self, keys: &[Vec<String>]) -> Result<Vec<RowDigest>, SourceFault> {
        let RowDigests { rows } = self.digests(&Keys { keys }).await?;
        Ok(rows)
    }

    /// Asks for the rows of some keys.
    pub async fn rows(
        &self,
        keys: &[Vec<String>],
        columns: usize,
        values: Values,
    ) -> Result<(RowsHead, Records), SourceFault> {
        let request =
            self.client.post(self.below("rows")).header(ACCEPT, accept(values)).json(&Keys { keys });
        let (head, records) =
            Records::of_keys(self.answer(request, ANSWER_BYTES_MAX).await?, columns, values)?;
        match records.is_empty() {
            false => Ok((head, records)),
            true => Err(self.strange("no rows, though it was asked for some")),
        }
    }

    async fn digests<T: DeserializeOwned>(&self, asked: &impl Serialize) -> Result<T, SourceFault> {
        let request = self.client.post(self.below("digest")).json(asked);
        let answer = self.answer(request, ANSWER_BYTES_MAX).await?;
        serde_json::from_slice(&answer).map_err(|error| self.strange(&format!("what is no digest ({error})")))
    }

    /// The address of something below the table.
    fn below(&self, what: &str) -> Url {
        let mut address = self.table.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.push(what);
        }
        address
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

    fn strange(&self, what: &str) -> SourceFault {
        SourceFault::Strange { server: self.server(), what: what.to_owned(), is_passing: false }
    }

    /// What it means that an answer didn't come in time.
    pub(crate) fn silent(&self) -> SourceFault {
        SourceFault::Unreachable { server: self.server(), reason: "no answer came in time".to_owned() }
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

fn accept(values: Values) -> &'static str {
    match values {
        Values::Binary => BINARY_ROWS,
        Values::Text => TEXT_ROWS,
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

    fn client(server: &str) -> SourceClient {
        // A provider that was installed before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        SourceClient::new(server.parse().unwrap(), "orders", Reader::User("me".to_owned())).unwrap()
    }
}
