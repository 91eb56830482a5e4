//! Tables over HTTP, from a real PostgreSQL.

use gapless_tables::{TableConfig, purge};
use reqwest::Method;
use serde_json::{Value, json};

use super::api::Api;
use super::event_source::EventSource;
use crate::client::within;
use crate::shop::Shop;
use crate::test_server::TestServer;

const SYNC: &str = "/v1/tables/orders/sync";

/// A gateway that reads a table of orders for others.
pub(crate) struct Counter {
    pub(crate) api: Api,
    shop: Shop,
}

impl Counter {
    pub(crate) async fn start() -> Self {
        let shop = Shop::open().await;
        let api = Api::of(TestServer::start_with_tables(shop.declared()).await).await;
        Self { api, shop }
    }

    pub(crate) async fn execute(&self, statements: &str) {
        self.shop.execute(statements).await;
    }
}

#[tokio::test]
async fn pages_follow_each_other_until_nothing_is_left() {
    let counter = Counter::start().await;
    counter.execute("INSERT INTO orders SELECT n, 'new', 1.50, n = 2, '2026-01-01 00:00:00.000001+00' FROM generate_series(1, 3) n").await;
    let backend = counter.api.service();
    let first = backend.post(SYNC, &json!({"limit": 2})).await.done();
    let row = json!({"id": "1", "status": "new", "total": "1.50", "paid": false, "updated_at": "2026-01-01 00:00:00.000001+00"});
    assert_eq!(first["records"][0], json!({"op": "upsert", "row": row}));
    assert_eq!((&first["has_more"], &first["consistency"]), (&json!(true), &json!("strict")));
    let second = backend
        .post("/sync", &json!({"table": "orders", "cursor": first["next_cursor"], "limit": 2}))
        .await
        .done();
    assert_eq!((second["records"].as_array().unwrap().len(), &second["has_more"]), (1, &json!(false)));
    counter.execute("DELETE FROM orders WHERE id = 3").await;
    let third = backend.post(SYNC, &json!({"cursor": second["next_cursor"]})).await.done();
    assert_eq!(third["records"], json!([{"op": "delete", "key": {"id": "3"}}]));
    assert_eq!(third["schema_version"], first["schema_version"]);
}

#[tokio::test]
async fn who_waits_is_answered_when_something_comes() {
    let counter = Counter::start().await;
    let backend = counter.api.service();
    let first = backend.post(SYNC, &json!({})).await.done();
    let request = json!({"cursor": first["next_cursor"], "wait_ms": 20_000});
    let (answer, ()) = tokio::join!(
        within(backend.post(SYNC, &request)),
        counter.execute("INSERT INTO orders VALUES (1, 'new', 1, true, now())"),
    );
    assert_eq!(answer.done()["records"].as_array().unwrap().len(), 1);
    backend.post(SYNC, &json!({"wait_ms": 20_001})).await.refused(400, "BAD_REQUEST");
}

