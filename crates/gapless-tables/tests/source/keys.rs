//! Cursor columns and keys of all types, in all settings of time: each row once, in the database's order.

use gapless_tables::{
    Consistency, CursorKeys, DeclaredTables, Deletes, Form, PageRequest, TableConfig, Tables, install,
};

use crate::follower::{Follower, in_order, notes, table};
use crate::shop::{ORDERS, Shop, orders};

use Consistency::{BestEffort, Strict, Watched};

const ALL: [Consistency; 3] = [Strict, Watched, BestEffort];
/// Where some rows are of the far future, which a fixed delay never reaches.
const NEVER_LATE: [Consistency; 2] = [Strict, Watched];

/// Pages of 1 and 7 deliver every row once in the database's order; then an update, a delete and an insert come.
/// `changed` says what is done to a row that is updated.
async fn holds(schema: &str, config: &TableConfig, modes: &[Consistency], changed: &str) {
    let shop = Shop::with(schema).await;
    for &consistency in modes {
        let mode = table(&[], consistency);
        let config =
            TableConfig { consistency, deletes: mode.deletes, delay_ms: mode.delay_ms, ..config.clone() };
        let source = shop.source(config.clone()).await;
        for limit in [1, 7] {
            let expected = in_order(&shop, &config).await;
            let mut follower = Follower::of(&config);
            assert_eq!(follower.catch_up(&source, limit).await, expected, "{consistency} {limit}");
            assert_eq!(follower.held, notes(&shop, &config).await, "{consistency} {limit}");
            for which in [0, expected.len() / 2, expected.len() - 1] {
                let statement = format!(
                    "UPDATE t SET note = note || '+'{changed} WHERE ctid = (SELECT ctid FROM t ORDER BY note LIMIT 1 OFFSET {which})"
                );
                shop.execute(&statement).await;
                follower.catch_up(&source, limit).await;
                assert_eq!(follower.held, notes(&shop, &config).await, "{consistency} {limit} {which}");
            }
            if config.deletes == Deletes::Tombstones {
                shop.execute("CREATE TEMP TABLE gone AS SELECT * FROM t ORDER BY note DESC LIMIT 3").await;
                shop.execute("DELETE FROM t WHERE note IN (SELECT note FROM gone)").await;
                follower.catch_up(&source, limit).await;
                assert_eq!(follower.held, notes(&shop, &config).await, "{consistency} {limit}");
                shop.execute("INSERT INTO t SELECT * FROM gone; DROP TABLE gone").await;
                if consistency == Strict {
                    follower.catch_up(&source, limit).await;
                    assert_eq!(follower.held, notes(&shop, &config).await, "{consistency} {limit}");
                }
            }
        }
    }
}

/// A table whose cursor column has a type and values, each of them on two rows.
fn cursors(kind: &str, values: &[&str]) -> String {
    let rows: Vec<String> =
        values.iter().enumerate().map(|(n, at)| format!("({n}, '{at}'), ({}, '{at}')", n + 100)).collect();
    format!(
        "CREATE TABLE t (id int PRIMARY KEY, at {kind} NOT NULL, note text UNIQUE); CREATE INDEX ON t (at, id);
         INSERT INTO t (id, at) VALUES {}; UPDATE t SET note = 'n' || id",
        rows.join(", ")
    )
}

/// A table with a key of given columns, all of one moment or of two.
fn keys(before: &str, columns: &str, key: &str, rows: &str) -> String {
    format!(
        "{before}; CREATE TABLE t ({columns}, at timestamptz NOT NULL DEFAULT '2026-01-01', note text, PRIMARY KEY ({key}));
         CREATE INDEX ON t (at, {key}); INSERT INTO t ({key}) {rows}; UPDATE t SET note = 'n' || row_number FROM (
            SELECT ctid AS c, row_number() OVER (ORDER BY {key}) FROM t) x WHERE t.ctid = c;
         UPDATE t SET at = '2026-01-02' WHERE ctid IN (SELECT ctid FROM t ORDER BY md5(note) LIMIT 3)"
    )
}

