//! What isn't the caller's to know.

use reqwest::Method;
use serde_json::{Value, json};

use super::api::Api;

// Behaviour 20
#[tokio::test]
async fn a_foreign_conversation_is_refused_like_one_that_is_not_there() {
    let server = Api::start().await;
    server.conversation("foreign", &["alice", "bob"]).await;
    let mallory = server.user("mallory");
    let send = json!({"key": "k", "body": 1});

    for (method, route, body) in [
        (Method::GET, "", None),
        (Method::GET, "/members", None),
        (Method::PUT, "/members/mallory", None),
        (Method::PUT, "/members/bob", None),
        (Method::DELETE, "/members/mallory", None),
        (Method::DELETE, "/members/bob", None),
        (Method::GET, "/entries", None),
        (Method::GET, "/entries?after=1&epoch=1", None),
        (Method::GET, "/entries?after=99", None),
        (Method::POST, "/entries", Some(&send)),
    ] {
        let ask = async |conv: &str| {
            mallory.call(method.clone(), &format!("/v1/conversations/{conv}{route}"), body).await
        };
        let (foreign, absent) = (ask("foreign").await, ask("absent").await);
        foreign.refused(404, "NOT_FOUND");
        assert_eq!((foreign.status, &foreign.body), (absent.status, &absent.body), "{method} {route}");
    }
}

// Behaviour 20
#[tokio::test]
async fn who_may_not_administer_is_refused_alike_whatever_there_is() {
    let server = Api::start().await;
    server.conversation("foreign", &["alice"]).await;
    for caller in [server.user("mallory"), server.user("alice"), server.service()] {
        for (route, body) in [("trim", json!({"below": 1})), ("epoch", Value::Null)] {
            let ask = async |conv: &str| {
                caller.post(&format!("/v1/admin/conversations/{conv}/{route}"), &body).await
            };
            let (foreign, absent) = (ask("foreign").await, ask("absent").await);
            foreign.refused(403, "FORBIDDEN");
            assert_eq!(foreign.body, absent.body);
        }
        for path in ["/v1/admin/epoch", "/v1/admin/users/alice/kick", "/v1/admin/tokens"] {
            caller.post(path, &json!({"user": "alice"})).await.refused(403, "FORBIDDEN");
        }
    }
}

#[tokio::test]
async fn an_operator_does_not_read_logs() {
    let server = Api::start().await;
    server.conversation("foreign", &["alice"]).await;
    server.admin().get("/v1/conversations/foreign/entries").await.refused(404, "NOT_FOUND");
}
