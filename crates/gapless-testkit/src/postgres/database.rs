//! Fresh databases on a running server.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail};

use crate::postgres::PostgresBinaries;

/// Creates an empty database beside the one that `url` names, and returns its URL.
pub(crate) fn create(binaries: &PostgresBinaries, url: &str) -> anyhow::Result<String> {
    let name = unique_name();
    let output = binaries
        .command("psql")
        .args(["--no-psqlrc", "--quiet", "--no-password", "--dbname", url, "--command"])
        .arg(format!("create database {name} template template0"))
        .output()
        .context("running psql")?;
    if !output.status.success() {
        bail!("creating a database on {url} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(with_database(url, &name))
}

/// A name that no other process and no other call makes.
fn unique_name() -> String {
    static CREATED: AtomicU32 = AtomicU32::new(0);
    let number = CREATED.fetch_add(1, Ordering::Relaxed);
    let chance = RandomState::new().hash_one(number);
    format!("gapless_test_{}_{number}_{chance:016x}", process::id())
}

/// The same URL with another database in it.
fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = match url.split_once('?') {
        Some((address, parameters)) => (address, format!("?{parameters}")),
        None => (url, String::new()),
    };
    let authority_start = address.find("://").map_or(0, |position| position + "://".len());
    let authority_end =
        address[authority_start..].find('/').map_or(address.len(), |position| authority_start + position);
    format!("{}/{database}{parameters}", &address[..authority_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced_and_all_else_is_kept() {
        for (url, expected) in [
            ("postgres://u:p@host:1/old", "postgres://u:p@host:1/new"),
            ("postgres://u@host:1", "postgres://u@host:1/new"),
            ("postgres://u@host:1/", "postgres://u@host:1/new"),
            ("postgresql://host/old?sslmode=require", "postgresql://host/new?sslmode=require"),
            ("postgres://host?options=-cx/y", "postgres://host/new?options=-cx/y"),
        ] {
            assert_eq!(with_database(url, "new"), expected);
        }
    }

    #[test]
    fn names_of_databases_never_repeat() {
        assert_ne!(unique_name(), unique_name());
    }
}
