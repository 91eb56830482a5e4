//! `gapless replicate`, from a real server into real targets.

use std::fs;

use gapless_testkit::FaultyProxy;

use crate::command::{gapless, run, said};
use crate::shop::{Following, ORDERS, Shop};

const THREE: &str = "
    INSERT INTO orders SELECT n, 'new', '2026-01-01' FROM generate_series(1, 3) AS n";

// Table behaviour 10
#[test]
fn a_copy_has_every_value_and_every_type_as_it_is() {
    let shop = Shop::with(include_str!("types.sql"), &["Types"]);
    shop.copy("Types", &[]).printed();
    shop.assert_equal("\"Types\"");
    const TYPES: &str = "
        SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = '\"Types\"'::regclass AND attnum > 0 AND attname <> 'gapless_xid' ORDER BY 1";
    assert_eq!(shop.source.query(TYPES), shop.target.query(TYPES));

    let file = format!("sqlite:{}", shop.folder.path().join("copy.db").display());
    shop.copy("Types", &["--to", &file]).printed();
    let copy = rusqlite::Connection::open(shop.folder.path().join("copy.db")).unwrap();
    let texts = shop.source.query(
        "SELECT concat_ws('|', \"Id\", num, iv, arr::text, ttz, e, gen) FROM \"Types\" ORDER BY \"Id\"",
    );
    let mut statement =
        copy.prepare("SELECT concat_ws('|', Id, num, iv, arr, ttz, e, gen) FROM Types ORDER BY Id").unwrap();
    let copied =
        statement.query_map((), |row| row.get(0)).unwrap().collect::<Result<Vec<String>, _>>().unwrap();
    assert_eq!(copied, texts);
    let zero: f64 = copy.query_row("SELECT f8 FROM Types WHERE Id = 4", (), |row| row.get(0)).unwrap();
    assert!(zero == 0.0 && zero.is_sign_negative());
    let bytes: Vec<u8> =
        copy.query_row("SELECT \"by\" FROM Types WHERE Id = 1", (), |row| row.get(0)).unwrap();
    assert_eq!(bytes, [0, 255, 16]);
}

// Table behaviour 7
#[test]
fn what_changes_arrives_and_the_copy_ends_equal() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(THREE);
    let following = shop.follow("orders", &[]);
    const STATUSES: &str = "SELECT string_agg(id || status, ' ' ORDER BY id) FROM orders";
    following.wait_for("the target is ready");
    shop.target.wait_for(STATUSES, "1new 2new 3new");
    for (change, statuses) in [
        ("UPDATE orders SET status = 'paid', updated_at = now() WHERE id = 2", "1new 2paid 3new"),
        ("DELETE FROM orders WHERE id = 1", "2paid 3new"),
        ("INSERT INTO orders VALUES (1, 'back', now())", "1back 2paid 3new"),
        ("UPDATE orders SET id = 4, updated_at = now() WHERE id = 3", "1back 2paid 4new"),
        ("TRUNCATE orders; INSERT INTO orders VALUES (9, 'only', now())", "9only"),
    ] {
        shop.source.execute(change);
        shop.target.wait_for(STATUSES, statuses);
    }
}

#[test]
fn a_second_replicator_of_a_target_is_refused() {
    let shop = Shop::with(ORDERS, &["orders"]);
    let file = format!("sqlite:{}", shop.folder.path().join("copy.db").display());
    for arguments in [&[][..], &["--to", &file]] {
        let following = shop.follow("orders", arguments);
        following.wait_for("the target is ready");
        let second = shop.copy("orders", arguments);
        assert_eq!(second.code, Some(3), "{second}");
        assert!(second.stderr.contains("another replicator fills"), "{second}");
    }
}