const CHANGED: &str = ", at = now()";

// Table behaviour 5
#[tokio::test]
async fn a_timestamptz_of_any_age_and_precision() {
    let values = [
        "-infinity",
        "4713-01-01 00:00:00+00 BC",
        "0044-03-15 12:00:00+00 BC",
        "1883-11-18 12:03:58+00",
        "2026-02-03 04:05:02.856664+00",
        "2026-02-03 04:05:02.856665+00",
        "2026-02-03 04:05:02.856666+00",
        "294276-12-31 23:59:59.999999+00",
        "infinity",
    ];
    holds(&cursors("timestamptz", &values), &table(&["id"], Strict), &NEVER_LATE, CHANGED).await;
    holds(&cursors("timestamptz", &values[1..7]), &table(&["id"], Strict), &ALL, CHANGED).await;
}

// Table behaviour 5
#[tokio::test]
async fn a_timestamp_without_zone_of_any_age() {
    let values = [
        "-infinity",
        "4713-01-01 00:00:00 BC",
        "0044-03-15 12:00:00 BC",
        "2026-02-03 04:05:02.856665",
        "2026-02-03 04:05:02.856666",
        "294276-12-31 23:59:59.999999",
        "infinity",
    ];
    holds(&cursors("timestamp", &values), &table(&["id"], Strict), &NEVER_LATE, CHANGED).await;
    holds(&cursors("timestamp", &values[1..5]), &table(&["id"], Strict), &ALL, CHANGED).await;
}

// Table behaviour 5
#[tokio::test]
async fn a_date_and_whole_seconds() {
    let dates = ["-infinity", "4713-01-01 BC", "0044-03-15 BC", "2026-03-29", "5874897-12-31", "infinity"];
    holds(&cursors("date", &dates), &table(&["id"], Strict), &NEVER_LATE, CHANGED).await;
    let seconds = ["2026-02-03 04:05:02.4+00", "2026-02-03 04:05:02.6+00", "2026-02-03 04:05:03+00"];
    holds(&cursors("timestamptz(0)", &seconds), &table(&["id"], Strict), &NEVER_LATE, CHANGED).await;
    holds(&cursors("timestamp(3)", &seconds), &table(&["id"], Strict), &NEVER_LATE, CHANGED).await;
}

// Table behaviour 5
#[tokio::test]
async fn settings_of_the_database_and_the_role_and_a_change_of_the_clock() {
    // Both sides of the hour that Berlin skips, and of the one that it has twice.
    let values = [
        "2026-03-29 00:59:59.999999+00",
        "2026-03-29 01:00:00+00",
        "2026-03-29 01:30:00+00",
        "2026-10-25 00:30:00+00",
        "2026-10-25 01:00:00+00",
        "2026-10-25 01:30:00+00",
        "2026-10-25 02:00:00+00",
    ];
    for (zone, style) in [
        ("Europe/Berlin", "German"),
        ("America/St_Johns", "SQL, DMY"),
        ("Pacific/Kiritimati", "Postgres, MDY"),
    ] {
        let settings = format!(
            "DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET TimeZone = ''{zone}''', current_database());
                EXECUTE format('ALTER DATABASE %I SET DateStyle = ''{style}''', current_database());
                EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET DateStyle = ''{style}''', current_database());
                EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET IntervalStyle = ''iso_8601''', current_database());
            END $$; SET TimeZone = '{zone}';"
        );
        for kind in ["timestamptz", "timestamp"] {
            let schema = format!("{settings} {}", cursors(kind, &values));
            holds(&schema, &table(&["id"], Strict), &ALL, CHANGED).await;
        }
    }
}

// Table behaviour 6
#[tokio::test]
async fn bigint_keys_to_their_extremes() {
    let rows = "SELECT n FROM unnest('{-9223372036854775808,-9223372036854775807,-1,0,1,9223372036854775806,9223372036854775807}'::bigint[]) n
        UNION ALL SELECT g FROM generate_series(-20, -2) g";
    holds(&keys("", "id bigint", "id", rows), &table(&["id"], Strict), &ALL, CHANGED).await;
}

