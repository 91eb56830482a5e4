//! `gapless verify`, between a real server and real copies.

use std::time::Duration;

use gapless_testkit::{BusyTable, BusyTableConfig};
use rusqlite::Connection;
use tokio::runtime::Runtime;

use crate::command::{Said, gapless, said};
use crate::shop::{ORDERS, Shop};

const MANY: &str = "
    INSERT INTO orders SELECT n, 'new', '2026-01-01' FROM generate_series(1, 3000) AS n";
const DIFFERS: Option<i32> = Some(5);

// Table behaviour 10
#[test]
fn copies_of_all_types_are_equal_and_one_bit_of_any_of_them_is_found() {
    let shop = Shop::with(include_str!("types.sql"), &["Types"]);
    let file = sqlite(&shop);
    for to in [&shop.target.url, &file] {
        shop.copy("Types", &["--to", to]).printed();
        let equal = verify(&shop, "Types", &["--to", to]);
        assert_eq!(equal.printed(), "Types: equal: 5 rows", "{equal}");
    }
    for (column, value) in [
        (r#""by""#, r"'\x00ff11'"),
        ("f8", "0.1::float8 + 2e-17"),
        ("f4", "0.10000001"),
        ("num2", "2e-18"),
        ("jt", r#"'{"a":2,"a":2}'"#),
        ("tstz", "'2026-01-01 00:00:00.000002+05:30'"),
        ("arr", "'[1:3]={1,NULL,3}'"),
    ] {
        shop.target.execute(&format!("UPDATE \"Types\" SET {column} = {value} WHERE \"Id\" = 1"));
        let differs = verify(&shop, "Types", &["--repair"]);
        assert!(differs.stdout.contains("row 1 has other values in the copy"), "{column}: {differs}");
        assert_eq!(differs.code, Some(0), "{differs}");
        shop.assert_equal("\"Types\"");
    }
    let copy = Connection::open(shop.folder.path().join("copy.db")).unwrap();
    for change in [
        "\"by\" = x'00ff11'",
        "f8 = 0.10000000000000002",
        "f4 = 0.10000001",
        "num2 = '0.000000000000000002'",
        "\"Id\" = 2",
    ] {
        copy.execute_batch(&format!("UPDATE Types SET {change} WHERE Id = 1")).unwrap();
        let differs = verify(&shop, "Types", &["--to", &file]);
        assert_eq!(differs.code, DIFFERS, "{change}: {differs}");
        let repaired = verify(&shop, "Types", &["--to", &file, "--repair"]);
        assert!(repaired.printed().contains("repaired"), "{repaired}");
        assert_eq!(verify(&shop, "Types", &["--to", &file]).printed(), "Types: equal: 5 rows");
    }
}

// Table behaviour 7
#[test]
fn exactly_the_rows_that_somebody_has_spoilt_are_found_and_mended() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(MANY);
    let file = sqlite(&shop);
    const SPOIL: &str = "UPDATE orders SET status = 'spoilt' WHERE id = 7;
        DELETE FROM orders WHERE id IN (1, 2900);
        INSERT INTO orders VALUES (-5, 'theirs', '2026-01-01'), (4000, 'theirs', '2026-01-01')";
    for to in [&shop.target.url, &file] {
        shop.copy("orders", &["--to", to]).printed();
        assert_eq!(verify(&shop, "orders", &["--to", to]).printed(), "orders: equal: 3,000 rows");
    }
    shop.target.execute(SPOIL);
    Connection::open(shop.folder.path().join("copy.db")).unwrap().execute_batch(SPOIL).unwrap();
    for to in [&shop.target.url, &file] {
        let spoilt = verify(&shop, "orders", &["--to", to]);
        let mut lines: Vec<&str> = spoilt.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "orders: not equal: of 3,000 rows 2 missing, 2 only in the copy, 1 with other values; `--repair` makes rows equal",
                "orders: row -5 is only in the copy",
                "orders: row 1 is missing in the copy",
                "orders: row 2900 is missing in the copy",
                "orders: row 4000 is only in the copy",
                "orders: row 7 has other values in the copy",
            ],
            "{spoilt}"
        );
        assert_eq!(spoilt.code, DIFFERS);
        let repaired = verify(&shop, "orders", &["--to", to, "--repair"]);
        assert!(repaired.printed().ends_with("orders: equal: 3,000 rows, 5 of them repaired"), "{repaired}");
        assert_eq!(verify(&shop, "orders", &["--to", to]).printed(), "orders: equal: 3,000 rows");
    }
    shop.assert_equal("orders");
}

