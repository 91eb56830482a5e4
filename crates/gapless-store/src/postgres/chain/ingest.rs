//! Takes blocks, in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_core::{
    BlockRefusal, BlockTree, ChainEntry, ChainEntryKind, ChainWrite, Stretch, ValueName, Voided, plan,
};
use gapless_proto::{
    Block, BlockHash, BlockNumber, BlockRef, Body, ChainEvent, ChainId, ChainPoint, Change, Effect, Epoch,
    Seq, Timestamp,
};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Statement};

use super::super::columns::Params;
use super::super::commit::{BEGIN, COMMIT, roll_back};
use super::super::fault::Fault;
use super::super::link::{LOCKED_PATIENCE, Session, WRITTEN_PATIENCE};
use super::super::rows::{self, bigint};
use super::reading::{topic, value_key};
use super::statements::{
    CHANGES, COPY_ENTRIES, COPY_VALUES, CREATE, DELETE_VALUES, FIRST_VOID, FORGET_BLOCKS, INFO,
    INSERT_BLOCKS, INSERT_ENTRIES, INSERT_VALUES, KEEP_ORPHAN, LAST_LOG, LATEST_VALUES, LOCK, MOVE_HEAD,
    ORPHANS, REVOKE_BLOCKS, TREE, VOID,
};
use super::{block_ref, hash, json, log};
use crate::{ChainInfo, ChainNews, IngestError, Ingested, Ingestion};

/// From how many rows on they are copied.
const COPIED_ROWS_MIN: usize = 500;

const ENTRY_TYPES: [Type; 11] = [
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
];
const VALUE_TYPES: [Type; 7] =
    [Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8, Type::TEXT, Type::TEXT];

/// The blocks of a chain that are kept, as of one version of its row.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct KnownTree {
    version: i64,
    tree: BlockTree,
}

/// What was taken.
pub(in crate::postgres) struct Taken {
    pub(in crate::postgres) ingested: Ingested,
    pub(in crate::postgres) news: ChainNews,
    pub(in crate::postgres) known: KnownTree,
}

/// Why a transaction took nothing.
pub(in crate::postgres) enum Failed {
    /// It was refused, and is rolled back.
    Refused(IngestError),
    /// What the feed that was given up has left isn't deleted yet. The transaction is rolled back.
    Clearing,
    /// The database failed. Whether it was committed isn't known.
    Fault(Fault),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// A chain whose row is locked.
struct Feed<'session> {
    session: &'session Session,
    /// The chain's id as it is stored.
    chain: String,
}

/// Takes blocks. `known` has those that are kept, if that was known after the last ingestion.
pub(in crate::postgres) async fn ingest(
    session: &Session,
    chain: ChainId,
    ingestion: Ingestion,
    known: Option<KnownTree>,
    now: Timestamp,
) -> Result<Taken, Failed> {
    let feed = Feed { session, chain: chain.to_string() };
    let Locked { info: before, version, is_clearing } = patiently(LOCKED_PATIENCE, feed.lock(now)).await?;
    if is_clearing {
        roll_back(session).await?;
        return Err(Failed::Clearing);
    }
    let tree = match known {
        Some(known) if known.version == version => known.tree,
        Some(_) | None => feed.load_tree(before.finalized).await?,
    };
    match patiently(WRITTEN_PATIENCE, feed.take(before, tree, ingestion)).await {
        Ok((taken, tree)) => {
            let Ingested { chain: info, .. } = taken.ingested;
            let news = ChainNews { chain, info, entries: taken.entries };
            let known = KnownTree { version: version + 1, tree };
            Ok(Taken { ingested: taken.ingested, news, known })
        }
        Err(Failed::Refused(refusal)) => {
            roll_back(session).await?;
            Err(Failed::Refused(refusal))
        }
        Err(fault) => Err(fault),
    }
}

struct Locked {
    info: ChainInfo,
    version: i64,
    is_clearing: bool,
}

struct Committed {
    ingested: Ingested,
    entries: Vec<ChainEntry>,
}

