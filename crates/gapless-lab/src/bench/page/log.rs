//! A long conversation, made where it is kept.

use anyhow::Context as _;
use gapless_core::History;
use gapless_proto::{ConvId, UserId};
use gapless_store::Creation;

use crate::database::Database;
use crate::progress::Progress;

pub(super) const CONVERSATION: &str = "long";
/// Who may see all of it.
pub(super) const READER: &str = "ann";

/// How many entries are made in one statement.
const STEP: u64 = 250_000;

/// Creates the conversation, and fills it up to `entries` entries past gapless: nobody could wait for that many sends.
pub(super) async fn fill(database: &Database, entries: u64) -> anyhow::Result<()> {
    let store = database.open_store().await?;
    let creation = Creation {
        conv: ConvId::new(CONVERSATION)?,
        creator: UserId::new(READER)?,
        members: Vec::new(),
        history: History::FromJoin,
    };
    store.create(creation).await.context("creating a conversation")?;
    store.close().await;

    let sql = database.plain_sql().await?;
    let first = 1 + sql.number("SELECT head FROM feed").await?;
    let steps: Vec<_> = (first..=entries).step_by(usize::try_from(STEP)?).collect();
    let progress = Progress::new(steps.len());
    for start in steps {
        progress.begin(format!("making {entries} entries"));
        let end = entries.min(start + STEP - 1);
        sql.run(&format!(
            "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
             SELECT '{CONVERSATION}', n, 'message', '{READER}', 'key-' || lpad(n::text, 12, '0'), \
                 1700000000000 + n, \
                 '{{\"text\":\"message number ' || n || ' of a long conversation, as people write them\"}}' \
             FROM generate_series({start}, {end}) AS n; \
             UPDATE feed SET head = {end}"
        ))
        .await?;
        progress.step();
    }
    sql.run("VACUUM ANALYZE entry").await
}
