//! The API as it describes itself, and whether it keeps to that.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};

use super::api::client;

/// A description of the API, as it is served.
#[derive(Clone)]
pub(crate) struct Description(Arc<Value>);

impl Description {
    pub(crate) async fn fetch(address: SocketAddr) -> Self {
        let response = client().get(format!("http://{address}/v1/openapi.json")).send().await.unwrap();
        Self(Arc::new(response.error_for_status().unwrap().json().await.unwrap()))
    }

    /// All that it describes, as methods and paths.
    pub(crate) fn operations(&self) -> Vec<(Method, String)> {
        let operations = self.paths().iter().flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase().parse().unwrap(), path.clone()))
        });
        operations.collect()
    }

    /// Holds an answer against what is described.
    pub(crate) fn check(&self, method: &Method, path: &str, status: StatusCode, body: &str) {
        let Some(operation) = self.operation(method, path) else {
            assert!(
                matches!(status.as_u16(), 404 | 405),
                "{method} {path} isn't described, and answers {status}"
            );
            return;
        };
        let responses = &operation["responses"];
        let response = responses.get(status.as_str()).unwrap_or(&responses["default"]);
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_null() {
            assert!(response.is_object(), "{method} {path} answers {status}, which isn't described");
            return;
        }
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        if let Err(error) = self.conforms(&body, schema) {
            panic!("{method} {path} answers {status} {body}, but {error}");
        }
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap_or_default();
        let method = method.as_str().to_lowercase();
        self.paths().iter().find(|(template, _)| matches(template, path))?.1.get(method)
    }

    fn paths(&self) -> &Map<String, Value> {
        self.0["paths"].as_object().unwrap()
    }

    /// Whether a value is of a schema; only as much of JSON Schema as is used here.
    fn conforms(&self, value: &Value, schema: &Value) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = self.0.pointer(reference.trim_start_matches('#'));
            return self.conforms(value, schema.ok_or_else(|| format!("there is no {reference}"))?);
        }
        match schema["type"].as_str() {
            None => Ok(()),
            Some("object") => self.object_conforms(value, schema),
            Some("array") => {
                let items = value.as_array().ok_or_else(|| format!("{value} is no array"))?;
                items.iter().try_for_each(|item| self.conforms(item, &schema["items"]))
            }
            Some("string") if value.is_string() => Ok(()),
            Some("integer") if value.is_u64() => Ok(()),
            Some("boolean") if value.is_boolean() => Ok(()),
            Some(kind) => Err(format!("{value} is no {kind}")),
        }
    }

    fn object_conforms(&self, value: &Value, schema: &Value) -> Result<(), String> {
        let object = value.as_object().ok_or_else(|| format!("{value} is no object"))?;
        let Some(properties) = schema["properties"].as_object() else {
            return Ok(());
        };
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.into_iter().find(|name| !object.contains_key(*name)) {
            return Err(format!("`{missing}` is missing"));
        }
        object.iter().try_for_each(|(name, value)| {
            let schema = properties.get(name).ok_or_else(|| format!("`{name}` isn't described"))?;
            self.conforms(value, schema)
        })
    }
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let fits = |(template, given): (&&str, &&str)| template == given || template.starts_with('{');
    template.len() == path.len() && template.iter().zip(&path).all(fits)
}

#[test]
fn an_answer_that_is_not_as_described_is_noticed() {
    let description = Description(Arc::new(serde_json::json!({
        "paths": {"/a/{b}": {"get": {"responses": {"200": {"content": {"application/json": {"schema": {
            "$ref": "#/components/schemas/Answer"
        }}}}}}}},
        "components": {"schemas": {"Answer": {
            "type": "object",
            "required": ["seq"],
            "properties": {
                "seq": {"type": "integer"},
                "names": {"type": "array", "items": {"type": "string"}},
            },
        }}},
    })));
    let check = |body: &str| {
        std::panic::catch_unwind(|| description.check(&Method::GET, "/a/x?y=z", StatusCode::OK, body)).is_ok()
    };
    assert!(check(r#"{"seq": 1, "names": ["n"]}"#));
    for wrong in ["", "{}", r#"{"seq": "1"}"#, r#"{"seq": 1, "names": [2]}"#, r#"{"seq": 1, "more": 2}"#] {
        assert!(!check(wrong), "{wrong}");
    }
}
