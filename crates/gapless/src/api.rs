//! The HTTP API, from outside.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use gapless_client::ServerUrl;
use gapless_proto::UserId;
use reqwest::{Client, Method, RequestBuilder, Url};
use serde::Deserialize;
use serde_json::Value;

use crate::connection::{TOKEN_OR_USER, given, how_to_make_a_token};

/// Which server, and who one is to it.
#[derive(Args)]
pub(crate) struct ApiFlags {
    /// Where the server is: http:// or https://, then its host and port
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "GAPLESS_URL",
        default_value = "http://127.0.0.1:7700"
    )]
    url: ServerUrl,
    /// A token with the scope that is needed; `gapless token` makes one
    #[arg(long, global = true, value_name = "TOKEN", env = "GAPLESS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Who one is to a server that runs with `--auth open`; goes before a token. `admin` when neither is given
    #[arg(long = "user", global = true, value_name = "USER")]
    acting_user: Option<UserId>,
}

/// A server's HTTP API.
pub(crate) struct Api {
    client: Client,
    server: ServerUrl,
    url: Url,
    who: Who,
}

/// Who one is to a server.
enum Who {
    Token(String),
    User(UserId),
}

/// How a refusal is told.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalContent,
}

#[derive(Deserialize)]
struct RefusalContent {
    code: String,
    message: String,
}

/// Who one is to an open server if one doesn't say.
const NOBODY_IN_PARTICULAR: &str = "admin";
const NOT_A_GAPLESS: &str = "is that a gapless server? `gapless serve` tells its address when it starts";
const CONNECT_MAX: Duration = Duration::from_secs(10);

impl Api {
    pub(crate) fn new(flags: ApiFlags) -> anyhow::Result<Self> {
        let ApiFlags { url: server, token, acting_user } = flags;
        let who = match (acting_user, given(token.as_ref())) {
            (Some(user), _) => Who::User(user),
            (None, Some(token)) => Who::Token(token.to_owned()),
            (None, None) => Who::User(UserId::new(NOBODY_IN_PARTICULAR)?),
        };
        let url = Url::parse(&server.to_string())
            .with_context(|| format!("{server} can't be read; give an address like http://127.0.0.1:7700"))?;
        install_tls();
        let client = Client::builder().connect_timeout(CONNECT_MAX);
        // A proxy that is set for the internet can't reach this machine's own loopback.
        let client = if is_loopback(&url) { client.no_proxy() } else { client };
        let client = client.build().context("making an HTTP client")?;
        Ok(Self { client, server, url, who })
    }

    /// Calls a route, given the segments of its path, and returns what it answers.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let request = self.client.request(method, self.address(path)?);
        let request = body.into_iter().fold(self.introduce(request), RequestBuilder::json);
        let response = request.send().await.with_context(|| {
            let runs = if self.url.scheme() == "https" { "runs and has TLS" } else { "runs" };
            format!("can't reach {}; see that the server {runs}, or name another with `--url`", self.server)
        })?;
        let status = response.status();
        let text = response.text().await.context("reading the answer")?;
        if status.is_success() {
            return serde_json::from_str(&text).with_context(|| {
                format!("{} answers something else than JSON; {NOT_A_GAPLESS}", self.server)
            });
        }
        match serde_json::from_str::<Refusal>(&text) {
            Ok(Refusal { error }) => bail!(self.with_hint(&error)),
            Err(_) => bail!("{} answers {status}; {NOT_A_GAPLESS}", self.server),
        }
    }

    /// What the server says, and what mends it from here.
    fn with_hint(&self, refusal: &RefusalContent) -> String {
        let RefusalContent { code, message } = refusal;
        let said = format!("{message} ({code})");
        match (code.as_str(), &self.who) {
            ("UNAUTHENTICATED", Who::User(_)) => {
                format!(
                    "{said}\n{}; trim, epoch and kick need `--scope admin`",
                    how_to_make_a_token("NAME --scope service")
                )
            }
            ("UNAUTHENTICATED", Who::Token(_)) => format!("{said}\n{TOKEN_OR_USER}"),
            ("NOT_FOUND", _) if self.url.path() != "/" => format!(
                "{said}\nis {} right? Leave out {} unless a proxy puts it before the server",
                self.server,
                self.url.path()
            ),
            _ => said,
        }
    }

    fn address(&self, path: &[&str]) -> anyhow::Result<Url> {
        if let Some(unspeakable) = path.iter().find(|segment| matches!(**segment, "." | "..")) {
            bail!("`{unspeakable}` can't stand in an address; use another id");
        }
        let mut address = self.url.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        Ok(address)
    }

    fn introduce(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.who {
            Who::Token(token) => request.bearer_auth(token),
            // A header couldn't hold every name.
            Who::User(user) => request.query(&[("user", user.as_str())]),
        }
    }
}

/// Chooses who does the cryptography of `https`, for the whole process.
pub(crate) fn install_tls() {
    // A provider that was installed before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(url: &str) -> Api {
        Api::new(ApiFlags { url: url.parse().unwrap(), token: None, acting_user: None }).unwrap()
    }

    #[test]
    fn an_id_is_one_segment_of_the_path_whatever_it_holds() {
        let address =
            |url: &str, conv: &str| api(url).address(&["v1", "conversations", conv]).map(String::from);
        assert_eq!(
            address("http://h:1", "a/b?c#d%e").unwrap(),
            "http://h:1/v1/conversations/a%2Fb%3Fc%23d%25e"
        );
        assert_eq!(address("http://h/base/", "ü").unwrap(), "http://h/base/v1/conversations/%C3%BC");
        assert!(address("http://h", "..").is_err());
    }

    #[test]
    fn a_refusal_tells_what_to_give_instead() {
        let hint = |url: &str, token: Option<&str>, code: &str| {
            let token = token.map(str::to_owned);
            let api = Api::new(ApiFlags { url: url.parse().unwrap(), token, acting_user: None }).unwrap();
            api.with_hint(&RefusalContent { code: code.to_owned(), message: "no".to_owned() })
        };
        let nobody = hint("http://h", None, "UNAUTHENTICATED");
        assert!(nobody.contains("`gapless token --user NAME --scope service`"), "{nobody}");
        assert!(hint("http://h", Some("T.O.K"), "UNAUTHENTICATED").contains("give `--user NAME` instead"));
        assert!(hint("http://h/a", None, "NOT_FOUND").contains("Leave out /a"));
        assert_eq!(hint("http://h", None, "NOT_FOUND"), "no (NOT_FOUND)");
    }
}