// Table behaviour 6
#[tokio::test]
async fn uuid_keys() {
    let rows = "SELECT md5(g::text)::uuid FROM generate_series(1, 20) g UNION ALL VALUES
        ('00000000-0000-0000-0000-000000000000'::uuid), ('ffffffff-ffff-ffff-ffff-ffffffffffff')";
    holds(&keys("", "id uuid", "id", rows), &table(&["id"], Strict), &ALL, CHANGED).await;
}

// Table behaviour 6
#[tokio::test]
async fn text_keys_of_any_collation() {
    let rows = "SELECT * FROM unnest(ARRAY['', ' ', 'a', 'A', 'b', 'B', 'ä', 'Ä', 'z', 'Z', '_', '-a', 'a-b', 'ab', 'aB', '10', '9', 'ß', 'ss', '日本', 'é', E'e\\u0301', E'\\u0001', 'n''q\"'])";
    for collation in ["\"C\"", "\"de-x-icu\"", "\"und-x-icu\"", "numeric_order"] {
        let before = "CREATE COLLATION numeric_order (provider = icu, locale = 'en-u-kn-true')";
        let columns = format!("id text COLLATE {collation}");
        holds(&keys(before, &columns, "id", rows), &table(&["id"], Strict), &ALL, CHANGED).await;
    }
    let before =
        "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    let rows =
        "SELECT * FROM unnest(ARRAY['', 'a', 'B', 'ä', 'z', 'Zz', '_', '-a', 'a-b', 'aB', '10', '9', 'ß'])";
    holds(&keys(before, "id text COLLATE any_case", "id", rows), &table(&["id"], Strict), &ALL, CHANGED)
        .await;
}

// Table behaviour 6
#[tokio::test]
async fn keys_whose_order_is_an_extension_s() {
    let rows = "SELECT * FROM unnest(ARRAY['a', 'B', 'c', 'D', 'e', 'F', '_', 'Zz', '10', '9']::citext[])";
    holds(&keys("CREATE EXTENSION citext", "id citext", "id", rows), &table(&["id"], Strict), &ALL, CHANGED)
        .await;
    let schema = "CREATE SCHEMA \"My Types\"; CREATE EXTENSION citext SCHEMA \"My Types\"; SET search_path = public, \"My Types\"";
    let rows = "SELECT v, n FROM unnest(ARRAY['a', 'B', 'c', 'D', 'e', 'F', '_']::citext[]) v, generate_series(1, 2) n";
    holds(&keys(schema, "id citext, n smallint", "id, n", rows), &table(&["id", "n"], Strict), &ALL, CHANGED)
        .await;
}

#[tokio::test]
async fn where_operators_are_looked_for_by_one_table_another_s_filter_finds_nothing() {
    let shop = Shop::with(
        "CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext; CREATE FUNCTION ext.is_good(text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE TABLE t (id ext.citext PRIMARY KEY, note text, at timestamptz NOT NULL); CREATE INDEX ON t (at, id);
         INSERT INTO t VALUES ('B', 'x', now()), ('a', 'x', now())",
    )
    .await;
    shop.execute(ORDERS).await;
    let orders = orders(Strict);
    for config in [table(&[], Strict), orders.clone()] {
        install(&shop.url, config, true).await.unwrap();
    }
    let filtered = TableConfig { filter: Some("is_good(status)".to_owned()), ..orders };
    let tables = vec![table(&[], Strict), filtered];
    let declared = DeclaredTables { url: shop.url.clone(), connections: 1, tables };
    let served = Tables::new(vec![declared], &CursorKeys::new([])).unwrap();
    let request = PageRequest { cursor: None, since: None, limit: 5, form: Form::Lines };
    for _ in 0..2 {
        assert_eq!(served.get("t").unwrap().page(&request).await.unwrap().head.records, 2);
        let refused = served.get("orders").unwrap().page(&request).await.unwrap_err();
        let reason = refused.to_string();
        assert!(reason.contains("function is_good(text) does not exist"), "{reason}");
    }
}

