//! How much of the chains' logs is kept.

use std::sync::Arc;
use std::time::Duration;

use gapless_proto::{ChainId, ChainPoint};
use gapless_store::{Store, StoreError};
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::followed::head_of;
use crate::config::ChainsConfig;
use crate::store_trouble;

/// How many chains are asked for at a time.
const CHAINS_AT_ONCE: u32 = 100;

/// Trims the logs of all chains again and again to what is kept for those who come back. Other gateways may do the same.
pub(crate) async fn trim_chains(store: Arc<dyn Store>, config: ChainsConfig) {
    let mut ticks = interval(config.trim_interval.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = trim_all(&*store, &config).await {
            store_trouble::tell(&error, "trim the logs of chains");
        }
    }
}

async fn trim_all(store: &dyn Store, config: &ChainsConfig) -> Result<(), StoreError> {
    let mut last = None;
    loop {
        let chains = store.chains(last, CHAINS_AT_ONCE).await?;
        let Some(newest) = chains.last() else {
            return Ok(());
        };
        last = Some(*newest);
        for chain in chains {
            trim(store, chain, config).await?;
        }
    }
}

/// Trims one log. What isn't confirmed yet stays, since some wait for it.
async fn trim(store: &dyn Store, chain: ChainId, config: &ChainsConfig) -> Result<(), StoreError> {
    let Some(info) = store.chain(chain).await? else {
        return Ok(());
    };
    let oldest = info.oldest_of(config.replay_entries);
    if oldest <= info.min_seq {
        return Ok(());
    }
    let Some(safe) = head_of(&info, config.confirmations).safe else {
        return Ok(());
    };
    let Some(confirmed) = store.chain_seq_at(chain, ChainPoint { block: safe, log: u32::MAX }).await? else {
        return Ok(());
    };
    let below = oldest.min(confirmed.next());
    if below > info.min_seq {
        let min_seq = store.trim_chain(chain, below).await?.unwrap_or(info.min_seq);
        debug!(%chain, %min_seq, "trimmed");
    }
    Ok(())
}
