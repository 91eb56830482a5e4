//! What `gapless replicate` tells those that watch over it, and those that wait for a copy.

use std::net::SocketAddr;

use gapless_testkit::{FaultyProxy, poll_until};

use crate::node::get;
use crate::shop::{Following, ORDERS, PATIENCE, Shop};

/// The value of a metric, if it is told.
fn value(metrics: &str, metric: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok())
}

fn address_of(following: &Following) -> SocketAddr {
    following.wait_for("serving metrics");
    let log = following.log();
    let address = log.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
    address.unwrap_or_else(|| panic!("{log}")).parse().unwrap()
}

#[test]
fn a_replicator_tells_how_old_its_copy_is_what_came_and_what_failed() {
    let shop = Shop::with(ORDERS, &["orders"]);
    shop.source.execute("INSERT INTO orders SELECT n, 'new', now() FROM generate_series(1, 5) AS n");
    let proxy = FaultyProxy::start(shop.server.address()).unwrap();
    let url = format!("http://{}", proxy.address());
    let command = shop.replicate_from(&url, "orders", &["--page-rows", "2", "--metrics", "127.0.0.1:0"]);
    let following = Following::start(command, shop.folder.path().join("metrics.log"));
    let address = address_of(&following);
    let wait_for = |metric: &str, is_right: &dyn Fn(f64) -> bool| {
        let metrics = || get(address, "/metrics");
        let found = poll_until(PATIENCE, || Ok(value(&metrics(), metric).filter(|value| is_right(*value))));
        found.unwrap().unwrap_or_else(|| panic!("{metric} isn't right in\n{}", metrics()))
    };
    wait_for(r#"gapless_replicate_rows_total{table="orders",op="upsert"}"#, &|rows| rows == 5.0);
    wait_for(r#"gapless_replicate_pages_total{table="orders"}"#, &|pages| pages >= 3.0);
    wait_for(r#"gapless_replicate_lag_seconds{table="orders"}"#, &|lag| lag == 0.0);
    shop.source.execute("DELETE FROM orders WHERE id = 1");
    wait_for(r#"gapless_replicate_rows_total{table="orders",op="delete"}"#, &|rows| rows == 1.0);
    let metrics = get(address, "/metrics");
    for name in ["cursor_age_seconds", "lag_seconds", "rows_total", "pages_total"] {
        assert!(metrics.contains(&format!("# HELP gapless_replicate_{name} ")), "{metrics}");
    }

    proxy.refuse(true);
    proxy.cut();
    let failures = r#"gapless_replicate_failures_total{table="orders",side="source",kind="unreachable"}"#;
    wait_for(failures, &|failures| failures >= 1.0);
    const AGE: &str = r#"gapless_replicate_cursor_age_seconds{table="orders"}"#;
    let age = wait_for(AGE, &|age| age > 0.0);
    wait_for(AGE, &|now| now > age + 1.5);
    proxy.refuse(false);
    wait_for(AGE, &|now| now < age + 1.5);
    assert!(get(address, "/nothing").contains("404"));
}

#[test]
fn a_port_for_metrics_that_is_taken_is_named() {
    let shop = Shop::with(ORDERS, &["orders"]);
    let address = shop.server.address().to_string();
    let taken = shop.copy("orders", &["--metrics", &address]);
    assert!(taken.complained().contains(&format!("can't listen on {address}")), "{taken}");
}
