//! `gapless follow`: a chain from its nodes into the store; `serve` does the same beside its clients.

mod journal;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use gapless_chain::{Follower, NodeUrl, Report};
use gapless_proto::ChainId;
use gapless_server::ChainTips;
use gapless_store::Store;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::chain_file::FollowedChain;
use crate::config_flags::{ConfigFlags, StoreFlag};
use crate::logging;
use crate::signals::Signals;

use journal::Journal;

/// Follow chains: read their nodes, and hand their blocks to the store that servers tell them from.
///
/// A store of SQLite belongs to one process; give its server the files as `chains.follow` instead.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files that declare a chain each, in TOML.
    ///
    /// `chain`: its id. `nodes`: their addresses, ws:// or http://, the preferred one first. `start`: the first block; without it,
    /// following begins at the head. `genesis`: the hash of block 0, which every node must have; without it, the first node that
    /// answers says it. `poll`: how often a node is asked for its head that hasn't announced one, `4s` by default.
    ///
    /// `[[topics]]`, once for each: its `name`, the contracts' `addresses`, and either `event`, as in
    /// `Transfer(address indexed from, address indexed to, uint256 value)`, or `builtin = "erc20_balance"`. With `event`, a snapshot
    /// of the newest values can be had: `key` and `value` name the arguments that they are kept by and that they are.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Ask this node instead of those that the file names; the first `--rpc` is preferred, the others stand by
    #[arg(long, value_name = "URL")]
    rpc: Vec<NodeUrl>,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    config: ConfigFlags,
}

/// How many reports may wait to be written down.
const REPORTS_MAX: usize = 256;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(async {
        let raw = arguments.config.gather(arguments.store.flags())?;
        let (store_url, chains_config, log) = raw.check_following()?;
        logging::start(log);
        let chains = arguments.chains()?;
        let mut signals = Signals::catch().context("watching for SIGTERM")?;
        let (store, _news) =
            gapless_store::open(&store_url).await.with_context(|| format!("opening {store_url}"))?;
        let stop = CancellationToken::new();
        let mut followers =
            start(chains, &store, chains_config.reorg_blocks_max, &ChainTips::default(), &stop)?;
        signals.next().await;
        stop.cancel();
        while followers.join_next().await.is_some() {}
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

impl Arguments {
    fn chains(&self) -> anyhow::Result<Vec<FollowedChain>> {
        match &self.files[..] {
            [file] => Ok(vec![FollowedChain::read(file, &self.rpc)?]),
            files if self.rpc.is_empty() => read(files),
            _ => bail!(
                "`--rpc` names the nodes of one chain; give one file with it, or put `nodes` into each file"
            ),
        }
    }
}

/// Reads files that declare a chain each, or says all that is wrong with them.
pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Vec<FollowedChain>> {
    let (mut chains, mut faults) = (Vec::new(), Vec::new());
    let mut declared: BTreeMap<ChainId, &PathBuf> = BTreeMap::new();
    for path in files {
        match FollowedChain::read(path, &[]) {
            Ok(chain) => {
                match declared.insert(chain.config.chain, path) {
                    None => {}
                    Some(same) if same == path => {
                        faults.push(format!("{} is named twice; name it once", path.display()));
                    }
                    Some(other) => faults.push(format!(
                        "{} and {} both declare chain {}; put all its topics into one of them",
                        other.display(),
                        path.display(),
                        chain.config.chain
                    )),
                }
                chains.push(chain);
            }
            Err(error) => faults.push(format!("{error:#}")),
        }
    }
    match faults.is_empty() {
        true => Ok(chains),
        false => bail!(faults.join("\n")),
    }
}

/// Follows chains, each in a task, until `stop` says otherwise; tells `tips` how far they are.
pub(crate) fn start(
    chains: Vec<FollowedChain>,
    store: &Arc<dyn Store>,
    window: u64,
    tips: &ChainTips,
    stop: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    for FollowedChain { mut config, topics } in chains {
        config.window = window;
        let chain = config.chain;
        let (reports, told) = mpsc::channel(REPORTS_MAX);
        let follower = Follower::new(config, topics, Arc::clone(store), reports)?;
        tasks.spawn(follower.run(stop.clone().cancelled_owned()));
        tasks.spawn(write_down(Journal::new(chain, tips.clone()), told));
    }
    Ok(tasks)
}

async fn write_down(mut journal: Journal, mut reports: mpsc::Receiver<Report>) {
    while let Some(report) = reports.recv().await {
        journal.write_down(report);
    }
}
