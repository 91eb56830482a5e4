//! A gateway that runs in this process, and the callers of its HTTP API.

use std::fmt;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use gapless_server::{AuthConfig, ChainTips, Config, Scopes};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::description::Description;
use crate::client::Client;
use crate::test_server::TestServer;

/// A gateway, as seen by those who call its API.
pub(crate) struct Api {
    server: TestServer,
    description: Description,
}

/// Somebody who calls the API.
#[derive(Clone)]
pub(crate) struct Caller {
    url: String,
    headers: HeaderMap,
    description: Description,
}

/// What a call is answered with.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Api {
    /// Starts a gateway that takes tokens.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts one where everyone is whom they say they are.
    pub(crate) async fn start_open() -> Self {
        Self::start_with(|config| config.auth = AuthConfig::Open).await
    }

    pub(crate) async fn start_with(configure: impl FnOnce(&mut Config)) -> Self {
        Self::of(TestServer::start_with(configure).await).await
    }

    /// The API of a gateway that was started otherwise.
    pub(crate) async fn of(server: TestServer) -> Self {
        let description = Description::fetch(server.address()).await;
        Self { server, description }
    }

    /// What is told of the chains that are followed beside it.
    pub(crate) fn tips(&self) -> &ChainTips {
        self.server.tips()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A user's WebSocket.
    pub(crate) async fn connect(&self, name: &str) -> Client {
        self.server.connect(name).await
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// An ordinary user.
    pub(crate) fn user(&self, name: &str) -> Caller {
        self.with_token(&self.token(name))
    }

    /// An ordinary user's token.
    pub(crate) fn token(&self, name: &str) -> String {
        self.server.token(name)
    }

    /// A token whose time is over.
    pub(crate) fn expired_token(&self, name: &str) -> String {
        self.server.expired_token(name)
    }

    /// A token that may read some topics and runs out.
    pub(crate) fn short_token(&self, name: &str, scope: &str, ttl: Duration) -> String {
        self.server.short_token(name, Scopes::parse(scope).unwrap(), ttl)
    }

    /// A trusted backend.
    pub(crate) fn service(&self) -> Caller {
        self.scoped("backend", Scopes { service: true, ..Scopes::default() })
    }

    /// An operator.
    pub(crate) fn admin(&self) -> Caller {
        self.scoped("operator", Scopes { admin: true, ..Scopes::default() })
    }

    /// One who may do everything.
    pub(crate) fn root(&self) -> Caller {
        self.scoped("root", Scopes { service: true, admin: true, ..Scopes::default() })
    }

    fn scoped(&self, name: &str, scopes: Scopes) -> Caller {
        self.with_token(&self.server.scoped_token(name, scopes))
    }

    pub(crate) fn with_token(&self, token: &str) -> Caller {
        self.anonymous().with_header("authorization", &format!("Bearer {token}"))
    }

    /// One who says nothing of themselves.
    pub(crate) fn anonymous(&self) -> Caller {
        Caller {
            url: format!("http://{}", self.server.address()),
            headers: HeaderMap::new(),
            description: self.description.clone(),
        }
    }

    /// Makes a conversation; the first member creates it.
    pub(crate) async fn conversation(&self, conv: &str, members: &[&str]) {
        let (creator, others) = members.split_first().unwrap();
        let request = json!({"conv": conv, "creator": creator, "members": others});
        self.service().post("/v1/conversations", &request).await.done();
    }
}

impl Caller {
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn put(&self, path: &str) -> Answer {
        self.call(Method::PUT, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Sends a message whose content is its key, and returns its seq.
    pub(crate) async fn say(&self, conv: &str, key: &str) -> u64 {
        let request = json!({"key": key, "body": key});
        let sent = self.post(&format!("/v1/conversations/{conv}/entries"), &request).await;
        sent.done()["seq"].as_u64().unwrap()
    }

    /// Calls, and holds the answer against the description of the API.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.request(method.clone(), path);
        let answer = self.send(body.iter().fold(request, |request, body| request.json(body))).await;
        self.description.check(&method, path, answer.status, &answer.body);
        answer
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        client().request(method, format!("{}{path}", self.url)).headers(self.headers.clone())
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }
}

impl Answer {
    /// The body of an answer that is no refusal.
    pub(crate) fn done(&self) -> Value {
        assert!(self.status.is_success(), "{self}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// The message of a refusal with this code.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self}"));
        assert_eq!((self.status.as_u16(), &body["error"]["code"]), (status, &json!(code)), "{self}");
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.body)
    }
}

/// The seqs of a page.
pub(crate) fn seqs(page: &Value) -> Vec<u64> {
    page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

/// One for all tests: making one reads the certificates of the machine. Connections aren't kept, since each test has a
/// runtime of its own.
pub(crate) fn client() -> &'static reqwest::Client {
    static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
        rustls::crypto::ring::default_provider().install_default().unwrap();
        reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap()
    });
    &CLIENT
}