#[test]
fn a_copy_that_nobody_fills_is_called_behind_and_can_be_repaired() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(MANY);
    shop.copy("orders", &[]).printed();
    shop.source.execute(
        "UPDATE orders SET status = 'paid', updated_at = now() WHERE id = 3; DELETE FROM orders WHERE id = 4",
    );
    shop.target.execute("UPDATE orders SET status = 'spoilt' WHERE id = 5");
    let behind = verify(&shop, "orders", &["--settle", "1"]);
    assert_eq!(behind.code, DIFFERS, "{behind}");
    assert!(behind.stdout.contains("row 3 has other values in the copy, which is behind"), "{behind}");
    assert!(behind.stdout.contains("row 4 is only in the copy, which is behind"), "{behind}");
    assert!(behind.stdout.contains("row 5 has other values in the copy\n"), "{behind}");
    verify(&shop, "orders", &["--settle", "1", "--repair"]).printed();
    shop.assert_equal("orders");
    shop.copy("orders", &[]).printed();
    shop.assert_equal("orders");
}

#[test]
fn keys_that_the_copy_orders_otherwise_hide_nothing() {
    let shop = Shop::with(
        "CREATE TABLE notes (word text, amount numeric(12, 2), note text, updated_at timestamptz NOT NULL, PRIMARY KEY (word, amount));
         INSERT INTO notes SELECT CASE WHEN n % 2 = 0 THEN 'w' ELSE 'W' END || n, n / 4.0, 'n', '2026-01-01' FROM generate_series(1, 3000) n",
        &["notes"],
    );
    let file = sqlite(&shop);
    const SPOIL: &str = "UPDATE notes SET note = NULL WHERE word = 'w8'; DELETE FROM notes WHERE word = 'W9';
        INSERT INTO notes VALUES ('theirs', '1.00', 'n', '2026-01-01')";
    for to in [&shop.target.url, &file] {
        shop.copy("notes", &["--to", to]).printed();
        assert_eq!(verify(&shop, "notes", &["--to", to]).printed(), "notes: equal: 3,000 rows");
    }
    shop.target.execute(SPOIL);
    Connection::open(shop.folder.path().join("copy.db")).unwrap().execute_batch(SPOIL).unwrap();
    for to in [&shop.target.url, &file] {
        let repaired = verify(&shop, "notes", &["--to", to, "--repair"]);
        for words in [
            "row w8, 2.00 has other",
            "row W9, 2.25 is missing",
            "row theirs, 1.00 is only",
            "3 of them repaired",
        ] {
            assert!(repaired.printed().contains(words), "{words}: {repaired}");
        }
        assert_eq!(verify(&shop, "notes", &["--to", to]).printed(), "notes: equal: 3,000 rows");
    }
}

