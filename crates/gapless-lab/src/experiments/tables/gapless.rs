//! gapless: the difference of two snapshots, in its two modes that miss nothing.

use std::time::Instant;

use anyhow::Context as _;
use gapless_tables::{Consistency, CursorKeys, Form, PageRequest, Source, TableConfig, install};
use gapless_testkit::BusyTable;
use serde::Deserialize;
use tokio::sync::watch;

use super::holding::{Change, Holding};
use super::polling::{self, Poll};

const PAGE_ROWS: u32 = 200;

/// A reader of the table, with its cursor.
pub(super) struct Gapless {
    source: Source,
    cursor: Option<String>,
    holding: Holding,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Record {
    Upsert { row: Written },
    Delete { key: Key },
}

#[derive(Deserialize)]
struct Written {
    id: String,
    version: String,
}

#[derive(Deserialize)]
struct Key {
    id: String,
}

impl Gapless {
    pub(super) async fn open(url: &str, consistency: Consistency) -> anyhow::Result<Self> {
        let config = TableConfig { consistency, ..TableConfig::new(BusyTable::NAME) };
        install(url, config.clone(), true).await.context("installing")?;
        let source = Source::open(url, 1, config, CursorKeys::new([])).await?;
        Ok(Self { source, cursor: None, holding: Holding::new()? })
    }

    /// Reads until it is told to finish, and then until nothing new comes.
    pub(super) async fn read(mut self, finish: watch::Receiver<bool>) -> anyhow::Result<Holding> {
        polling::follow(&mut self, finish).await?;
        Ok(self.holding)
    }
}

impl Poll for Gapless {
    async fn poll(&mut self) -> anyhow::Result<bool> {
        let mut is_news = false;
        loop {
            let asked_at = Instant::now();
            let request =
                PageRequest { cursor: self.cursor.take(), since: None, limit: PAGE_ROWS, form: Form::Lines };
            let page = self.source.page(&request).await?;
            self.holding.asked(asked_at)?;
            for line in page.rows.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let change = match serde_json::from_slice(line)? {
                    Record::Upsert { row: Written { id, version } } => {
                        Change::Written { id: id.parse()?, version: version.parse()? }
                    }
                    Record::Delete { key: Key { id } } => Change::Deleted { id: id.parse()? },
                };
                is_news |= self.holding.take(change, Instant::now());
            }
            self.cursor = Some(page.head.next_cursor);
            if !page.head.has_more {
                return Ok(is_news);
            }
        }
    }
}
