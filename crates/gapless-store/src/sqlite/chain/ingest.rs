//! Takes blocks, in the caller's transaction.

use std::collections::BTreeMap;

use gapless_core::{
    BlockRefusal, BlockTree, ChainEntry, ChainEntryKind, ChainWrite, EventRefusal, Stretch, ValueName,
    Voided, plan,
};
use gapless_proto::{
    Block, BlockHash, BlockRef, Body, ChainEvent, ChainId, ChainPoint, Change, Effect, Epoch, Seq, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::columns::{Columns, integer};
use super::{info, is_clearing};
use crate::{ChainInfo, ChainNews, Ingested, Ingestion};

/// Why nothing is taken.
pub(in crate::sqlite) enum Refused {
    Block(BlockRefusal),
    Event(EventRefusal),
    /// What the feed that was given up has left isn't deleted yet.
    Clearing,
}

impl From<BlockRefusal> for Refused {
    fn from(refusal: BlockRefusal) -> Self {
        Self::Block(refusal)
    }
}

impl From<EventRefusal> for Refused {
    fn from(refusal: EventRefusal) -> Self {
        Self::Event(refusal)
    }
}

/// What was taken.
pub(in crate::sqlite) struct Taken {
    pub(in crate::sqlite) ingested: Ingested,
    pub(in crate::sqlite) news: ChainNews,
    /// The blocks that are kept now.
    pub(in crate::sqlite) tree: BlockTree,
}

/// A chain, and the connection that holds the transaction.
struct Feed<'transaction> {
    connection: &'transaction Connection,
    /// The chain's id as it is stored.
    chain: String,
}

