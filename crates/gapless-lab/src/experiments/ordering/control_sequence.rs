//! `07-control-sequence-commit-order`

use std::time::Duration;

use tokio::time::timeout;

use super::holes;
use crate::database::StoreKind;
use crate::finding::Check;
use crate::plain_sql::PlainSql;
use crate::world::{JOINS, NOTHING, World, fresh_key, seqs, text};

/// How long a send is watched that must wait for another transaction: many times what it takes when nothing is in its way.
const WATCHED: Duration = Duration::from_millis(300);
const PAGE_ENTRIES: u32 = 50;

pub(super) async fn run(world: &World) -> anyhow::Result<Vec<Check>> {
    let mut checks = numbers_from_a_sequence(world).await?;
    checks.extend(seqs_under_the_row_lock(world).await?);
    Ok(checks)
}

/// Two writers take a number each; the later commits first, and a reader comes by in between.
async fn numbers_from_a_sequence(world: &World) -> anyhow::Result<Vec<Check>> {
    let (slow, fast, reader) = (world.plain_sql().await?, world.plain_sql().await?, world.plain_sql().await?);
    let source = NumberSource::create(world.kind(), &reader).await?;

    let slow_number = source.begin_and_take(&slow).await?;
    let fast_number = source.begin_and_take(&fast).await?;
    write(&fast, fast_number).await?;
    let mut seen = read_after(&reader, 0).await?;
    let cursor = seen.last().copied().unwrap_or(0);
    write(&slow, slow_number).await?;
    seen.extend(read_after(&reader, cursor).await?);
    let kept = reader.numbers("SELECT number FROM lab_numbered ORDER BY number").await?;
    Ok(vec![
        Check::exactly(source.described(), 2, kept.len()),
        Check::exactly("of these, skipped for ever by a reader in between", 1, kept.len() - seen.len()),
    ])
}

/// The same two writers on a feed: one holds its transaction open, the other sends through the server.
async fn seqs_under_the_row_lock(world: &World) -> anyhow::Result<Vec<Check>> {
    let slow = world.plain_sql().await?;
    let (mut fast, mut reader) = (world.connect("bob").await?, world.connect("cyd").await?);
    let slow_seq = begin_append(world, &slow).await?;

    let send = fast.start_send(world.conv(), fresh_key()?, text("fast")?).await?;
    let overtook = timeout(WATCHED, fast.sent(send)).await.is_ok();
    let (mut seen, cursor) = world.pages_from(&mut reader, NOTHING, PAGE_ENTRIES).await?;
    slow.run("COMMIT").await?;
    let fast_seq = fast.sent(send).await?.seq.get();

    let asked = gapless_core::SyncRequest { after: cursor.seq, epoch: Some(cursor.epoch) };
    seen.extend(world.pages_from(&mut reader, asked, PAGE_ENTRIES).await?.0);
    Ok(vec![
        Check::exactly("with the feed's row locked, the later send overtook", false, overtook),
        Check::exactly("seq of the transaction that began first", JOINS + 1, slow_seq),
        Check::exactly("seq of the send that came later", JOINS + 2, fast_seq),
        Check::exactly("skipped by a reader in between", 0, holes(&seqs(&seen), JOINS + 2)),
    ])
}

/// Where numbers come from that are not given back by a rollback and not ordered by commits.
enum NumberSource {
    /// A sequence.
    Sequence,
    /// SQLite has no sequences and one writer at a time. An application that numbers its rows before it has that one's turn, from
    /// a counter in a transaction of its own, gets the same.
    Counter,
}

impl NumberSource {
    async fn create(kind: StoreKind, sql: &PlainSql) -> anyhow::Result<Self> {
        sql.run("CREATE TABLE lab_numbered (number bigint PRIMARY KEY)").await?;
        match kind {
            StoreKind::Postgres => {
                sql.run("CREATE SEQUENCE lab_number").await?;
                Ok(Self::Sequence)
            }
            StoreKind::Sqlite => {
                sql.run("CREATE TABLE lab_counter (last bigint); INSERT INTO lab_counter VALUES (0)").await?;
                Ok(Self::Counter)
            }
        }
    }

    fn described(&self) -> &'static str {
        match self {
            Self::Sequence => "rows committed, numbered by a sequence",
            Self::Counter => "rows committed, numbered by a counter (SQLite has no sequences)",
        }
    }

    /// Takes a number in a transaction that stays open, if another may have one open as well.
    async fn begin_and_take(&self, sql: &PlainSql) -> anyhow::Result<u64> {
        match self {
            Self::Sequence => {
                sql.run("BEGIN").await?;
                sql.number("SELECT nextval('lab_number')").await
            }
            Self::Counter => {
                let number = sql.number("UPDATE lab_counter SET last = last + 1 RETURNING last").await?;
                sql.run("BEGIN").await?;
                Ok(number)
            }
        }
    }
}

async fn write(sql: &PlainSql, number: u64) -> anyhow::Result<()> {
    sql.run(&format!("INSERT INTO lab_numbered VALUES ({number}); COMMIT")).await
}

async fn read_after(sql: &PlainSql, cursor: u64) -> anyhow::Result<Vec<u64>> {
    sql.numbers(&format!("SELECT number FROM lab_numbered WHERE number > {cursor} ORDER BY number")).await
}

/// Appends as another gateway would, up to but without the commit. Returns the seq.
async fn begin_append(world: &World, sql: &PlainSql) -> anyhow::Result<u64> {
    let conv = world.conv();
    match world.kind() {
        StoreKind::Postgres => {
            sql.run(&format!("BEGIN; SELECT FROM feed WHERE feed = '{conv}' FOR UPDATE")).await?;
        }
        StoreKind::Sqlite => sql.run("BEGIN IMMEDIATE").await?,
    }
    let seq = 1 + sql.number(&format!("SELECT head FROM feed WHERE feed = '{conv}'")).await?;
    sql.run(&format!(
        "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
         VALUES ('{conv}', {seq}, 'message', 'ann', 'slow', 0, '{{\"text\":\"slow\"}}'); \
         UPDATE feed SET head = {seq} WHERE feed = '{conv}'"
    ))
    .await?;
    Ok(seq)
}