// Table behaviour 11
#[test]
fn a_target_that_can_not_be_written_is_waited_for_and_holds_no_half_page() {
    let shop = Shop::with(ORDERS, &["orders"]);
    let following = shop.follow("orders", &[]);
    following.wait_for("the target is ready");
    let disturb = |how: &str| {
        shop.target.execute(&format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I {how}', current_database()); END $$;
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ));
    };
    disturb("SET default_transaction_read_only = on");
    shop.source.execute(THREE);
    following.wait_for("it fails, and is tried again");
    assert_eq!(shop.target.query("SELECT count(*) FROM orders"), ["0"]);
    disturb("RESET default_transaction_read_only");
    shop.target.wait_for("SELECT count(*) FROM orders", "3");

    shop.target.execute("DROP TABLE orders");
    shop.source.execute("UPDATE orders SET status = 'paid', updated_at = now()");
    let (code, log) = following.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(
        log.contains("was dropped") && log.contains("DELETE FROM \"public\".\"gapless_replica\""),
        "{log}"
    );
}

// Table behaviour 11
#[test]
fn a_network_that_breaks_again_and_again_costs_only_time() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(
        "INSERT INTO orders SELECT n, repeat('x', 100), '2026-01-01' FROM generate_series(1, 20000) AS n",
    );
    let proxy = FaultyProxy::start(shop.server.address()).unwrap();
    let url = format!("http://{}", proxy.address());
    let command = shop.replicate_from(&url, "orders", &["--page-rows", "500"]);
    let following = Following::start(command, shop.folder.path().join("far.log"));
    for share in ["2000", "6000"] {
        let statement = format!("SELECT (count(*) >= {share})::text FROM orders");
        following.wait_for("the target is ready");
        shop.target.wait_for(&statement, "true");
        proxy.cut();
    }
    shop.target.wait_for("SELECT count(*) FROM orders", "20000");
    proxy.refuse(true);
    proxy.cut();
    following.wait_for("it fails, and is tried again");
    proxy.refuse(false);
    shop.source.execute("DELETE FROM orders WHERE id > 10");
    shop.target.wait_for("SELECT count(*) FROM orders", "10");
    shop.assert_equal("orders");
}

#[test]
fn a_column_that_is_new_at_the_source_comes_with_its_values_and_another_change_stops_with_its_name() {
    let mut shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(THREE);
    shop.copy("orders", &[]).printed();
    shop.source.execute("ALTER TABLE orders ADD COLUMN note text DEFAULT 'none'");
    shop.restart();
    shop.copy("orders", &[]).printed();
    shop.assert_equal("orders");
    assert_eq!(shop.target.query("SELECT DISTINCT note FROM orders"), ["none"]);

    shop.source.execute("ALTER TABLE orders ALTER COLUMN note TYPE varchar(20)");
    shop.restart();
    let stopped = shop.copy("orders", &[]);
    assert!(stopped.complained().contains("the column `note` is a character varying(20)"), "{stopped}");
    shop.source.execute("ALTER TABLE orders DROP COLUMN note");
    shop.restart();
    let stopped = shop.copy("orders", &[]);
    assert!(stopped.complained().contains("the column `note` isn't at the source any more"), "{stopped}");
}

// Table behaviour 10
#[test]
fn a_type_that_is_changed_brings_all_rows_once_more_even_where_the_target_keeps_both_alike() {
    let table =
        "CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(12, 2), updated_at timestamptz NOT NULL)";
    let mut shop = Shop::with(table, &["orders"]);
    shop.source.execute("INSERT INTO orders SELECT n, n, now() FROM generate_series(1, 20) n");
    let file = format!("sqlite:{}", shop.folder.path().join("copy.db").display());
    shop.copy("orders", &["--to", &file]).printed();
    shop.source.execute("ALTER TABLE orders ALTER COLUMN total TYPE numeric(14, 4)");
    shop.restart();
    assert!(shop.copy("orders", &["--to", &file]).printed().contains("20 rows put"));
    assert!(shop.copy("orders", &["--to", &file]).printed().contains("0 rows put"));
    let copy = rusqlite::Connection::open(shop.folder.path().join("copy.db")).unwrap();
    let total: String =
        copy.query_row("SELECT total FROM orders WHERE id = 7", [], |row| row.get(0)).unwrap();
    assert_eq!(total, "7.0000");
}

