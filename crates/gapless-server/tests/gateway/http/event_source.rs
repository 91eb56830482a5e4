//! Server-sent events, as a browser reads them.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::Value;

use super::api::Caller;
use crate::client::within;

/// What a browser calls an `EventSource`, as far as it matters here.
pub(super) struct EventSource {
    pub(super) response: Response,
    text: String,
    pub(super) id: String,
    /// When it was told to come back, in milliseconds.
    pub(super) retry: Option<u64>,
}

impl EventSource {
    pub(super) async fn open(reader: &Caller, query: &str, last: Option<&str>) -> Self {
        let request = reader.request(Method::GET, &format!("/v1/events?{query}"));
        let request = last.iter().fold(request, |request, last| request.header("last-event-id", *last));
        let response: Response = request.timeout(Duration::from_secs(60)).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new(), id: String::new(), retry: None }
    }

    /// The next event's name and data.
    pub(super) async fn next(&mut self) -> (String, Value) {
        self.try_next().await.expect("the stream goes on")
    }

    /// The same of a stream that may have ended.
    pub(super) async fn try_next(&mut self) -> Option<(String, Value)> {
        let event = loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if event.starts_with(':') {
                    continue;
                }
                break event;
            }
            let chunk = within(self.response.chunk()).await.ok().flatten()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        };
        let field =
            |name: &str| event.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::trim);
        if let Some(id) = field("id") {
            self.id = id.to_owned();
        }
        self.retry = field("retry").map(|retry| retry.parse().unwrap()).or(self.retry);
        Some((field("event").unwrap().to_owned(), serde_json::from_str(field("data").unwrap()).unwrap()))
    }
}