impl Feed<'_> {
    /// Opens the transaction and locks the chain's row; makes one if there is none.
    async fn lock(&self, now: Timestamp) -> Result<Locked, Failed> {
        let Self { session, chain } = self;
        let (epoch, now) = (bigint(Epoch::of_creation(now).get()), bigint(now.get()));
        let (create, lock) = (session.prepared(CREATE).await?, session.prepared(LOCK).await?);
        let info = session.prepared(INFO).await?;
        let (begun, created, locked, info) = tokio::join!(
            biased;
            session.command(BEGIN),
            session.execute(&create, [chain, &epoch, &now]),
            session.query(&lock, [chain]),
            // Read by a statement of its own, which sees what was committed while the lock was waited for.
            session.query(&info, [chain]),
        );
        begun?;
        created?;
        let (locked, info) = (locked?, info?);
        let (Some(locked), Some(info)) = (locked.first(), info.first()) else {
            return Err(Fault::unreadable("chain", "its row is missing").into());
        };
        let (version, is_clearing) = (locked.try_get(0)?, locked.try_get(1)?);
        Ok(Locked { info: super::info(info, 0)?, version, is_clearing })
    }

    async fn load_tree(&self, finalized: Option<BlockNumber>) -> Result<BlockTree, Failed> {
        let mut tree = BlockTree::default();
        for row in &self.session.rows(TREE, [&self.chain]).await? {
            let (block, parent) = (block_ref(row, 0)?, hash(row, 2)?);
            if row.try_get(3)? { tree.extend(block, parent) } else { tree.insert_orphan(block, parent) }
        }
        if let Some(finalized) = finalized {
            tree.finalize(finalized);
        }
        Ok(tree)
    }

    async fn take(
        &self,
        before: ChainInfo,
        tree: BlockTree,
        ingestion: Ingestion,
    ) -> Result<(Committed, BlockTree), Failed> {
        let refused = |refusal: IngestError| Failed::Refused(refusal);
        let (mut tree, stretches) =
            plan(tree, ingestion.blocks, ingestion.head).map_err(|refusal| refused(refusal.into()))?;
        if let Some(finalized) = ingestion.finalized {
            tree.finalize(finalized);
        }
        let taken = stretches.iter().map(|stretch| stretch.blocks.len()).sum();
        let (mut head, mut revoked, mut entries) = (before.head, 0, Vec::new());
        let statements = WriteStatements::prepared(self.session).await?;
        // The last one is written together with the commit.
        let mut unwritten: Option<(Stretch, ChainWrite)> = None;
        for stretch in stretches {
            if let Some((stretch, written)) = unwritten.take() {
                self.write(&statements, &stretch, &written).await?;
                entries.extend(written.entries);
            }
            let orphans = self.adopt(&stretch.adopt).await?;
            let stretch = stretch.with_adopted(orphans);
            let voided = match stretch.revoke_to {
                Some(ancestor) => {
                    let voided = self.look_up_void(ancestor).await?;
                    revoked += self.revoke(ancestor, head.next(), voided).await?;
                    Some(voided)
                }
                None => None,
            };
            let values = self.values(&stretch).await?;
            let written = stretch.write(head, voided, values).map_err(|refusal| refused(refusal.into()))?;
            head = written.entries.last().map_or(head, |entry| entry.seq);
            unwritten = Some((stretch, written));
        }
        if let (Some((_, written)), Some(finalized)) = (&mut unwritten, tree.finalized()) {
            written.forget_past(finalized);
        }
        let Some(block) = tree.head() else {
            // Nothing was sent for a chain that nothing is known of.
            return Err(refused(BlockRefusal::UnknownHead.into()));
        };
        let oldest = block.number.below(ingestion.window);
        tree.forget_below(oldest);
        let info = ChainInfo { head, block: Some(block), finalized: tree.finalized(), ..before };
        // A statement that fails makes the COMMIT behind it a rollback, so each answer counts.
        let (written, committed) = tokio::join!(
            biased;
            async {
                match &unwritten {
                    Some((stretch, written)) => self.write(&statements, stretch, written).await,
                    None => Ok(()),
                }
            },
            self.commit(&statements, info, oldest),
        );
        written?;
        committed?;
        entries.extend(unwritten.into_iter().flat_map(|(_, written)| written.entries));
        Ok((Committed { ingested: Ingested { chain: info, taken, revoked }, entries }, tree))
    }

    /// Reads orphans that become canonical again, in the order of their hashes.
    async fn adopt(&self, hashes: &[BlockHash]) -> Result<Vec<Block>, Failed> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<&[u8]> = hashes.iter().map(|hash| &hash.0[..]).collect();
        let rows = self.session.rows(ORPHANS, [&self.chain, &keys]).await?;
        let mut blocks = rows.iter().map(orphan).collect::<Result<Vec<_>, Fault>>()?;
        blocks.sort_unstable_by_key(|block| block.number);
        Ok(blocks)
    }

    /// Finds what a revoke of all above `ancestor` voids.
    async fn look_up_void(&self, ancestor: BlockRef) -> Result<Voided, Failed> {
        let number = bigint(ancestor.number.get());
        let first = self.session.rows(FIRST_VOID, [&self.chain, &number]).await?;
        let last = self.session.rows(LAST_LOG, [&self.chain, &number]).await?;
        let log = last.first().map_or(Ok(0), |row| log(row, 0))?;
        let first = first.first().map(|row| rows::seq(row, 0)).transpose()?;
        Ok(Voided { to: ChainPoint { block: ancestor.number, log }, first })
    }

    /// Makes orphans of the blocks above `ancestor`, with the events that they need to come back, and takes those back by the entry
    /// `revoke`. Returns how many blocks there were.
    async fn revoke(&self, ancestor: BlockRef, revoke: Seq, voided: Voided) -> Result<usize, Failed> {
        let above = bigint(ancestor.number.get());
        let blocks = self.session.rows(REVOKE_BLOCKS, [&self.chain, &above]).await?;
        let Some(first) = voided.first else {
            return Ok(blocks.len());
        };
        for (hash, events) in self.void(bigint(first.get()), bigint(revoke.get())).await? {
            self.session.run(KEEP_ORPHAN, [&self.chain, &&hash.0[..], &text(&events)]).await?;
        }
        Ok(blocks.len())
    }

    /// Takes back the events from `first` on; returns them by their blocks, with what they did to values.
    async fn void(&self, first: i64, revoke: i64) -> Result<BTreeMap<BlockHash, Vec<ChainEvent>>, Failed> {
        let mut changes: BTreeMap<Seq, Vec<Change>> = BTreeMap::new();
        for row in &self.session.rows(CHANGES, [&self.chain, &first]).await? {
            let added: Option<&str> = row.try_get(2)?;
            let effect = match added {
                Some(amount) => {
                    Effect::Add(amount.parse().map_err(|error| Fault::unreadable("amount", error))?)
                }
                None => Effect::Set(rows::body(row, 3)?),
            };
            changes.entry(rows::seq(row, 0)?).or_default().push(Change { key: value_key(row, 1)?, effect });
        }
        let mut events = BTreeMap::new();
        for row in &self.session.rows(VOID, [&self.chain, &first, &revoke]).await? {
            let seq = rows::seq(row, 0)?;
            let event = ChainEvent {
                log: log(row, 2)?,
                topic: topic(row, 3)?,
                payload: rows::body(row, 4)?,
                changes: changes.remove(&seq).unwrap_or_default(),
            };
            events.insert((hash(row, 1)?, seq), event);
        }
        self.session.run(DELETE_VALUES, [&self.chain, &first]).await?;
        let mut by_block: BTreeMap<BlockHash, Vec<ChainEvent>> = BTreeMap::new();
        for ((hash, _), event) in events {
            by_block.entry(hash).or_default().push(event);
        }
        Ok(by_block)
    }

    /// The values that a stretch depends on. What a revoke voids is gone already.
    async fn values(&self, stretch: &Stretch) -> Result<BTreeMap<ValueName, Body>, Failed> {
        let names = stretch.values();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (topics, keys): (Vec<&str>, Vec<&str>) =
            names.iter().map(|(topic, key)| (topic.as_str(), key.as_str())).unzip();
        let rows = self.session.rows(LATEST_VALUES, [&self.chain, &topics, &keys]).await?;
        let values = rows.iter().map(|row| Ok(((topic(row, 0)?, value_key(row, 1)?), rows::body(row, 2)?)));
        Ok(values.collect::<Result<_, Fault>>()?)
    }

    /// Writes a stretch. Its statements are sent at the first poll, if they were prepared before.
    async fn write(
        &self,
        statements: &WriteStatements,
        stretch: &Stretch,
        written: &ChainWrite,
    ) -> Result<(), Failed> {
        let Self { session, chain } = self;
        let blocks = BlockColumns::of(&stretch.blocks);
        let entries = EntryColumns::of(&written.entries);
        let values = ValueColumns::of(written);
        // What isn't needed isn't sent.
        let (blocks, entries, values) = tokio::join!(
            biased;
            async {
                if stretch.blocks.is_empty() {
                    return Ok(0);
                }
                let BlockColumns { hashes, numbers, parents, times } = &blocks;
                session.execute(&statements.blocks, [chain, hashes, numbers, parents, times]).await
            },
            async {
                if written.entries.is_empty() {
                    return Ok(0);
                }
                if written.entries.len() >= COPIED_ROWS_MIN {
                    return session.copy(&statements.copy_entries, &ENTRY_TYPES, entries.rows(chain)).await;
                }
                session.execute(&statements.entries, [
                    chain, &entries.seqs, &entries.kinds, &entries.blocks, &entries.logs, &entries.hashes, &entries.times,
                    &entries.topics, &entries.payloads, &entries.states, &entries.firsts,
                ]).await
            },
            async {
                if written.versions.is_empty() {
                    return Ok(0);
                }
                if written.versions.len() >= COPIED_ROWS_MIN {
                    return session.copy(&statements.copy_values, &VALUE_TYPES, values.rows(chain)).await;
                }
                session.execute(&statements.values, [
                    chain, &values.topics, &values.keys, &values.seqs, &values.blocks, &values.values, &values.added,
                ]).await
            },
        );
        blocks?;
        entries?;
        values?;
        Ok(())
    }

    /// Moves the head and commits, in the same way.
    async fn commit(
        &self,
        statements: &WriteStatements,
        info: ChainInfo,
        oldest: BlockNumber,
    ) -> Result<(), Failed> {
        let Self { session, chain } = self;
        let finalized = info.finalized.map(|number| bigint(number.get()));
        let (oldest, head) = (bigint(oldest.get()), bigint(info.head.get()));
        let (forgotten, moved, committed) = tokio::join!(
            biased;
            session.execute(&statements.forget_blocks, [chain, &oldest]),
            session.execute(&statements.move_head, [chain, &head, &finalized]),
            session.command(COMMIT),
        );
        forgotten?;
        moved?;
        committed?;
        Ok(())
    }
}

