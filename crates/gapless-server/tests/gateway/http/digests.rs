//! What tells whether a copy is equal, and mends it.

use serde_json::{Value, json};

use super::tables::Counter;

#[tokio::test]
async fn ranges_of_keys_have_digests_that_add_up() {
    let counter = Counter::start().await;
    counter
        .execute("INSERT INTO orders SELECT n, 'x' || n, n, NULL, now() FROM generate_series(1, 9) n")
        .await;
    let backend = counter.api.service();
    let digest = "/v1/tables/orders/digest";
    let number = |value: &Value| value.as_str().unwrap().parse::<i128>().unwrap();
    let whole = backend.post(digest, &json!({})).await.done();
    let lower = backend.post(digest, &json!({"up_to": ["4"]})).await.done();
    let upper = backend.post(digest, &json!({"after": ["4"]})).await.done();
    assert_eq!((&whole["rows"], &lower["rows"], &upper["rows"]), (&json!(9), &json!(4), &json!(5)));
    assert_eq!(number(&whole["digest"]), number(&lower["digest"]) + number(&upper["digest"]));
    let rows = backend.post(digest, &json!({"after": ["4"], "rows": 100})).await.done()["rows"].clone();
    assert_eq!(rows[0]["key"], json!(["5"]));
    let sum: i128 = rows.as_array().unwrap().iter().map(|row| number(&row["digest"])).sum();
    assert_eq!(sum, number(&upper["digest"]));
    counter.execute("UPDATE orders SET paid = false WHERE id = 5").await;
    assert_ne!(backend.post(digest, &json!({"after": ["4"]})).await.done(), upper);
    for bad in [
        json!({"after": ["x"]}),
        json!({"after": []}),
        json!({"rows": 0}),
        json!({"limit": 0}),
        json!({"limit": 1, "rows": 1}),
        json!({"keys": []}),
        json!({"keys": [["1", "2"]]}),
        json!({"keys": [["x"]]}),
        json!({"keys": [["1"]], "after": ["1"]}),
    ] {
        backend.post(digest, &bad).await.refused(400, "BAD_REQUEST");
    }
}

#[tokio::test]
async fn a_range_is_counted_off_and_keys_are_asked_for_one_by_one() {
    let counter = Counter::start().await;
    counter
        .execute("INSERT INTO orders SELECT n, 'x' || n, n, NULL, now() FROM generate_series(1, 9) n")
        .await;
    let backend = counter.api.service();
    let digest = "/v1/tables/orders/digest";
    let first = backend.post(digest, &json!({"after": ["2"], "limit": 4})).await.done();
    assert_eq!((&first["rows"], &first["up_to"]), (&json!(4), &json!(["6"])));
    let same = backend.post(digest, &json!({"after": ["2"], "up_to": ["6"]})).await.done();
    assert_eq!((&first["digest"], &same["up_to"]), (&same["digest"], &Value::Null));
    let last = backend.post(digest, &json!({"after": ["6"], "limit": 4})).await.done();
    assert_eq!((&last["rows"], &last["up_to"]), (&json!(3), &Value::Null));
    let listed = backend.post(digest, &json!({"rows": 9})).await.done();
    let asked = backend.post(digest, &json!({"keys": [["5"], ["77"], ["05"]]})).await.done();
    let hash = &listed["rows"][4]["digest"];
    assert_eq!(asked["rows"], json!([{"key": ["5"], "digest": hash}, {"key": ["05"], "digest": hash}]));
}

#[tokio::test]
async fn rows_are_read_by_their_keys_as_they_are_now() {
    let counter = Counter::start().await;
    counter.execute("INSERT INTO orders VALUES (5, 'new', 1.50, NULL, '2026-01-01 00:00:00+00')").await;
    let backend = counter.api.service();
    let rows = "/v1/tables/orders/rows";
    let asked = backend.post(rows, &json!({"keys": [["7"], ["5"]]})).await.done();
    let row = json!({"id": "5", "status": "new", "total": "1.50", "paid": null, "updated_at": "2026-01-01 00:00:00+00"});
    assert_eq!(asked["records"], json!([{"op": "delete", "key": {"id": "7"}}, {"op": "upsert", "row": row}]));
    assert_eq!(asked["schema_version"], backend.get("/v1/tables/orders").await.done()["schema_version"]);
    for bad in [json!({}), json!({"keys": []}), json!({"keys": [["x"]]}), json!({"keys": [[]]})] {
        backend.post(rows, &bad).await.refused(400, "BAD_REQUEST");
    }
    let other = counter.api.short_token("reporter", "read:table:users", std::time::Duration::from_secs(60));
    counter.api.with_token(&other).post(rows, &json!({"keys": [["5"]]})).await.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn rows_that_would_be_too_much_come_in_parts() {
    let counter = Counter::start().await;
    counter
        .execute(
            "INSERT INTO orders SELECT n, repeat('x', 5000000), 1, NULL, now() FROM generate_series(1, 3) n",
        )
        .await;
    let keys = json!({"keys": [["1"], ["2"], ["3"]]});
    let asked = counter.api.service().post("/v1/tables/orders/rows", &keys).await.done();
    assert_eq!(asked["records"].as_array().unwrap().len(), 2);
}
