//! Whoever follows a table of any columns, and what they hold.

use std::collections::BTreeMap;

use gapless_tables::{Consistency, Deletes, Form, PageRequest, Source, SourceError, TableConfig};
use serde_json::Value;

use crate::shop::Shop;

/// A reader that holds the column `note` of each row, by the texts of its key.
pub(crate) struct Follower {
    key: Vec<String>,
    pub(crate) cursor: Option<String>,
    pub(crate) held: BTreeMap<String, String>,
}

impl Follower {
    pub(crate) fn of(config: &TableConfig) -> Self {
        Self { key: config.key.clone(), cursor: None, held: BTreeMap::new() }
    }

    /// Reads a page, and returns the keys that came and whether there are more.
    pub(crate) async fn page(
        &mut self,
        source: &Source,
        limit: u32,
    ) -> Result<(Vec<String>, bool), SourceError> {
        let request = PageRequest { cursor: self.cursor.clone(), since: None, limit, form: Form::Lines };
        let page = source.page(&request).await?;
        let lines = String::from_utf8(page.rows).unwrap();
        let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), page.head.records);
        let keys = records.iter().map(|record| self.apply(record)).collect();
        self.cursor = Some(page.head.next_cursor);
        Ok((keys, page.head.has_more))
    }

    /// Reads until nothing is left, and returns the keys that came.
    pub(crate) async fn catch_up(&mut self, source: &Source, limit: u32) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let (keys, has_more) = self.page(source, limit).await.unwrap_or_else(|error| panic!("{error}"));
            all.extend(keys);
            if !has_more {
                return all;
            }
        }
    }

    fn apply(&mut self, record: &Value) -> String {
        let is_delete = record["op"] == "delete";
        let row = if is_delete { &record["key"] } else { &record["row"] };
        let key: Vec<String> = self.key.iter().map(|name| text(&row[name])).collect();
        let key = key.join("|");
        match is_delete {
            true => drop(self.held.remove(&key)),
            false => drop(self.held.insert(key.clone(), text(&row["note"]))),
        }
        key
    }
}

/// A table `t` with a key and the cursor column `at`.
pub(crate) fn table(key: &[&str], consistency: Consistency) -> TableConfig {
    let deletes = match consistency {
        Consistency::Strict | Consistency::Watched => Deletes::Tombstones,
        Consistency::BestEffort => Deletes::None,
    };
    TableConfig {
        cursor: "at".to_owned(),
        key: key.iter().map(|&name| name.to_owned()).collect(),
        consistency,
        deletes,
        delay_ms: (consistency == Consistency::BestEffort).then_some(0),
        ..TableConfig::new("t")
    }
}

/// The keys of a table in the database's own order of cursor and key.
pub(crate) async fn in_order(shop: &Shop, config: &TableConfig) -> Vec<String> {
    let keys = quoted(&config.key);
    let order: Vec<String> = quoted(std::slice::from_ref(&config.cursor))
        .iter()
        .chain(&keys)
        .map(|name| format!("t.{name}"))
        .collect();
    let sql = format!("SELECT {} FROM {} t ORDER BY {}", key_text(&keys), relation(config), order.join(", "));
    shop.sql.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// What a follower of a table should hold.
pub(crate) async fn notes(shop: &Shop, config: &TableConfig) -> BTreeMap<String, String> {
    let sql = format!("SELECT {}, note FROM {}", key_text(&quoted(&config.key)), relation(config));
    shop.sql.query(&sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn relation(config: &TableConfig) -> String {
    let name = config.table.as_deref().unwrap_or(&config.name);
    let (schema, table) = name.split_once('.').unwrap_or(("public", name));
    quoted(&[schema.to_owned(), table.to_owned()]).join(".")
}

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect()
}

fn key_text(keys: &[String]) -> String {
    let texts: Vec<String> = keys.iter().map(|key| format!("{key}::text")).collect();
    texts.join(" || '|' || ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