/// What an ingestion ends with, all of it sent together.
struct WriteStatements {
    blocks: Statement,
    entries: Statement,
    copy_entries: Statement,
    values: Statement,
    copy_values: Statement,
    forget_blocks: Statement,
    move_head: Statement,
}

impl WriteStatements {
    async fn prepared(session: &Session) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            blocks: session.prepared(INSERT_BLOCKS).await?,
            entries: session.prepared(INSERT_ENTRIES).await?,
            copy_entries: session.prepared(COPY_ENTRIES).await?,
            values: session.prepared(INSERT_VALUES).await?,
            copy_values: session.prepared(COPY_VALUES).await?,
            forget_blocks: session.prepared(FORGET_BLOCKS).await?,
            move_head: session.prepared(MOVE_HEAD).await?,
        })
    }
}

fn orphan(row: &Row) -> Result<Block, Fault> {
    let BlockRef { number, hash: own } = block_ref(row, 0)?;
    Ok(Block { number, hash: own, parent: hash(row, 2)?, time: rows::count(row, 3)?, events: json(row, 4)? })
}

#[derive(Default)]
struct BlockColumns<'a> {
    hashes: Vec<&'a [u8]>,
    numbers: Vec<i64>,
    parents: Vec<&'a [u8]>,
    times: Vec<i64>,
}

