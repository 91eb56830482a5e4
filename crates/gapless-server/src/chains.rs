//! The feeds of chains, as this gateway follows them.
//!
//! There is no queue a subscriber. Each chain has one tail in memory that all share, and each subscription ([`Follow`]) looks at it when its
//! connection takes something; where the tail doesn't reach, it reads the store, together with all who read the same ([`SharedReads`]).

mod begin;
mod follow;
mod followed;
mod page;
mod reads;
mod retention;
mod shared_reads;
mod told;
mod topic_name;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_core::ChainTail;
use gapless_proto::ChainId;
use gapless_store::{ChainInfo, ChainNews, Store, StoreError};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use self::reads::ChainReads;
use self::shared_reads::SharedReads;
use crate::meters::ReadMeters;
use crate::store_trouble;

pub(crate) use self::begin::Begin;
pub(crate) use self::follow::Follow;
pub(crate) use self::followed::FollowedChain;
pub(crate) use self::page::ChainPage;
pub(crate) use self::retention::trim_chains;
pub(crate) use self::topic_name::{TopicName, TopicNameError};

/// How many entries of a chain are remembered, and how many bytes of what is told of them. Enough that a reader who isn't overrun needs
/// no store.
const TAIL_ENTRIES_MAX: usize = 8_192;
const TAIL_BYTES_MAX: usize = 16 << 20;

/// How many reads of chains run at once; the others wait for their turn, in the order in which they came. So a crowd that comes back
/// leaves room for everybody else who reads.
const READS_MAX: usize = 4;

/// The chains that somebody has subscribed to here.
pub(crate) struct Chains {
    confirmations: u64,
    store: Arc<dyn Store>,
    turns: Arc<Semaphore>,
    infos: Arc<SharedReads<ChainId, ChainInfo>>,
    followed: Mutex<HashMap<ChainId, Arc<FollowedChain>>>,
}

impl Chains {
    pub(crate) fn new(confirmations: u64, store: Arc<dyn Store>) -> Self {
        let turns = Arc::new(Semaphore::new(READS_MAX));
        let infos = SharedReads::new(Arc::clone(&turns), ReadMeters::new("info"));
        Self { confirmations, store, turns, infos, followed: Mutex::default() }
    }

    /// The source of truth.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The chain, if it is followed already.
    pub(crate) fn known(&self, chain: ChainId) -> Option<Arc<FollowedChain>> {
        self.followed().get(&chain).map(Arc::clone)
    }

    /// The chain, as it is followed from now on, and where its feed is now. `None` when it has no feed.
    pub(crate) async fn follow(
        &self,
        chain: ChainId,
    ) -> Result<Option<(Arc<FollowedChain>, ChainInfo)>, Arc<StoreError>> {
        let store = Arc::clone(&self.store);
        let read = async move { store.chain(chain).await };
        // What was read before now is no answer.
        let Some(info) = self.infos.ask(chain, |_| false, read).await? else {
            return Ok(None);
        };
        let info = *info;
        let mut followed = self.followed();
        let followed = followed.entry(chain).or_insert_with(|| {
            let reads = ChainReads::new(chain, self.confirmations, Arc::clone(&self.store), &self.turns);
            let head = followed::head_of(&info, self.confirmations);
            let tail = ChainTail::new(head, TAIL_ENTRIES_MAX, TAIL_BYTES_MAX);
            Arc::new(FollowedChain::new(chain, self.confirmations, reads, info, tail))
        });
        followed.handle_info(info);
        Ok(Some((Arc::clone(followed), info)))
    }

    /// Takes in what a commit did.
    pub(crate) fn handle_news(&self, news: ChainNews) {
        if let Some(followed) = self.known(news.chain) {
            followed.handle_news(news);
        }
    }

    /// Compares again and again where the chains' feeds are with what is known here: so lost news is found, and what other gateways
    /// took in.
    pub(crate) async fn keep_up(self: Arc<Self>, pause: Duration) {
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let chains: Vec<_> = self.followed().values().map(Arc::clone).collect();
            for followed in chains {
                followed.reads().handle_time();
                match self.store.chain(followed.chain()).await {
                    Ok(Some(info)) => followed.handle_info(info),
                    Ok(None) => {}
                    Err(error) => store_trouble::tell(&error, "read where a chain is"),
                }
            }
        }
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<ChainId, Arc<FollowedChain>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
