//! What happens in the store, and how gateways hear of it.

use std::time::Duration;

use gapless_proto::ChainId;
use gapless_store::{ChainNews, Ingestion};

use super::{Chain, ChainWorld, Event, RETENTION_EVERY};
use crate::chains::coverage::ChainLandmark;
use crate::chains::feed_model::{FeedModel, Taken};
use crate::chains::follower_model::Reply;
use crate::chains::gateway_model::{StoreAsk, StoreFound};
use crate::chains::record::Record;
use crate::dice::Spread;
use crate::names::{GatewayNo, Life};
use crate::store_model::Down;

impl ChainWorld {
    /// A transaction ends, or fails.
    pub(super) fn ingests(&mut self, chain: ChainId, life: Life, ingestion: Ingestion) {
        let fails = self.store_is_down || self.dice.store.chance(self.weather.commit_fails);
        // What fails may have reached the disk.
        if fails && (self.store_is_down || self.dice.store.coin()) {
            self.coverage.note(ChainLandmark::IngestionFailed);
            self.note(|| format!("chain {chain}: an ingestion fails"));
            return self.answer_ingestion(chain, life, Err(Down));
        }
        let (now, timestamp) = (self.now(), self.clock.timestamp());
        let Some(Chain { miner, feed, record, heads, .. }) = self.chains.get_mut(&chain) else { return };
        let first = ingestion.blocks.first().map(|block| block.hash);
        let is_new = feed.is_none();
        let taking = feed.get_or_insert_with(|| FeedModel::new(chain, timestamp));
        let taken = taking.ingest(ingestion, self.options.fault);
        let taken = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                if is_new {
                    *feed = None;
                }
                self.note(|| format!("chain {chain}: an ingestion is refused: {refusal}"));
                return self.answer_ingestion(chain, life, Ok(Err(refusal)));
            }
        };
        let Taken { news, revoked, adopted } = taken;
        let record = record.get_or_insert_with(|| Record::new(self.gateway_config.confirmations, news.info));
        let checked = record.committed(taking, &news.entries, first, revoked, &miner.reality);
        heads.push((now, news.info.head));
        self.coverage.add(ChainLandmark::Adopted, u64::from(adopted > 0));
        if revoked > 0 {
            let has_revoke = news
                .entries
                .iter()
                .any(|entry| matches!(entry.kind, gapless_core::ChainEntryKind::Revoke { .. }));
            self.coverage.note(if has_revoke {
                ChainLandmark::Revoked
            } else {
                ChainLandmark::RevokedNothing
            });
        }
        self.note(|| {
            let (info, entries) = (news.info, news.entries.len());
            format!(
                "chain {chain}: {entries} entries up to {} are committed at {:?}; {revoked} blocks revoked, {adopted} adopted",
                info.head, info.block
            )
        });
        self.uphold(checked);
        self.publish(&news);
        if fails {
            self.coverage.note(ChainLandmark::IngestionUnheard);
        }
        self.answer_ingestion(chain, life, if fails { Err(Down) } else { Ok(Ok(())) });
    }

    fn answer_ingestion(
        &mut self,
        chain: ChainId,
        life: Life,
        outcome: Result<Result<(), gapless_core::BlockRefusal>, Down>,
    ) {
        let delay = self.dice.store.duration(self.weather.latency);
        let reply = Reply::Ingested(outcome);
        self.plan_in(delay, Event::FollowerAnswered { chain, life, reply });
    }

    /// News goes to each gateway that lives; it may get lost, come late, twice, and in any order.
    fn publish(&mut self, news: &ChainNews) {
        let gateways: Vec<(GatewayNo, Life)> = self
            .gateways
            .iter()
            .filter_map(|(gateway, place)| Some((*gateway, place.process.as_ref()?.0)))
            .collect();
        for (gateway, life) in gateways {
            let faults = self.weather.news;
            if self.dice.store.chance(faults.lost) {
                self.coverage.note(ChainLandmark::NewsLost);
                continue;
            }
            let delay = self.dice.store.duration(faults.delay);
            if delay > Duration::from_millis(100) {
                self.coverage.note(ChainLandmark::NewsLate);
            }
            self.plan_in(delay, Event::News { gateway, life, news: news.clone() });
            if self.dice.store.chance(faults.doubled) {
                self.coverage.note(ChainLandmark::NewsDoubled);
                let delay = self.dice.store.duration(faults.delay);
                self.plan_in(delay, Event::News { gateway, life, news: news.clone() });
            }
        }
    }

    /// What the store has at this moment.
    pub(super) fn find(&mut self, chain: ChainId, ask: &StoreAsk) -> Result<StoreFound, Down> {
        if self.store_is_down || self.dice.store.chance(self.weather.read_fails) {
            return Err(Down);
        }
        let feed = self.chains.get(&chain).and_then(|chain| chain.feed.as_ref());
        Ok(match ask {
            StoreAsk::Info => StoreFound::Info(feed.map(FeedModel::info)),
            StoreAsk::SeqAt(point) => StoreFound::SeqAt(feed.and_then(|feed| feed.seq_at(*point))),
            StoreAsk::Values(request) => StoreFound::Values(feed.map(|feed| feed.values(request))),
            StoreAsk::Log(request) => StoreFound::Log(feed.map(|feed| feed.log(request))),
        })
    }

    pub(super) fn lose_store(&mut self) {
        if self.store_is_down {
            return;
        }
        self.store_is_down = true;
        self.coverage.note(ChainLandmark::StoreOutage);
        let back_after = self.dice.mischief.duration(Spread::millis(100, 10_000));
        self.note(|| format!("the store is away for {back_after:?}"));
        self.plan_in(back_after, Event::StoreIsBack);
    }

    /// Deletes what is older than it must be kept, but nothing that a reorg may still take back.
    pub(super) fn retain(&mut self) {
        self.plan_in(RETENTION_EVERY, Event::Retention);
        let Some(retention) = self.retention else { return };
        let now = self.now();
        for chain in self.chains.values_mut() {
            let Chain { feed: Some(feed), record: Some(record), heads, .. } = chain else {
                continue;
            };
            let old = heads.iter().take_while(|(at, _)| *at + retention <= now).map(|(_, head)| *head).last();
            let Some(old) = old else { continue };
            let before = feed.info().min_seq;
            feed.trim(old.next(), self.options.fault);
            record.trimmed(feed.info());
            if feed.info().min_seq > before {
                self.coverage.note(ChainLandmark::Trim);
            }
        }
    }

    pub(super) fn back_up(&mut self) {
        for chain in self.chains.values_mut() {
            let feed = chain.feed.clone().zip(chain.record.as_ref().map(Record::before_first));
            chain.backup = feed.or(chain.backup.take());
        }
    }

    /// Puts the store back to its last backup, and raises all epochs.
    pub(super) fn restore(&mut self) {
        let (now, timestamp) = (self.now(), self.clock.timestamp());
        let mut news = Vec::new();
        for Chain { feed, record, backup, heads, .. } in self.chains.values_mut() {
            let (Some((kept, before_first)), Some(record)) = (&*backup, record) else { continue };
            self.coverage.note(ChainLandmark::Restore);
            let mut restored = kept.clone();
            let head = restored.info().head;
            news.push(restored.raise_epoch(timestamp));
            if record.restored(head, restored.info()) > 0 {
                self.coverage.note(ChainLandmark::EntriesLostInRestore);
            }
            record.set_before_first(*before_first);
            heads.retain(|(_, seq)| *seq <= head);
            heads.push((now, restored.info().head));
            *feed = Some(restored);
        }
        for news in news {
            self.note(|| format!("chain {} is restored: {:?}", news.chain, news.info));
            self.publish(&news);
        }
    }

    /// An operator begins a feed anew.
    pub(super) fn restarts(&mut self, chain: ChainId) {
        let timestamp = self.clock.timestamp();
        let Some(Chain { feed: Some(feed), record: Some(record), backup, is_restarting, heads, .. }) =
            self.chains.get_mut(&chain)
        else {
            return;
        };
        *is_restarting = false;
        let news = feed.restart(self.options.fault, timestamp);
        record.restarted(news.info);
        heads.clear();
        // What was backed up before is of a chain that is no more.
        *backup = None;
        self.coverage.note(ChainLandmark::Restart);
        self.note(|| format!("chain {chain}: the feed begins anew: {:?}", news.info));
        self.publish(&news);
    }
}