impl<'a> BlockColumns<'a> {
    fn of(blocks: &'a [Block]) -> Self {
        let mut columns = Self::default();
        for block in blocks {
            columns.hashes.push(&block.hash.0);
            columns.numbers.push(bigint(block.number.get()));
            columns.parents.push(&block.parent.0);
            columns.times.push(bigint(block.time));
        }
        columns
    }
}

#[derive(Default)]
struct EntryColumns<'a> {
    seqs: Vec<i64>,
    kinds: Vec<&'static str>,
    blocks: Vec<i64>,
    logs: Vec<i64>,
    hashes: Vec<Option<&'a [u8]>>,
    times: Vec<Option<i64>>,
    topics: Vec<Option<&'a str>>,
    payloads: Vec<Option<&'a str>>,
    states: Vec<Option<String>>,
    firsts: Vec<Option<i64>>,
}

impl<'a> EntryColumns<'a> {
    fn of(entries: &'a [ChainEntry]) -> Self {
        let mut columns = Self::default();
        for ChainEntry { seq, kind } in entries {
            columns.seqs.push(bigint(seq.get()));
            columns.push(kind);
        }
        columns
    }

    fn push(&mut self, kind: &'a ChainEntryKind) {
        match kind {
            ChainEntryKind::Event { block, time, log, topic, payload, values } => {
                self.kinds.push("event");
                self.place(block.number, *log);
                self.hashes.push(Some(&block.hash.0));
                self.times.push(Some(bigint(*time)));
                self.topics.push(Some(topic.as_str()));
                self.payloads.push(Some(payload.as_str()));
                self.states.push((!values.is_empty()).then(|| text(values)));
                self.firsts.push(None);
            }
            ChainEntryKind::Revoke { to, first } => {
                self.kinds.push("revoke");
                self.place(to.block, to.log);
                self.hashes.push(None);
                self.times.push(None);
                self.topics.push(None);
                self.payloads.push(None);
                self.states.push(None);
                self.firsts.push(Some(bigint(first.get())));
            }
        }
    }

