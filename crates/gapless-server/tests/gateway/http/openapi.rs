//! The API and its description are one.

use std::collections::BTreeSet;

use reqwest::Method;

use super::api::Api;

#[tokio::test]
async fn every_route_that_is_described_is_there_and_no_other_method_of_it() {
    let server = Api::start().await;
    let operations = server.description().operations();
    assert!(operations.len() >= 18, "{operations:?}");

    let paths: BTreeSet<&String> = operations.iter().map(|(_, path)| path).collect();
    for path in paths {
        let mut described: BTreeSet<&str> = operations
            .iter()
            .filter_map(|(method, described)| (described == path).then_some(method.as_str()))
            .collect();
        if described.contains("GET") {
            described.insert("HEAD");
        }
        let target = path.replace("{conv}", "c").replace("{user}", "u");
        let answer = server.anonymous().call(Method::PATCH, &target, None).await;
        answer.refused(405, "BAD_REQUEST");
        let allowed: BTreeSet<&str> = answer.headers["allow"].to_str().unwrap().split(',').collect();
        assert_eq!(allowed, described, "{path}");
    }
}

#[tokio::test]
async fn a_route_that_is_not_described_is_not_there() {
    let server = Api::start().await;
    for path in ["/", "/v1", "/v1/", "/v1/conversations/", "/v2/conversations"] {
        let message = server.user("alice").get(path).await.refused(404, "NOT_FOUND");
        assert!(message.contains("/v1/openapi.json"), "{path}: {message}");
    }
}

#[tokio::test]
async fn the_description_says_how_to_authenticate_and_of_what_entries_consist() {
    let server = Api::start().await;
    let description = server.anonymous().get("/v1/openapi.json").await.done();
    assert_eq!(description["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let entry = &description["components"]["schemas"]["Entry"];
    let fields: Vec<_> = entry["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["body", "key", "kind", "sender", "seq", "ts"]);
}

#[tokio::test]
async fn the_description_says_how_a_websocket_tells_who_it_is() {
    let server = Api::start().await;
    let description = server.anonymous().get("/v1/openapi.json").await.done();
    let parameters = description["paths"]["/v1/ws"]["get"]["parameters"].as_array().unwrap();
    let names: Vec<_> = parameters.iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(names, ["token", "user", "device"]);
    assert!(parameters.iter().all(|parameter| parameter["required"] == false), "{parameters:?}");
}

#[tokio::test]
async fn the_description_says_of_every_answer_what_it_is() {
    let server = Api::start().await;
    let description = server.anonymous().get("/v1/openapi.json").await.done();
    let paths = description["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
    for operation in operations {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let text = answer["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{status} of {} is not described", operation["operationId"]);
        }
    }
}