// Table behaviours 1, 8
#[test]
fn a_copy_is_compared_and_repaired_while_both_sides_are_in_use() {
    let runtime = Runtime::new().unwrap();
    let shop = Shop::with(
        "CREATE TABLE placeholder (id bigint PRIMARY KEY, updated_at timestamptz NOT NULL)",
        &["placeholder"],
    );
    let config = BusyTableConfig { writers: 4, ..BusyTableConfig::default() };
    let busy = runtime.block_on(BusyTable::create(&shop.source.url, config)).unwrap();
    let shop = shop.also_reading(BusyTable::NAME);
    shop.source.execute(
        "INSERT INTO orders (id, status, amount, note) SELECT -n, 'still', 1, repeat('x', 100) FROM generate_series(1, 20000) n",
    );
    let _guard = runtime.enter();
    let following = shop.follow(BusyTable::NAME, &[]);
    following.wait_for("caught up");
    let writers = busy.start(Duration::from_secs(15));
    shop.target
        .execute("UPDATE orders SET note = 'spoilt' WHERE id = -77; DELETE FROM orders WHERE id = -12345");
    let found = verify(&shop, BusyTable::NAME, &[]);
    assert_eq!(found.code, DIFFERS, "{found}");
    assert!(
        found.stdout.contains("row -77 has other values") && found.stdout.contains("row -12345 is missing"),
        "{found}"
    );
    assert!(found.stdout.contains("1 missing, 1 with other values;"), "{found}");
    let repaired = verify(&shop, BusyTable::NAME, &["--repair"]);
    assert!(repaired.printed().contains("2 of them repaired"), "{repaired}");
    following.wait_for("rows were repaired meanwhile");
    let equal = verify(&shop, BusyTable::NAME, &[]);
    assert!(equal.printed().contains("orders: equal: "), "{equal}");
    runtime.block_on(writers.join()).unwrap();
    let equal = verify(&shop, BusyTable::NAME, &[]);
    assert!(equal.printed().contains("orders: equal: "), "{equal}");
    shop.assert_equal(BusyTable::NAME);
}

// Table behaviour 10
#[test]
fn floats_of_all_sizes_read_the_same_in_a_file() {
    let shop = Shop::with(
        "CREATE TABLE floats (id bigint PRIMARY KEY, f8 float8, f4 real, updated_at timestamptz NOT NULL DEFAULT '2026-01-01');
         INSERT INTO floats SELECT n, power(2::float8, n), CASE WHEN n BETWEEN -149 AND 127 THEN power(2::float8, n)::real END
            FROM generate_series(-1074, 1023) n;
         INSERT INTO floats SELECT 10000 + n, ('1e' || n)::float8, CASE WHEN n BETWEEN -44 AND 38 THEN ('1e' || n)::real END
            FROM generate_series(-323, 308) n;
         INSERT INTO floats SELECT 20000 + n, -(h || 'e' || n % 590 - 300)::float8, (h || 'e' || n % 60 - 45)::real
            FROM (SELECT n, translate(md5(n::text), 'abcdef', '')::numeric % 1000000000000000000 AS h FROM generate_series(1, 20000) n) x",
        &["floats"],
    );
    let file = sqlite(&shop);
    shop.copy("floats", &["--to", &file]).printed();
    assert_eq!(verify(&shop, "floats", &["--to", &file]).printed(), "floats: equal: 22,730 rows");
}

#[test]
fn what_can_not_be_compared_is_said() {
    let shop = Shop::with(ORDERS, &["orders"]);
    let none = verify(&shop, "orders", &[]);
    assert!(none.complained().contains("no copy that `gapless replicate` has made"), "{none}");
    let file = sqlite(&shop);
    let none = verify(&shop, "orders", &["--to", &file]);
    assert!(none.complained().contains("there is no file"), "{none}");
    shop.copy("orders", &[]).printed();
    shop.target.execute("ALTER TABLE orders DROP COLUMN status");
    let narrow = verify(&shop, "orders", &[]);
    assert!(narrow.complained().contains("status"), "{narrow}");
}

/// A file in the shop's folder.
fn sqlite(shop: &Shop) -> String {
    format!("sqlite:{}", shop.folder.path().join("copy.db").display())
}

fn verify(shop: &Shop, table: &str, arguments: &[&str]) -> Said {
    let mut command = gapless(&["verify", "--from", &shop.server.url(), "--table", table]);
    if !arguments.contains(&"--to") {
        command.args(["--to", &shop.target.url]);
    }
    said(command.args(arguments))
}
