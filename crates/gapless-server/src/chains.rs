//! The feeds of chains, as this gateway follows them.
//!
//! There is no queue a subscriber. Each chain has one tail in memory that all share, and each subscription ([`Follow`]) looks at it when its
//! connection takes something; where the tail doesn't reach, it reads the store.

mod begin;
mod follow;
mod followed;
mod told;
mod topic_name;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_core::ChainTail;
use gapless_proto::ChainId;
use gapless_store::{ChainInfo, ChainNews, Store, StoreError};
use tokio::time::{MissedTickBehavior, interval};

use crate::store_trouble;

pub(crate) use self::begin::{Begin, Begun};
pub(crate) use self::follow::Follow;
pub(crate) use self::followed::FollowedChain;
pub(crate) use self::told::{ReaderPosition, Told};
pub(crate) use self::topic_name::{TopicName, TopicNameError};

/// How many entries of a chain are remembered, and how many bytes of what is told of them. Enough that a reader who isn't overrun needs
/// no store.
const TAIL_ENTRIES_MAX: usize = 8_192;
const TAIL_BYTES_MAX: usize = 16 << 20;

/// The chains that somebody has subscribed to here.
pub(crate) struct Chains {
    confirmations: u64,
    followed: Mutex<HashMap<ChainId, Arc<FollowedChain>>>,
}

impl Chains {
    pub(crate) fn new(confirmations: u64) -> Self {
        Self { confirmations, followed: Mutex::default() }
    }

    /// The chain, as it is followed from now on. `None` when it has no feed.
    pub(crate) async fn follow(
        &self,
        store: &dyn Store,
        chain: ChainId,
    ) -> Result<Option<(Arc<FollowedChain>, ChainInfo)>, StoreError> {
        let Some(info) = store.chain(chain).await? else {
            return Ok(None);
        };
        let mut followed = self.followed();
        let followed = followed.entry(chain).or_insert_with(|| {
            let head = followed::head_of(&info, self.confirmations);
            let tail = ChainTail::new(head, TAIL_ENTRIES_MAX, TAIL_BYTES_MAX);
            Arc::new(FollowedChain::new(chain, self.confirmations, tail))
        });
        followed.handle_info(info);
        Ok(Some((Arc::clone(followed), info)))
    }

    /// Takes in what a commit did.
    pub(crate) fn handle_news(&self, news: ChainNews) {
        let followed = self.followed().get(&news.chain).map(Arc::clone);
        if let Some(followed) = followed {
            followed.handle_news(news);
        }
    }

    /// Compares again and again where the chains' feeds are with what is known here: so lost news is found, and what other gateways
    /// took in.
    pub(crate) async fn keep_up(self: Arc<Self>, store: Arc<dyn Store>, pause: Duration) {
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let chains: Vec<_> = self.followed().values().map(Arc::clone).collect();
            for followed in chains {
                match store.chain(followed.chain()).await {
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
