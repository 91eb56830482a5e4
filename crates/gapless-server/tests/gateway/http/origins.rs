//! Web pages of other origins, which a browser lets read only what the server says they may.

use gapless_server::{AuthConfig, Origins};
use reqwest::Method;

use super::api::{Answer, Api};

const APP: &str = "https://app.example";

#[tokio::test]
async fn a_page_may_read_answers_and_refusals_if_its_origin_is_configured() {
    let server = Api::start_with(|config| config.http.origins = these(&[APP])).await;
    let page = server.user("alice").with_header("origin", APP);
    assert_eq!(allowed(&page.get("/v1/conversations").await), Some(APP));
    assert_eq!(allowed(&page.get("/v1/conversations/none").await), Some(APP));
    let asked = page.clone().with_header("access-control-request-method", "POST");
    let asked = asked.with_header("access-control-request-headers", "authorization,content-type");
    let answer = asked.send(asked.request(Method::OPTIONS, "/v1/conversations")).await;
    assert_eq!((answer.status.as_u16(), allowed(&answer)), (200, Some(APP)));
    let headers = answer.headers["access-control-allow-headers"].to_str().unwrap();
    assert!(headers.contains("authorization") && headers.contains("last-event-id"), "{headers}");

    let other = server.user("alice").with_header("origin", "https://evil.example");
    assert_eq!(allowed(&other.get("/v1/conversations").await), None);
}

#[tokio::test]
async fn nobody_is_allowed_unless_it_is_configured() {
    let server = Api::start().await;
    let page = server.user("alice").with_header("origin", APP);
    assert_eq!(allowed(&page.get("/v1/conversations").await), None);
    let everybody = Api::start_with(|config| config.http.origins = Origins::Any).await;
    let page = everybody.user("alice").with_header("origin", APP);
    assert_eq!(allowed(&page.get("/v1/conversations").await), Some("*"));
}

#[tokio::test]
async fn an_open_server_allows_the_pages_of_its_own_machine_and_no_others_whatever_is_configured() {
    let server = Api::start_with(|config| {
        config.auth = AuthConfig::Open;
        config.http.origins = these(&[APP]);
    })
    .await;
    let alice = server.anonymous().with_header("x-gapless-user", "alice");
    let own = "http://localhost:5173";
    assert_eq!(allowed(&alice.clone().with_header("origin", own).get("/v1/conversations").await), Some(own));
    alice.with_header("origin", APP).get("/v1/conversations").await.refused(403, "FORBIDDEN");
}

fn these(origins: &[&'static str]) -> Origins {
    Origins::These(origins.iter().map(|origin| origin.parse().unwrap()).collect())
}

fn allowed(answer: &Answer) -> Option<&str> {
    answer.headers.get("access-control-allow-origin").map(|origin| origin.to_str().unwrap())
}