// Table behaviour 6
#[test]
fn a_file_takes_no_keys_that_are_equal_and_written_differently() {
    let table =
        |key: &str| format!("CREATE TABLE orders (id {key} PRIMARY KEY, updated_at timestamptz NOT NULL)");
    for (key, is_taken) in
        [("numeric", false), ("numeric(9, 2)", true), ("interval", false), ("char(3)", true)]
    {
        let shop = Shop::with(&table(key), &["orders"]);
        let file = format!("sqlite:{}", shop.folder.path().join("copy.db").display());
        let said = shop.copy("orders", &["--to", &file]);
        match is_taken {
            true => drop(said.printed()),
            false => assert!(said.complained().contains("`id`"), "{said}"),
        }
    }
}

// Table behaviour 11
#[test]
fn a_copy_that_begins_with_a_replay_gets_all_rows() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(THREE);
    shop.copy("orders", &["--since", "2100-01-01"]).printed();
    shop.assert_equal("orders");
}

// Table behaviour 11
#[test]
fn a_replay_takes_nothing_back_and_misses_nothing() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(THREE);
    shop.copy("orders", &[]).printed();
    shop.source.execute("UPDATE orders SET status = 'paid', updated_at = '2026-01-03' WHERE id = 2; DELETE FROM orders WHERE id = 3");
    shop.copy("orders", &[]).printed();
    // Somebody has spoilt the copy; and there is a change that the replay doesn't reach.
    shop.target.execute("UPDATE orders SET status = 'spoilt'");
    shop.source.execute("INSERT INTO orders VALUES (4, 'old', '2025-01-01')");
    let replayed = shop.copy("orders", &["--since", "2026-01-02"]);
    assert!(replayed.printed().contains("up to date"), "{replayed}");
    const STATUSES: &str = "SELECT string_agg(id || status, ' ' ORDER BY id) FROM orders";
    assert_eq!(shop.target.query(STATUSES), ["1spoilt 2paid 4old"]);
    shop.copy("orders", &["--since", "-infinity"]).printed();
    shop.assert_equal("orders");
    shop.target
        .execute("UPDATE orders SET status = 'spoilt'; INSERT INTO orders VALUES (7, 'theirs', now())");
    shop.copy("orders", &["--anew"]).printed();
    shop.assert_equal("orders");
}

// Table behaviour 9
#[test]
fn a_cursor_that_means_nothing_any_more_stops_the_copy_with_what_to_do() {
    let mut shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute(THREE);
    shop.copy("orders", &[]).printed();
    shop.source.execute(&format!("DROP TABLE orders; {ORDERS}"));
    let file = shop.folder.path().join("tables.toml");
    run(&["table", "install", "--index", file.to_str().unwrap()]).printed();
    shop.source.execute("INSERT INTO orders VALUES (7, 'other', '2026-02-01')");
    shop.restart();
    let stopped = shop.copy("orders", &[]);
    assert!(stopped.complained().contains("EPOCH_CHANGED") && stopped.stderr.contains("--anew"), "{stopped}");
    assert_eq!(shop.target.query("SELECT count(*) FROM orders"), ["3"]);
    shop.copy("orders", &["--since", "2026-01-15"]).printed();
    assert_eq!(shop.target.query("SELECT count(*) FROM orders"), ["4"]);
    shop.copy("orders", &["--anew"]).printed();
    shop.assert_equal("orders");
}