    /// The same by rows, in the order of [`ENTRY_TYPES`].
    fn rows<'s>(&'s self, chain: &'s String) -> impl Iterator<Item = Params<'s, 11>> {
        (0..self.seqs.len()).map(move |row| -> Params<'s, 11> {
            [
                chain,
                &self.seqs[row],
                &self.kinds[row],
                &self.blocks[row],
                &self.logs[row],
                &self.hashes[row],
                &self.times[row],
                &self.topics[row],
                &self.payloads[row],
                &self.states[row],
                &self.firsts[row],
            ]
        })
    }

    fn place(&mut self, block: BlockNumber, log: u32) {
        self.blocks.push(bigint(block.get()));
        self.logs.push(i64::from(log));
    }
}

#[derive(Default)]
struct ValueColumns<'a> {
    topics: Vec<&'a str>,
    keys: Vec<&'a str>,
    seqs: Vec<i64>,
    blocks: Vec<i64>,
    values: Vec<&'a str>,
    added: Vec<Option<String>>,
}

impl<'a> ValueColumns<'a> {
    fn of(written: &'a ChainWrite) -> Self {
        let mut columns = Self::default();
        for version in &written.versions {
            columns.topics.push(version.name.0.as_str());
            columns.keys.push(version.name.1.as_str());
            columns.seqs.push(bigint(version.seq.get()));
            columns.blocks.push(bigint(version.block.number.get()));
            columns.values.push(version.value.as_str());
            columns.added.push(match &version.effect {
                Effect::Add(amount) => Some(amount.to_string()),
                Effect::Set(_) => None,
            });
        }
        columns
    }

    /// The same by rows, in the order of [`VALUE_TYPES`].
    fn rows<'s>(&'s self, chain: &'s String) -> impl Iterator<Item = Params<'s, 7>> {
        (0..self.seqs.len()).map(move |row| -> Params<'s, 7> {
            [
                chain,
                &self.topics[row],
                &self.keys[row],
                &self.seqs[row],
                &self.blocks[row],
                &self.values[row],
                &self.added[row],
            ]
        })
    }
}

/// Something as it stands in a column.
fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it holds only texts, numbers and JSON that was checked")
}

/// Waits, but not for ever: a database that is frozen says nothing at all.
async fn patiently<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    timeout(patience, work).await.unwrap_or_else(|_| Err(Fault::Silent(patience).into()))
}
