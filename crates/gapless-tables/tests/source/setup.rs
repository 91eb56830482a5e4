//! What is refused at the start, and what is installed and taken away.

use gapless_tables::{
    Consistency, CursorError, CursorKeys, Deletes, OpenError, Source, SourceError, TableConfig, install,
    lacks, uninstall,
};

use crate::follower::{Follower, notes, table};
use crate::shop::{ORDERS, Reader, Shop, connect, orders};

/// Why a table can't be opened.
async fn refusal(url: &str, config: TableConfig) -> String {
    match Source::open(url, 1, config, CursorKeys::new([])).await {
        Err(error @ (OpenError::Source(SourceError::Setup(_)) | OpenError::Url(_))) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn watched() -> TableConfig {
    TableConfig { deletes: Deletes::None, ..orders(Consistency::Watched) }
}

#[tokio::test]
async fn a_table_that_can_not_be_read_says_what_to_do() {
    let shop = Shop::with(
        "CREATE TABLE orders (id bigint PRIMARY KEY, status text, updated_at timestamptz NOT NULL, maybe timestamptz);
         CREATE TABLE keyless (updated_at timestamptz NOT NULL, a int NOT NULL, b int UNIQUE);
         CREATE VIEW seen AS SELECT * FROM orders;
         CREATE TABLE parent (id int PRIMARY KEY, updated_at timestamptz NOT NULL); CREATE TABLE child () INHERITS (parent);
         CREATE TABLE many (id int, id2 int, updated_at timestamptz NOT NULL, PRIMARY KEY (id, id2)); CREATE INDEX ON many (updated_at, id);
         CREATE UNLOGGED TABLE brief (id int PRIMARY KEY, updated_at timestamptz NOT NULL);
         CREATE TABLE covering (id int, updated_at timestamptz NOT NULL, note text, PRIMARY KEY (id) INCLUDE (note))",
    )
    .await;
    let named = |name: &str| TableConfig { table: Some(name.to_owned()), ..watched() };
    let cases = [
        (
            watched(),
            r#"there is no index on (updated_at, id): run `CREATE INDEX CONCURRENTLY ON "public"."orders" ("updated_at", "id")`"#,
        ),
        (
            TableConfig { consistency: Consistency::Strict, ..watched() },
            "rows aren't stamped with their transaction: run `gapless table install`",
        ),
        (
            TableConfig { deletes: Deletes::Tombstones, ..watched() },
            "deletes aren't noted: run `gapless table install`",
        ),
        (TableConfig { cursor: "maybe".to_owned(), ..watched() }, "the cursor column `maybe` may be NULL"),
        (
            TableConfig { cursor: "status".to_owned(), ..watched() },
            "it must be a timestamptz, timestamp or date",
        ),
        (
            TableConfig { cursor: "no".to_owned(), ..watched() },
            "it has no column `no`; it has: id, status, updated_at, maybe",
        ),
        (TableConfig { key: vec!["nokey".to_owned()], ..watched() }, "it has no column `nokey`"),
        (TableConfig { key: vec!["status".to_owned()], ..watched() }, "the key column `status` may be NULL"),
        (TableConfig { columns: vec!["nocolumn".to_owned()], ..watched() }, "it has no column `nocolumn`"),
        (named("nowhere"), r#"there is no table "public"."nowhere""#),
        (named("seen"), "is no table"),
        (named("keyless"), "it has no primary key"),
        (TableConfig { key: vec!["a".to_owned()], ..named("keyless") }, "(a) isn't unique"),
        (named("brief"), r#"`ALTER TABLE "public"."brief" SET LOGGED`"#),
        (named("covering"), r#"run `CREATE INDEX CONCURRENTLY ON "public"."covering" ("updated_at", "id")`"#),
        (named("parent"), "other tables inherit from"),
        (named("many"), r#"run `CREATE INDEX CONCURRENTLY ON "public"."many" ("updated_at", "id", "id2")`"#),
    ];
    for (config, expected) in cases {
        let refused = refusal(&shop.url, config).await;
        assert!(refused.contains(expected), "{refused}\n{expected}");
    }
    shop.execute("CREATE INDEX CONCURRENTLY ON \"public\".\"orders\" (\"updated_at\", \"id\")").await;
    shop.open(watched()).await;
    let soft = TableConfig { deletes: Deletes::Soft, soft_column: Some("gone".to_owned()), ..watched() };
    let refused = refusal(&shop.url, soft).await;
    assert!(refused.contains("column t.gone does not exist"), "{refused}");
    for (filter, expected) in [
        ("nothing = 1", "\"nothing\" does not exist"),
        ("status", "must be type boolean"),
        ("status = ", "syntax error"),
        ("no_such(status)", "does not exist"),
    ] {
        let refused = refusal(&shop.url, TableConfig { filter: Some(filter.to_owned()), ..watched() }).await;
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn a_role_that_lacks_a_privilege_is_told_which() {
    let shop = Shop::with(ORDERS).await;
    shop.source(orders(Consistency::Watched)).await;
    let (role, url) = role(&shop).await;
    let refused = refusal(&url, watched()).await;
    assert!(refused.contains("`GRANT pg_read_all_stats TO` this role"), "{refused}");
    shop.execute(&format!("GRANT pg_read_all_stats TO {role}")).await;
    let refused = refusal(&url, watched()).await;
    assert!(refused.contains("permission denied for table orders"), "{refused}");
    shop.execute(&format!("GRANT SELECT ON orders TO {role}")).await;
    let keys = || CursorKeys::new([]);
    Source::open(&url, 1, watched(), keys()).await.unwrap();
    let refused = refusal(&url, orders(Consistency::Watched)).await;
    assert!(refused.contains("permission denied for table orders_gapless_deleted"), "{refused}");
    shop.execute(&format!("GRANT SELECT ON orders_gapless_deleted TO {role}")).await;
    Source::open(&url, 1, orders(Consistency::Watched), keys()).await.unwrap();

    // In strict mode it needs nothing else, also where the source's log isn't on disk yet.
    shop.source(orders(Consistency::Strict)).await;
    let source = Source::open(&url, 1, orders(Consistency::Strict), keys()).await.unwrap();
    let open = connect(&shop.url).await;
    open.batch_execute("BEGIN; INSERT INTO orders VALUES (1, 'open', now())").await.unwrap();
    shop.execute("INSERT INTO orders VALUES (2, 'new', now())").await;
    open.batch_execute("UPDATE orders SET status = 'still open' WHERE id = 1").await.unwrap();
    assert_eq!(Reader::default().catch_up(&source, 10).await, ["2 new"]);
    drop(open);

    shop.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON orders USING (id > 5)")
        .await;
    let refused = refusal(&url, orders(Consistency::Watched)).await;
    assert!(refused.contains("row-level security hides rows"), "{refused}");
    shop.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn about_how_many_rows_there_are_is_known_once_the_table_is_analyzed() {
    let shop = Shop::with(
        "CREATE TABLE t (id int, note text, at timestamptz NOT NULL, PRIMARY KEY (id)) PARTITION BY RANGE (id);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (500); CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (500) TO (9999);
         CREATE INDEX ON t (at, id)",
    )
    .await;
    shop.execute(ORDERS).await;
    for (config, name) in [(table(&[], Consistency::Strict), "t"), (orders(Consistency::Strict), "orders")] {
        install(&shop.url, config.clone(), true).await.unwrap();
        let estimate = async || shop.open(config.clone()).await.description().rows_estimate;
        shop.execute(&format!("INSERT INTO {name} SELECT n, 'x', now() FROM generate_series(1, 1000) n"))
            .await;
        assert_eq!(estimate().await, None, "{name}");
        shop.execute(&format!("ANALYZE {name}")).await;
        assert_eq!(estimate().await, Some(1000), "{name}");
    }
}

// Table behaviour 7
#[tokio::test]
async fn whoever_may_only_write_the_table_can_still_delete() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute("INSERT INTO orders SELECT n, 'new', now() FROM generate_series(1, 5) n").await;
    let (role, url) = role(&shop).await;
    shop.execute(&format!("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON orders TO {role}")).await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 10).await;
    let writer = connect(&url).await;
    for (changes, left) in [
        ("DELETE FROM orders WHERE id = 1", 4),
        ("UPDATE orders SET id = 9, updated_at = now() WHERE id = 2", 4),
        ("INSERT INTO orders VALUES (1, 'back', now())", 5),
        ("TRUNCATE orders", 0),
    ] {
        writer.batch_execute(changes).await.unwrap();
        reader.catch_up(&source, 10).await;
        assert_eq!((reader.held.len(), &reader.held), (left, &shop.rows().await), "{changes}");
    }
    drop(writer);
    shop.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn what_is_installed_twice_is_there_once_and_goes_away_whole() {
    let shop = Shop::with(ORDERS).await;
    let before = catalog(&shop).await;
    for _ in 0..2 {
        install(&shop.url, orders(Consistency::Strict), true).await.unwrap();
    }
    assert_eq!(lacks(&shop.url, orders(Consistency::Strict)).await.unwrap(), []);
    let installed = catalog(&shop).await;
    assert!(installed.len() > before.len(), "{installed:?}");
    install(&shop.url, orders(Consistency::Strict), true).await.unwrap();
    assert_eq!(catalog(&shop).await, installed);
    for _ in 0..2 {
        uninstall(&shop.url, orders(Consistency::Strict)).await.unwrap();
        assert_eq!(catalog(&shop).await, before);
    }
    assert_ne!(lacks(&shop.url, orders(Consistency::Strict)).await.unwrap(), []);
    shop.execute("INSERT INTO orders VALUES (1, 'new', now()); UPDATE orders SET id = 2; DELETE FROM orders; TRUNCATE orders")
        .await;
}

// Table behaviour 9
#[tokio::test]
async fn a_cursor_does_not_outlive_what_noted_the_changes() {
    for what in ["all", "the stamps", "the noted deletes"] {
        let (shop, source) = Shop::of_orders(Consistency::Strict).await;
        shop.execute("INSERT INTO orders VALUES (1, 'new', now()), (2, 'new', now())").await;
        let mut reader = Reader::default();
        reader.catch_up(&source, 10).await;
        match what {
            "all" => drop(uninstall(&shop.url, orders(Consistency::Strict)).await.unwrap()),
            "the stamps" => shop.execute("ALTER TABLE orders DISABLE TRIGGER gapless_stamp").await,
            _ => {
                shop.execute("DROP TABLE orders_gapless_deleted; DROP TRIGGER gapless_delete ON orders").await
            }
        }
        shop.execute("DELETE FROM orders WHERE id = 1; UPDATE orders SET status = 'unnoticed'").await;
        let source = shop.source(orders(Consistency::Strict)).await;
        let refused = reader.try_page(&source, 10).await;
        assert!(matches!(refused, Err(SourceError::Cursor(CursorError::OtherMeaning))), "{refused:?}");
    }
}

// Table behaviour 9
#[tokio::test]
async fn installing_what_is_there_leaves_cursors_as_good_as_they_were() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 10).await;
    install(&shop.url, orders(Consistency::Strict), true).await.unwrap();
    shop.execute("INSERT INTO orders VALUES (1, 'new', now())").await;
    let source = shop.source(orders(Consistency::Strict)).await;
    assert_eq!(reader.catch_up(&source, 10).await, ["1 new"]);
}

#[tokio::test]
async fn a_check_finds_what_only_reading_shows() {
    let shop = Shop::of_orders(Consistency::Strict).await.0;
    for filter in ["status =", "nothing = 1"] {
        let config = TableConfig { filter: Some(filter.to_owned()), ..orders(Consistency::Strict) };
        let error = lacks(&shop.url, config).await.unwrap_err();
        assert!(error.to_string().contains("its rows can't be read"), "{error}");
    }
}

// Table behaviour 7
#[tokio::test]
async fn a_table_with_the_stamps_of_another_cluster_is_stamped_anew() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(
        "INSERT INTO orders SELECT n, 'new', now() FROM generate_series(1, 5) n; ALTER TABLE orders DISABLE TRIGGER gapless_stamp;
         UPDATE orders SET gapless_xid = '123456789012345' WHERE id > 2; ALTER TABLE orders ENABLE ALWAYS TRIGGER gapless_stamp",
    )
    .await;
    drop(source);
    let refused = refusal(&shop.url, orders(Consistency::Strict)).await;
    assert!(refused.contains("stamped with transactions of another cluster"), "{refused}");
    let source = shop.source(orders(Consistency::Strict)).await;
    let mut reader = Reader::default();
    assert_eq!(reader.catch_up(&source, 2).await.len(), 5);
    assert_eq!(reader.held, shop.rows().await);
}

// Table behaviour 7
#[tokio::test]
async fn another_key_has_other_notes_of_deletes() {
    let shop = Shop::with(
        "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text NOT NULL, note text, at timestamptz NOT NULL, UNIQUE (a, b));
         CREATE INDEX ON t (at, id); CREATE INDEX ON t (at, a, b); INSERT INTO t VALUES (1, 1, 'x', 'one', now()), (2, 1, 'y', 'two', now())",
    )
    .await;
    shop.source(table(&["id"], Consistency::Strict)).await;
    let config = table(&["a", "b"], Consistency::Strict);
    let refused = refusal(&shop.url, config.clone()).await;
    assert!(refused.contains("deletes aren't noted"), "{refused}");
    let source = shop.source(config.clone()).await;
    let mut follower = Follower::of(&config);
    follower.catch_up(&source, 1).await;
    shop.execute("DELETE FROM t WHERE id = 1; UPDATE t SET b = 'z'").await;
    follower.catch_up(&source, 1).await;
    assert_eq!(follower.held, notes(&shop, &config).await);
}

// Table behaviour 1
#[tokio::test]
async fn an_installation_among_writers_loses_nothing() {
    for consistency in [Consistency::Strict, Consistency::Watched] {
        let shop = Shop::with(ORDERS).await;
        let mut writers = Vec::new();
        for writer in 0..4 {
            let sql = connect(&shop.url).await;
            writers.push(tokio::spawn(async move {
                for n in 0..60 {
                    let id = writer * 1_000 + n;
                    let statements = format!(
                        "BEGIN; SELECT pg_sleep(0.002); INSERT INTO orders VALUES ({id}, 'new', now());
                         UPDATE orders SET status = 'changed', updated_at = now() WHERE id = {id} - 3; DELETE FROM orders WHERE id = {id} - 7; COMMIT"
                    );
                    sql.batch_execute(&statements).await.unwrap();
                }
            }));
        }
        while shop.rows().await.is_empty() {}
        let source = shop.source(orders(consistency)).await;
        let mut reader = Reader::default();
        while writers.iter().any(|writer| !writer.is_finished()) {
            reader.catch_up(&source, 7).await;
        }
        for writer in writers {
            writer.await.unwrap();
        }
        reader.catch_up(&source, 7).await;
        assert_eq!(reader.held, shop.rows().await, "{consistency}");
    }
}

// Table behaviour 7
#[tokio::test]
async fn changes_of_a_replica_role_and_those_of_foreign_keys_are_noted() {
    let shop = Shop::with(
        "CREATE TABLE shops (id int PRIMARY KEY); INSERT INTO shops VALUES (1), (2), (3);
         CREATE TABLE t (id int PRIMARY KEY, shop int REFERENCES shops ON DELETE CASCADE ON UPDATE CASCADE, note text, at timestamptz NOT NULL);
         CREATE INDEX ON t (at, id); INSERT INTO t SELECT n, 1 + n % 3, 'new', now() FROM generate_series(1, 9) n",
    )
    .await;
    let config = table(&["id"], Consistency::Strict);
    let source = shop.source(config.clone()).await;
    let mut follower = Follower::of(&config);
    follower.catch_up(&source, 10).await;
    for changes in [
        "DELETE FROM shops WHERE id = 1",
        "SET session_replication_role = replica; DELETE FROM t WHERE id = 1; UPDATE t SET note = 'replica' WHERE id = 2;
         INSERT INTO t VALUES (20, 2, 'replica', now()); UPDATE t SET id = 30 WHERE id = 4; RESET session_replication_role",
        "UPDATE shops SET id = 9 WHERE id = 2; UPDATE t SET note = 'x' WHERE shop = 9",
        "SET session_replication_role = replica; TRUNCATE t; RESET session_replication_role",
        "INSERT INTO t VALUES (1, 3, 'back', now())",
        "TRUNCATE shops CASCADE",
    ] {
        shop.execute(changes).await;
        follower.catch_up(&source, 2).await;
        assert_eq!(follower.held, notes(&shop, &config).await, "{changes}");
    }
}

// Table behaviour 7
#[tokio::test]
async fn a_partitioned_table_is_one() {
    let shop = Shop::with(
        "CREATE TABLE t (id int PRIMARY KEY, note text, at timestamptz NOT NULL) PARTITION BY RANGE (id);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20);
         INSERT INTO t SELECT n, 'new', timestamptz '2026-01-01' + n % 5 * interval '1 day' FROM generate_series(0, 19) n",
    )
    .await;
    for consistency in [Consistency::Strict, Consistency::Watched] {
        let config = table(&["id"], consistency);
        let source = shop.source(config.clone()).await;
        let mut follower = Follower::of(&config);
        for changes in [
            "SELECT",
            "UPDATE t SET note = 'changed', at = now() WHERE id IN (3, 13); DELETE FROM t WHERE id IN (4, 14)",
            "UPDATE t1 SET note = 'directly', at = now() WHERE id = 5; DELETE FROM t2 WHERE id = 15",
            "SET session_replication_role = replica; DELETE FROM t WHERE id = 6; UPDATE t SET note = 'replica', at = now() WHERE id = 7;
             RESET session_replication_role",
            "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (20) TO (30); UPDATE t SET id = 25, at = now() WHERE id = 8",
            "INSERT INTO t VALUES (26, 'new', now()); DELETE FROM t WHERE id = 25",
            "SET session_replication_role = replica; DELETE FROM t WHERE id = 26; RESET session_replication_role",
            "TRUNCATE t",
            "INSERT INTO t SELECT n, 'new', timestamptz '2026-01-01' + n % 5 * interval '1 day' FROM generate_series(0, 19) n; DROP TABLE t3",
        ] {
            shop.execute(changes).await;
            follower.catch_up(&source, 3).await;
            if consistency == Consistency::Strict || !changes.contains("2026-01-01") {
                assert_eq!(follower.held, notes(&shop, &config).await, "{consistency} {changes}");
            }
        }
    }
}

// Table behaviour 10
#[tokio::test]
async fn names_with_quotes_and_names_as_long_as_they_may_be() {
    let long = format!("{}é", "n".repeat(61));
    let other = format!("{}x", "n".repeat(62));
    let shop = Shop::with("CREATE SCHEMA \"My \"\"Shop\"\"\"; CREATE SCHEMA long").await;
    for (schema, name) in [
        ("My \"Shop\"", "the 'orders' \"x\""),
        ("public", "$gapless$"),
        ("long", long.as_str()),
        ("long", other.as_str()),
    ] {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let relation = format!("{}.{}", quoted(schema), quoted(name));
        shop.execute(&format!(
            "CREATE TABLE {relation} (\"Id \"\"x\" int PRIMARY KEY, note text, \"At\" timestamptz NOT NULL);
             INSERT INTO {relation} SELECT n, 'new', now() FROM generate_series(1, 9) n"
        ))
        .await;
        let config = TableConfig {
            table: Some(format!("{schema}.{name}")),
            cursor: "At".to_owned(),
            ..table(&["Id \"x"], Consistency::Strict)
        };
        let source = shop.source(config.clone()).await;
        let mut follower = Follower::of(&config);
        follower.catch_up(&source, 2).await;
        shop.execute(&format!("DELETE FROM {relation} WHERE note = 'new' AND \"Id \"\"x\" < 3; UPDATE {relation} SET note = 'x', \"Id \"\"x\" = 20 WHERE \"Id \"\"x\" = 4")).await;
        follower.catch_up(&source, 2).await;
        assert_eq!(follower.held, notes(&shop, &config).await, "{relation}");
        let tombstone_indexes = shop
            .sql
            .query(
                "SELECT indexdef FROM pg_indexes WHERE tablename LIKE '%gapless_deleted' AND schemaname = $1",
                &[&schema],
            )
            .await
            .unwrap();
        assert_eq!(tombstone_indexes.len() % 3, 0, "{tombstone_indexes:?}");
        install(&shop.url, config.clone(), true).await.unwrap();
    }
}

// Table behaviour 7
#[tokio::test]
async fn rows_that_a_truncation_can_not_see_are_not_truncated() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute("INSERT INTO orders VALUES (1, 'old', now())").await;
    let old = connect(&shop.url).await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class").await.unwrap();
    shop.execute("INSERT INTO orders VALUES (2, 'unseen', now())").await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 10).await;
    let refused = old.batch_execute("TRUNCATE orders").await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("READ COMMITTED"), "{refused}");
    old.batch_execute("ROLLBACK; BEGIN; SELECT 1 FROM pg_class; TRUNCATE orders; COMMIT").await.unwrap();
    reader.catch_up(&source, 10).await;
    assert_eq!(reader.held, shop.rows().await);
}

#[tokio::test]
async fn another_table_of_the_same_name_is_not_compared_with_a_copy() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(
        "ALTER TABLE orders RENAME TO old; CREATE TABLE orders (LIKE old INCLUDING ALL); DROP TABLE old",
    )
    .await;
    let everything = gapless_tables::KeyRange::default();
    assert!(matches!(source.digest(&everything, None).await, Err(SourceError::Changed(_))));
    assert!(matches!(source.row_digests(&everything, 5).await, Err(SourceError::Changed(_))));
}

#[tokio::test]
async fn what_changes_under_an_open_source_is_told() {
    for (changes, expected) in [
        ("ALTER TABLE orders DROP COLUMN status", "its columns are others now"),
        ("ALTER TABLE orders RENAME TO sales", "isn't there any more"),
        ("DROP TABLE orders", "isn't there any more"),
        ("INSERT INTO orders VALUES (0, 'zero', now())", "division by zero"),
    ] {
        let shop = Shop::with(ORDERS).await;
        let filter = Some("100 / id > 0".to_owned());
        let source = shop.source(TableConfig { filter, ..orders(Consistency::Strict) }).await;
        shop.execute("INSERT INTO orders VALUES (1, 'new', now())").await;
        let mut reader = Reader::default();
        reader.catch_up(&source, 10).await;
        shop.execute("INSERT INTO orders VALUES (2, 'new', now())").await;
        reader.catch_up(&source, 10).await;
        shop.execute(&format!("UPDATE orders SET updated_at = now(); {changes}")).await;
        let refused = reader.try_page(&source, 10).await.unwrap_err();
        assert!(matches!(refused, SourceError::Setup(_) | SourceError::Changed(_)), "{refused:?}");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

/// All that tables and functions of the schema consist of.
async fn catalog(shop: &Shop) -> Vec<String> {
    let rows = shop
        .sql
        .query(
            "SELECT 'relation ' || relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
             UNION ALL SELECT 'column ' || attname FROM pg_attribute WHERE attrelid = 'orders'::regclass AND NOT attisdropped
             UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
             UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
            &[],
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// A role that may do nothing yet, and its URL of the shop's database.
async fn role(shop: &Shop) -> (String, String) {
    let row = shop.sql.query_one("SELECT current_database()::text", &[]).await.unwrap();
    let role = format!("role_{}", row.get::<_, String>(0).replace('-', "_"));
    shop.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    let url = shop.url.replacen("postgres@", &format!("{role}@"), 1);
    (role, url)
}