// Table behaviour 9
#[test]
fn a_copy_that_was_not_fed_until_deletes_were_purged_stops_and_is_made_anew() {
    let mut shop = Shop::with(ORDERS, &["orders"]);
    let file = shop.folder.path().join("tables.toml");
    let purge = move |age: &str| run(&["table", "purge", file.to_str().unwrap(), "--older-than", age]);
    shop.source.execute(THREE);
    shop.copy("orders", &[]).printed();
    shop.source.execute("DELETE FROM orders WHERE id = 3");
    assert!(purge("30d").printed().contains("orders: nothing to purge"));
    shop.copy("orders", &[]).printed();
    assert!(purge("0s").printed().contains("orders: notes of deleted rows that were purged: 1, up to "));
    shop.source.execute("DELETE FROM orders WHERE id = 2");
    shop.copy("orders", &[]).printed();
    shop.assert_equal("orders");

    shop.source.execute("DELETE FROM orders WHERE id = 1; INSERT INTO orders VALUES (4, 'new', now())");
    purge("0s").printed();
    for arguments in [&[][..], &["--since", "2026-01-02"]] {
        let stopped = shop.copy("orders", arguments);
        assert_eq!(stopped.code, Some(1), "{stopped}");
        assert!(
            stopped.stderr.contains("CURSOR_EXPIRED") && stopped.stderr.contains("replicate --anew`"),
            "{stopped}"
        );
        assert_eq!(shop.target.query("SELECT id FROM orders"), ["1"]);
    }
    shop.copy("orders", &["--anew"]).printed();
    shop.assert_equal("orders");

    // All rows once more need no deletes of long ago, beside a cursor that has passed them.
    shop.source
        .execute("ALTER TABLE orders ADD COLUMN note text DEFAULT 'none'; DELETE FROM orders WHERE id = 4");
    shop.restart();
    shop.copy("orders", &[]).printed();
    shop.assert_equal("orders");
    let stopped = shop.copy("orders", &["--since", "2026-01-02"]);
    assert!(stopped.complained().contains("`-infinity`"), "{stopped}");
    shop.target.execute("UPDATE orders SET note = 'spoilt'");
    shop.copy("orders", &["--since", "-infinity"]).printed();
    shop.assert_equal("orders");
}

#[test]
fn many_tables_are_copied_by_one_file() {
    let users = ORDERS.replace("orders", "users");
    let shop = Shop::with(&format!("{ORDERS}; {users}; {THREE}"), &["orders", "users"]);
    let file = shop.folder.path().join("copies.toml");
    let tables = "[[tables]]\ntable = \"orders\"\ninto = \"shop.sales\"\n[[tables]]\ntable = \"users\"\n";
    let head = format!("from = \"{}\"\nto = \"$COPIES_GO_HERE\"\n", shop.server.url());
    fs::write(&file, format!("{head}{tables}")).unwrap();
    let mut command = gapless(&["replicate", file.to_str().unwrap(), "--once"]);
    let done = said(command.env("COPIES_GO_HERE", &shop.target.url));
    assert!(done.printed().contains("orders: up to date; 3 rows put"), "{done}");
    assert!(!format!("{done}").contains('\x1b'), "bars and colours are for terminals: {done}");
    assert_eq!(shop.target.query("SELECT count(*) FROM shop.sales"), ["3"]);
    assert_eq!(shop.target.query("SELECT count(*) FROM users"), ["0"]);

    fs::write(&file, format!("{head}{}", tables.replace("into", "onto"))).unwrap();
    let wrong = run(&["replicate", file.to_str().unwrap(), "--once"]);
    assert!(wrong.complained().contains("onto"), "{wrong}");
}

#[test]
fn what_stops_a_copy_before_it_begins_is_said() {
    let shop = Shop::with(ORDERS, &["orders"]);
    let unknown = shop.copy("ordres", &[]);
    assert!(unknown.complained().contains("no such table"), "{unknown}");
    let strange = shop.copy("orders", &["--to", "mysql://x"]);
    assert!(strange.complained().contains("sqlite:FILE"), "{strange}");
    let nowhere = shop.copy("orders", &["--to", &format!("{}_not_there", shop.target.url)]);
    assert!(nowhere.complained().contains("does not exist"), "{nowhere}");
    shop.target
        .execute("CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(3), updated_at timestamptz)");
    let misfit = shop.copy("orders", &[]);
    assert!(misfit.complained().contains("the column `status` is a text at the source"), "{misfit}");
}