#[tokio::test]
async fn each_form_says_the_same() {
    let counter = Counter::start().await;
    counter.execute("INSERT INTO orders VALUES (7, 'new', 1.50, NULL, now())").await;
    let accepting = async |kind: &str| {
        let request = counter.api.service().with_header("accept", kind).request(Method::POST, SYNC);
        let response = within(request.json(&json!({})).send()).await.unwrap();
        assert_eq!(response.headers()["content-type"], kind);
        response.bytes().await.unwrap()
    };
    let lines = accepting("application/x-ndjson").await;
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    let (id, has_more) = (lines[0]["row"]["id"].as_str(), lines[1]["page"]["has_more"].as_bool());
    assert_eq!((id, has_more), (Some("7"), Some(false)));
    for (kind, key) in [
        ("application/vnd.gapless.rows; values=text", b"7".as_slice()),
        ("application/vnd.gapless.rows", &7_i64.to_be_bytes()),
    ] {
        let rows = accepting(kind).await;
        let (length, rest) = rows.split_first_chunk::<4>().unwrap();
        let (head, rows) = rest.split_at(u32::from_be_bytes(*length) as usize);
        let head: Value = serde_json::from_slice(head).unwrap();
        assert_eq!((&head["records"], &head["has_more"]), (&json!(1), &json!(false)));
        let op = if kind.ends_with("text") { b"0".as_slice() } else { &[0, 0] };
        let field = |value: &[u8]| {
            let length = i32::try_from(value.len()).unwrap();
            [length.to_be_bytes().as_slice(), value].concat()
        };
        let expected = [6_i16.to_be_bytes().to_vec(), field(op), field(key)].concat();
        assert!(rows.starts_with(&expected), "{rows:?}");
    }
    let image = counter.api.service().with_header("accept", "image/png");
    image.post(SYNC, &json!({})).await.refused(400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_table_is_read_by_those_whose_token_says_so() {
    let counter = Counter::start().await;
    let with = |scope: &str| {
        let token = counter.api.short_token("reporter", scope, std::time::Duration::from_secs(60));
        counter.api.with_token(&token)
    };
    with("read:table:orders").post(SYNC, &json!({})).await.done();
    assert_eq!(with("read:table:*").get("/v1/tables/orders").await.done()["key"], json!(["id"]));
    let message = with("read:table:users").post(SYNC, &json!({})).await.refused(403, "FORBIDDEN");
    assert!(message.contains("read:table:orders"), "{message}");
    counter.api.user("alice").get("/v1/tables/orders").await.refused(403, "FORBIDDEN");
    counter.api.service().post("/v1/tables/nothing/sync", &json!({})).await.refused(404, "NOT_FOUND");
    counter.api.service().post("/sync", &json!({})).await.refused(400, "BAD_REQUEST");
    counter.api.service().post(SYNC, &json!({"table": "other"})).await.refused(400, "BAD_REQUEST");
}

// Table behaviour 9
#[tokio::test]
async fn a_cursor_that_can_not_be_used_is_named_and_nothing_is_read() {
    let counter = Counter::start().await;
    let backend = counter.api.service();
    let cursor = backend.post(SYNC, &json!({})).await.done()["next_cursor"].as_str().unwrap().to_owned();
    for bad in ["", "garbage", &cursor[1..], &format!("{cursor}A")] {
        let message = backend.post(SYNC, &json!({"cursor": bad})).await.refused(400, "CURSOR_INVALID");
        assert!(message.contains("next_cursor"), "{message}");
    }
    counter
        .execute(
            "ALTER TABLE orders RENAME TO old; CREATE TABLE orders (LIKE old INCLUDING ALL); DROP TABLE old",
        )
        .await;
    counter.shop.install().await;
    let message = backend.post(SYNC, &json!({ "cursor": cursor })).await.refused(409, "EPOCH_CHANGED");
    assert!(message.contains("begin anew"), "{message}");
}

// Table behaviour 9
#[tokio::test]
async fn a_cursor_that_has_not_passed_what_was_purged_is_told_to_begin_anew() {
    let counter = Counter::start().await;
    let backend = counter.api.service();
    counter.execute("INSERT INTO orders (id, updated_at) VALUES (1, now()), (2, now())").await;
    let cursor = backend.post(SYNC, &json!({})).await.done()["next_cursor"].as_str().unwrap().to_owned();
    counter.execute("DELETE FROM orders WHERE id = 1").await;
    purge(&counter.shop.url, TableConfig::new("orders"), std::time::Duration::ZERO).await.unwrap();
    let message = backend.post(SYNC, &json!({ "cursor": cursor })).await.refused(410, "CURSOR_EXPIRED");
    assert!(message.contains("begin anew without a cursor"), "{message}");
    let anew = backend.post(SYNC, &json!({})).await.done();
    assert_eq!(anew["records"].as_array().unwrap().len(), 1);
}

// Table behaviour 11
#[tokio::test]
async fn a_source_that_fails_is_told_and_the_cursor_goes_on_afterwards() {
    let counter = Counter::start().await;
    let backend = counter.api.service();
    let first = backend.post(SYNC, &json!({})).await.done();
    counter.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await;
    counter.execute("INSERT INTO orders VALUES (1, 'new', 1, true, now())").await;
    let request = json!({"cursor": first["next_cursor"]});
    let mut answer = backend.post(SYNC, &request).await;
    while answer.status == 503 {
        answer = backend.post(SYNC, &request).await;
    }
    assert_eq!(answer.done()["records"].as_array().unwrap().len(), 1);
}

// Table behaviour 10
#[tokio::test]
async fn a_type_that_was_changed_is_never_taken_for_what_it_was() {
    let counter = Counter::start().await;
    counter.execute("ALTER TABLE orders ADD COLUMN n int; INSERT INTO orders (id, n, updated_at) VALUES (1, 5, now())").await;
    let backend = counter.api.service();
    let mut cursor = backend.post(SYNC, &json!({})).await.done()["next_cursor"].clone();
    let first = backend.get("/v1/tables/orders").await.done()["schema_version"].clone();
    for (change, value) in [
        (
            "ALTER TABLE orders ALTER COLUMN n TYPE float4; UPDATE orders SET n = 1.5, updated_at = now()",
            json!(1.5),
        ),
        (
            r#"ALTER TABLE orders ALTER COLUMN n TYPE text; UPDATE orders SET n = '7,"id":"9"', updated_at = now()"#,
            json!(r#"7,"id":"9""#),
        ),
        (
            "ALTER TABLE orders DROP COLUMN n; ALTER TABLE orders ADD COLUMN n int; UPDATE orders SET n = 3, updated_at = now()",
            json!(3),
        ),
    ] {
        counter.execute(change).await;
        let page = backend.post(SYNC, &json!({"cursor": cursor})).await.done();
        assert_eq!(
            (&page["records"][0]["row"]["n"], &page["records"][0]["row"]["id"]),
            (&value, &json!("1")),
            "{change}"
        );
        cursor = page["next_cursor"].clone();
    }
    assert_ne!(backend.get("/v1/tables/orders").await.done()["schema_version"], first);
}

#[tokio::test]
async fn a_column_that_is_added_is_there_at_the_next_look() {
    let counter = Counter::start().await;
    let backend = counter.api.service();
    let first = backend.post(SYNC, &json!({})).await.done();
    counter.execute("ALTER TABLE orders ALTER COLUMN total TYPE text; INSERT INTO orders VALUES (1, 'new', 'x', true, now())").await;
    let second = backend.post(SYNC, &json!({"cursor": first["next_cursor"]})).await.done();
    assert_eq!(second["records"][0]["row"]["total"], "x");
}

#[tokio::test]
async fn digests_go_on_when_the_table_has_changed() {
    let counter = Counter::start().await;
    counter.execute("INSERT INTO orders VALUES (1, 'new', 1, true, now())").await;
    let backend = counter.api.service();
    let digest = "/v1/tables/orders/digest";
    let before = backend.post(digest, &json!({})).await.done();
    counter.execute("ALTER TABLE orders DROP COLUMN paid").await;
    let after = backend.post(digest, &json!({})).await.done();
    assert_eq!(after["rows"], 1);
    assert_ne!(after["digest"], before["digest"]);
    counter.execute("ALTER TABLE orders DROP COLUMN total").await;
    assert_eq!(backend.post(digest, &json!({"rows": 5})).await.done()["rows"][0]["key"], json!(["1"]));
}

// Table behaviour 11
#[tokio::test]
async fn a_table_that_can_not_be_read_is_named_by_ready_which_else_stays_so() {
    let counter = Counter::start().await;
    let backend = counter.api.service();
    let ready = async || counter.api.anonymous().get("/ready").await.done();
    let first = backend.post(SYNC, &json!({})).await.done();
    assert_eq!(ready().await, json!({"status": "ready"}));
    counter.execute("ALTER TABLE orders RENAME TO gone").await;
    let request = json!({"cursor": first["next_cursor"]});
    backend.post(SYNC, &request).await.refused(503, "UNAVAILABLE");
    let unready = json!({"status": "ready", "tables": {"orders": "unreadable"}});
    assert_eq!(ready().await, unready);
    // A server that begins now knows by itself.
    let other = Api::of(TestServer::start_with_tables(counter.shop.declared()).await).await;
    within(async { while other.anonymous().get("/ready").await.done() != unready {} }).await;

    counter.execute("ALTER TABLE gone RENAME TO orders").await;
    within(async { while !backend.post(SYNC, &request).await.status.is_success() {} }).await;
    assert_eq!(ready().await, json!({"status": "ready"}));
}

// Table behaviours 7, 9
#[tokio::test]
async fn an_event_source_is_told_of_rows_and_goes_on_at_its_last_id() {
    let counter = Counter::start().await;
    counter.execute("INSERT INTO orders VALUES (100, 'pending', 1.50, false, now())").await;
    let token = counter.api.short_token("reporter", "read:table:orders", std::time::Duration::from_secs(60));
    let reader = counter.api.with_token(&token);
    let mut source = EventSource::open(&reader, "topics=table:orders&snapshot=true", None).await;
    assert_eq!(source.next().await.0, "subscribed");
    let (name, told) = source.next().await;
    assert_eq!(
        (name.as_str(), &told["type"], &told["topic"]),
        ("event", &json!("row"), &json!("table:orders"))
    );
    assert_eq!(
        (&told["payload"]["op"], &told["payload"]["row"]["status"]),
        (&json!("upsert"), &json!("pending"))
    );
    assert_eq!(told["cursor"], json!(source.id));
    let id = source.id.clone();
    drop(source);
    counter.execute("UPDATE orders SET status = 'completed', updated_at = now() WHERE id = 100").await;
    let mut source = EventSource::open(&reader, "topics=table:orders&snapshot=true", Some(&id)).await;
    assert_eq!(source.next().await.0, "subscribed");
    assert_eq!(source.next().await.1["payload"]["row"]["status"], "completed");
    counter.execute("DELETE FROM orders").await;
    assert_eq!(source.next().await.1["payload"], json!({"op": "delete", "key": {"id": "100"}}));

    counter.api.user("alice").get("/v1/events?topics=table:orders").await.refused(403, "FORBIDDEN");
    let backend = counter.api.service();
    backend.get("/v1/events?topics=table:nothing").await.refused(404, "NOT_FOUND");
    backend.get("/v1/events?topics=table:orders,chain:1:a").await.refused(400, "BAD_REQUEST");
    backend.get("/v1/events?topics=table:orders&cursor=garbage").await.refused(400, "CURSOR_INVALID");
}
