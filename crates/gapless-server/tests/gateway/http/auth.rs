//! Who is let in.

use super::api::Api;
use crate::test_server::TestServer;

// Behaviour 20
#[tokio::test]
async fn without_a_token_that_holds_nobody_is_let_in() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;
    for (caller, said) in [
        (server.anonymous(), "no token was given"),
        (server.anonymous().with_header("authorization", "Basic YWxpY2U6"), "no token was given"),
        (server.with_token(&TestServer::foreign_token("alice")), "isn't valid here"),
        (server.with_token("garbage"), "isn't valid here"),
        (server.with_token(&server.expired_token("alice")), "has expired"),
        (server.anonymous().with_header("x-gapless-user", "alice"), "no token was given"),
    ] {
        for (method, path) in server.description().operations() {
            if ["/live", "/ready", "/metrics", "/v1/openapi.json", "/v1/ws"].contains(&path.as_str()) {
                continue;
            }
            let path = path.replace("{conv}", "c").replace("{user}", "alice");
            let answer = caller.call(method.clone(), &path, None).await;
            let message = answer.refused(401, "UNAUTHENTICATED");
            assert!(message.contains(said), "{method} {path}: {message}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
}

#[tokio::test]
async fn a_token_may_stand_in_the_query_and_in_the_list_of_subprotocols() {
    let server = Api::start().await;
    let token = server.token("alice");
    server.anonymous().get(&format!("/v1/conversations?token={token}&limit=1")).await.done();
    let protocols = format!("gapless.v1, bearer.{token}");
    server
        .anonymous()
        .with_header("sec-websocket-protocol", &protocols)
        .get("/v1/conversations")
        .await
        .done();
}