// Table behaviour 6
#[tokio::test]
async fn enum_domain_and_other_keys() {
    let before = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'Happy', 'a'); CREATE DOMAIN code AS varchar(8) COLLATE \"C\" CHECK (value <> '')";
    let rows = "SELECT unnest('{sad,ok,Happy,a}'::mood[])";
    holds(&keys(before, "id mood", "id", rows), &table(&["id"], Strict), &ALL, CHANGED).await;
    let rows = "SELECT unnest('{b,a,B,_,Zz,9,10}'::code[])";
    holds(&keys(before, "id code", "id", rows), &table(&["id"], Strict), &ALL, CHANGED).await;
    let others = [
        ("numeric", "unnest('{NaN,-Infinity,-1.50,0,0.001,12345678901234567890.5,Infinity}'::numeric[])"),
        ("varchar(5)", "unnest('{a,B,ab,Ab}'::varchar[])"),
        ("char(3)", "unnest('{a,B,ab,Ab}'::char(3)[])"),
        ("bytea", r"unnest(ARRAY['\x', '\x00', '\xff', '\x00ff']::bytea[])"),
        ("inet", "unnest('{10.0.0.1/8,10.0.0.2,::1,9.0.0.0/8}'::inet[])"),
        ("interval", "unnest('{1 day,-1 day,1 mon,25 hours,00:00:00.000001}'::interval[])"),
        ("date", "unnest('{infinity,-infinity,2026-01-01,0044-03-15 BC}'::date[])"),
        ("int[]", "unnest(ARRAY[1,2,3]) g, LATERAL (SELECT ARRAY[g, 5 - g] AS id) x"),
        ("double precision", "unnest('{NaN,-Infinity,-0.1,0,1e300}'::float8[])"),
    ];
    for (kind, rows) in others {
        let rows =
            if kind == "int[]" { format!("SELECT x.id FROM {rows}") } else { format!("SELECT {rows}") };
        holds(&keys("", &format!("id {kind}"), "id", &rows), &table(&["id"], Strict), &NEVER_LATE, CHANGED)
            .await;
    }
}

// Table behaviour 6
#[tokio::test]
async fn composite_keys_of_mixed_types_and_quoted_names() {
    let before = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'Happy')";
    let columns = r#""Tenant Id" uuid, "select" mood, "n" smallint, "my ""col""" text COLLATE "C""#;
    let key = r#""Tenant Id", "select", "n", "my ""col""""#;
    let rows =
        "SELECT md5(g::text)::uuid, m, n, x FROM generate_series(1, 2) g, unnest('{sad,ok,Happy}'::mood[]) m,
        unnest('{-1,0,1}'::smallint[]) n, unnest('{a,B}'::text[]) x";
    let names = ["Tenant Id", "select", "n", "my \"col\""];
    holds(&keys(before, columns, key, rows), &table(&names, Strict), &ALL, CHANGED).await;
}

// Table behaviour 6
#[tokio::test]
async fn a_key_column_that_is_also_the_cursor_column() {
    let schema = "SET TimeZone = 'UTC'; CREATE TABLE t (id int, at timestamptz NOT NULL, note text, PRIMARY KEY (id, at)); CREATE INDEX ON t (at, id);
        INSERT INTO t SELECT n % 5, timestamptz '2026-01-01' + n / 5 * interval '1 us', 'n' || n FROM generate_series(1, 40) n";
    holds(schema, &table(&["id", "at"], Strict), &NEVER_LATE, ", at = clock_timestamp()").await;
    let schema = "CREATE TABLE t (at date PRIMARY KEY, note text);
        INSERT INTO t SELECT date '2026-01-01' + n, 'n' || n FROM generate_series(1, 20) n";
    holds(schema, &table(&["at"], Strict), &[Strict], "").await;
}