/// Takes blocks. `tree` has those that are kept, if that is known already. When this refuses, the transaction must be rolled back.
pub(in crate::sqlite) fn ingest(
    connection: &Connection,
    chain: ChainId,
    ingestion: Ingestion,
    tree: Option<BlockTree>,
    now: Timestamp,
) -> rusqlite::Result<Result<Taken, Refused>> {
    let feed = Feed { connection, chain: chain.to_string() };
    let before = match info(connection, &feed.chain)? {
        Some(info) => info,
        None => feed.create(now)?,
    };
    if tree.is_none() && is_clearing(connection, &feed.chain)? {
        return Ok(Err(Refused::Clearing));
    }
    let tree = tree.map_or_else(|| feed.load_tree(), Ok)?;
    let (mut tree, stretches) = match plan(tree, ingestion.blocks, ingestion.head) {
        Ok(planned) => planned,
        Err(refusal) => return Ok(Err(refusal.into())),
    };
    if let Some(finalized) = ingestion.finalized {
        tree.finalize(finalized);
    }
    let taken = stretches.iter().map(|stretch| stretch.blocks.len()).sum();
    let (mut head, mut revoked, mut entries) = (before.head, 0, Vec::new());
    let mut stretches = stretches.into_iter().peekable();
    while let Some(stretch) = stretches.next() {
        let orphans = feed.adopt(&stretch.adopt)?;
        let stretch = stretch.with_adopted(orphans);
        let voided = match stretch.revoke_to {
            Some(ancestor) => {
                let voided = feed.look_up_void(ancestor)?;
                revoked += feed.revoke(ancestor, head.next(), voided)?;
                Some(voided)
            }
            None => None,
        };
        let values = feed.values(&stretch)?;
        let mut written = match stretch.write(head, voided, values) {
            Ok(written) => written,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        if let (None, Some(finalized)) = (stretches.peek(), tree.finalized()) {
            written.forget_past(finalized);
        }
        feed.write(&stretch, &written)?;
        head = written.entries.last().map_or(head, |entry| entry.seq);
        entries.extend(written.entries);
    }
    let Some(block) = tree.head() else {
        // Nothing was sent for a chain that nothing is known of.
        return Ok(Err(BlockRefusal::UnknownHead.into()));
    };
    let oldest = block.number.below(ingestion.window);
    tree.forget_below(oldest);
    feed.forget_below(oldest.get())?;
    feed.move_head(head, tree.finalized())?;
    let info = ChainInfo { head, block: Some(block), finalized: tree.finalized(), ..before };
    let news = ChainNews { chain, info, entries };
    Ok(Ok(Taken { ingested: Ingested { chain: info, taken, revoked }, news, tree }))
}

impl Feed<'_> {
    fn create(&self, now: Timestamp) -> rusqlite::Result<ChainInfo> {
        let epoch = Epoch::of_creation(now);
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO chain (chain, epoch, head, min_seq, created_at) VALUES (?1, ?2, 0, 1, ?3)",
        )?;
        statement.execute(params![self.chain, integer(epoch.get()), integer(now.get())])?;
        Ok(ChainInfo {
            epoch,
            head: Seq::ZERO,
            min_seq: Seq::FIRST,
            block: None,
            finalized: None,
            rewound: None,
            anew_after: None,
        })
    }

    fn load_tree(&self) -> rusqlite::Result<BlockTree> {
        let mut tree = BlockTree::default();
        let mut statement = self.connection.prepare_cached(
            "SELECT number, hash, parent, canonical FROM chain_block WHERE chain = ?1 ORDER BY number",
        )?;
        let mut rows = statement.query(params![self.chain])?;
        while let Some(row) = rows.next()? {
            let mut columns = Columns::of(row);
            let block = BlockRef { number: columns.block_number()?, hash: columns.hash()? };
            let parent = columns.hash()?;
            if columns.flag()? { tree.extend(block, parent) } else { tree.insert_orphan(block, parent) }
        }
        if let Some(finalized) = info(self.connection, &self.chain)?.and_then(|info| info.finalized) {
            tree.finalize(finalized);
        }
        Ok(tree)
    }

    /// Reads orphans that become canonical again.
    fn adopt(&self, hashes: &[BlockHash]) -> rusqlite::Result<Vec<Block>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT number, hash, parent, time, orphan FROM chain_block WHERE chain = ?1 AND hash = ?2",
        )?;
        let orphans = hashes.iter().map(|hash| {
            statement.query_row(params![self.chain, hash.0], |row| {
                let mut columns = Columns::of(row);
                Ok(Block {
                    number: columns.block_number()?,
                    hash: columns.hash()?,
                    parent: columns.hash()?,
                    time: columns.count()?,
                    events: columns.json()?,
                })
            })
        });
        orphans.collect()
    }

    /// Finds what a revoke of all above `ancestor` voids.
    fn look_up_void(&self, ancestor: BlockRef) -> rusqlite::Result<Voided> {
        let number = integer(ancestor.number.get());
        let mut first = self.connection.prepare_cached(
            "SELECT seq FROM chain_entry
              WHERE chain = ?1 AND kind = 'event' AND void_at IS NULL AND block > ?2
              ORDER BY block, log, seq LIMIT 1",
        )?;
        let first = first.query_row(params![self.chain, number], |row| Columns::of(row).seq()).optional()?;
        let mut log = self.connection.prepare_cached(
            "SELECT log FROM chain_entry
              WHERE chain = ?1 AND kind = 'event' AND void_at IS NULL AND block = ?2
              ORDER BY log DESC LIMIT 1",
        )?;
        let log = log.query_row(params![self.chain, number], |row| Columns::of(row).log()).optional()?;
        Ok(Voided { to: ChainPoint { block: ancestor.number, log: log.unwrap_or_default() }, first })
    }

    /// Makes orphans of the blocks above `ancestor`, with the events that they need to come back, and takes those back by the entry
    /// `revoke`. Returns how many blocks there were.
    fn revoke(&self, ancestor: BlockRef, revoke: Seq, voided: Voided) -> rusqlite::Result<usize> {
        let mut events = match voided.first {
            Some(first) => self.void_events(first)?,
            None => BTreeMap::new(),
        };
        let mut canonical = self
            .connection
            .prepare_cached("SELECT hash FROM chain_block WHERE chain = ?1 AND canonical AND number > ?2")?;
        let blocks = canonical
            .query_map(params![self.chain, integer(ancestor.number.get())], |row| Columns::of(row).hash())?
            .collect::<Result<Vec<_>, _>>()?;
        let mut orphan = self.connection.prepare_cached(
            "UPDATE chain_block SET canonical = 0, orphan = ?3 WHERE chain = ?1 AND hash = ?2",
        )?;
        for hash in &blocks {
            let events = events.remove(hash).unwrap_or_default();
            orphan.execute(params![self.chain, hash.0, json(&events)])?;
        }
        if let Some(first) = voided.first {
            let mut void = self.connection.prepare_cached(
                "UPDATE chain_entry SET void_at = ?3
                  WHERE chain = ?1 AND seq >= ?2 AND kind = 'event' AND void_at IS NULL",
            )?;
            void.execute(params![self.chain, integer(first.get()), integer(revoke.get())])?;
            let mut values =
                self.connection.prepare_cached("DELETE FROM chain_value WHERE chain = ?1 AND seq >= ?2")?;
            values.execute(params![self.chain, integer(first.get())])?;
        }
        Ok(blocks.len())
    }

    /// The events from `first` on that still hold, by their blocks, with what they did to values.
    fn void_events(&self, first: Seq) -> rusqlite::Result<BTreeMap<BlockHash, Vec<ChainEvent>>> {
        let mut changes = self.changes(first)?;
        let mut statement = self.connection.prepare_cached(
            "SELECT seq, hash, log, topic, payload FROM chain_entry
              WHERE chain = ?1 AND seq >= ?2 AND kind = 'event' AND void_at IS NULL ORDER BY seq",
        )?;
        let mut rows = statement.query(params![self.chain, integer(first.get())])?;
        let mut events: BTreeMap<BlockHash, Vec<ChainEvent>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let mut columns = Columns::of(row);
            let (seq, hash) = (columns.seq()?, columns.hash()?);
            events.entry(hash).or_default().push(ChainEvent {
                log: columns.log()?,
                topic: columns.topic()?,
                payload: columns.body()?,
                changes: changes.remove(&seq).unwrap_or_default(),
            });
        }
        Ok(events)
    }

    fn changes(&self, first: Seq) -> rusqlite::Result<BTreeMap<Seq, Vec<Change>>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT seq, key, added, value FROM chain_value WHERE chain = ?1 AND seq >= ?2 ORDER BY seq",
        )?;
        let mut rows = statement.query(params![self.chain, integer(first.get())])?;
        let mut changes: BTreeMap<Seq, Vec<Change>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let mut columns = Columns::of(row);
            let (seq, key) = (columns.seq()?, columns.value_key()?);
            let effect = match columns.amount_or_null()? {
                Some(amount) => Effect::Add(amount),
                None => Effect::Set(columns.body()?),
            };
            changes.entry(seq).or_default().push(Change { key, effect });
        }
        Ok(changes)
    }

    /// The values that a stretch depends on. What a revoke voids is gone already.
    fn values(&self, stretch: &Stretch) -> rusqlite::Result<BTreeMap<ValueName, Body>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT value FROM chain_value WHERE chain = ?1 AND topic = ?2 AND key = ?3 ORDER BY seq DESC LIMIT 1",
        )?;
        let mut values = BTreeMap::new();
        for (topic, key) in stretch.values() {
            let value = statement
                .query_row(params![self.chain, topic.as_str(), key.as_str()], |row| Columns::of(row).body());
            if let Some(value) = value.optional()? {
                values.insert((topic, key), value);
            }
        }
        Ok(values)
    }

    fn write(&self, stretch: &Stretch, written: &ChainWrite) -> rusqlite::Result<()> {
        let mut keep = self.connection.prepare_cached(
            "INSERT INTO chain_block (chain, hash, number, parent, time, canonical) VALUES (?1, ?2, ?3, ?4, ?5, 1)
             ON CONFLICT (chain, hash) DO UPDATE SET canonical = 1, orphan = NULL",
        )?;
        for Block { number, hash, parent, time, .. } in &stretch.blocks {
            keep.execute(params![self.chain, hash.0, integer(number.get()), parent.0, integer(*time)])?;
        }
        for entry in &written.entries {
            self.write_entry(entry)?;
        }
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO chain_value (chain, topic, key, seq, block, value, added) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for version in &written.versions {
            let (topic, key) = &version.name;
            let added = match &version.effect {
                Effect::Add(amount) => Some(amount.to_string()),
                Effect::Set(_) => None,
            };
            insert.execute(params![
                self.chain,
                topic.as_str(),
                key.as_str(),
                integer(version.seq.get()),
                integer(version.block.number.get()),
                version.value.as_str(),
                added,
            ])?;
        }
        Ok(())
    }

    fn write_entry(&self, ChainEntry { seq, kind }: &ChainEntry) -> rusqlite::Result<()> {
        match kind {
            ChainEntryKind::Event { block, time, log, topic, payload, values } => {
                let mut statement = self.connection.prepare_cached(
                    "INSERT INTO chain_entry (chain, seq, kind, block, log, hash, time, topic, payload, state)
                     VALUES (?1, ?2, 'event', ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?;
                statement.execute(params![
                    self.chain,
                    integer(seq.get()),
                    integer(block.number.get()),
                    log,
                    block.hash.0,
                    integer(*time),
                    topic.as_str(),
                    payload.as_str(),
                    (!values.is_empty()).then(|| json(values)),
                ])?;
            }
            ChainEntryKind::Revoke { to, first } => {
                let mut statement = self.connection.prepare_cached(
                    "INSERT INTO chain_entry (chain, seq, kind, block, log, first)
                     VALUES (?1, ?2, 'revoke', ?3, ?4, ?5)",
                )?;
                let (block, log) = (integer(to.block.get()), to.log);
                statement.execute(params![
                    self.chain,
                    integer(seq.get()),
                    block,
                    log,
                    integer(first.get())
                ])?;
            }
        }
        Ok(())
    }

    fn forget_below(&self, number: u64) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare_cached("DELETE FROM chain_block WHERE chain = ?1 AND number < ?2")?;
        statement.execute(params![self.chain, integer(number)])?;
        Ok(())
    }

    fn move_head(&self, head: Seq, finalized: Option<gapless_proto::BlockNumber>) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare_cached("UPDATE chain SET head = ?2, finalized = ?3 WHERE chain = ?1")?;
        let finalized = finalized.map(|number| integer(number.get()));
        statement.execute(params![self.chain, integer(head.get()), finalized])?;
        Ok(())
    }
}

/// Something as it stands in a column.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it holds only texts, numbers and JSON that was checked")
}
