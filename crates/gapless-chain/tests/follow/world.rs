//! A store, a follower that fills it, and a client that folds what the store tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{FollowConfig, Follower, NodeState, NodeUrl, Report, Sink, TopicConfig, Topics, Trouble};
use gapless_core::ChainEntryKind;
use gapless_proto::{BlockHash, BlockNumber, BlockRef, ChainId, Seq, Topic};
use gapless_store::{ChainInfo, ChainLogRequest, ChainValuesRequest, NewsReceiver, Store, StoreUrl};
use gapless_testkit::SharedPostgres;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time;

/// The token that all tests follow.
pub(crate) const TOKEN: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// One store, and at most one follower of a chain.
pub(crate) struct World {
    store: Arc<dyn Store>,
    /// Lives as long as the store.
    kept: Arc<(NewsReceiver, TempDir)>,
    pub(crate) config: FollowConfig,
    running: Option<Running>,
    reports: Vec<Report>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    reports: mpsc::Receiver<Report>,
}

/// An event, as far as it says which log it is of.
pub(crate) type Happening = (BlockHash, u32);

impl World {
    /// Follows nothing yet; `config` may be changed until [`World::start`].
    pub(crate) async fn new(chain: u64, nodes: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("chains.db").display());
        Self::open(&url, folder, chain, nodes).await
    }

    /// One on PostgreSQL.
    pub(crate) async fn on_postgres(chain: u64, nodes: &[&str]) -> Self {
        let url = SharedPostgres::from_environment().fresh_database();
        Self::open(&url, tempfile::tempdir().unwrap(), chain, nodes).await
    }

    async fn open(url: &str, folder: TempDir, chain: u64, nodes: &[&str]) -> Self {
        let url: StoreUrl = url.parse().unwrap();
        let (store, news) = gapless_store::open(&url).await.unwrap();
        Self::on(store, Arc::new((news, folder)), chain, nodes)
    }

    /// One that keeps another chain in the same store.
    pub(crate) fn neighbour(&self, chain: u64, nodes: &[&str]) -> Self {
        Self::on(self.store.clone(), self.kept.clone(), chain, nodes)
    }

    fn on(store: Arc<dyn Store>, kept: Arc<(NewsReceiver, TempDir)>, chain: u64, nodes: &[&str]) -> Self {
        let nodes: Vec<NodeUrl> = nodes.iter().map(|url| url.parse().unwrap()).collect();
        let config = FollowConfig {
            poll: Duration::from_millis(10),
            request_timeout: Duration::from_secs(20),
            ..FollowConfig::new(ChainId::new(chain), nodes)
        };
        Self { store, kept, config, running: None, reports: vec![] }
    }

    pub(crate) fn start(&mut self) {
        assert!(self.running.is_none(), "one follower a world");
        let (follower, reports) = self.follower(self.store.clone());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(follower.run(async { drop(stopped.await) }));
        self.running = Some(Running { stop, task, reports });
    }

    /// A follower that nobody drives yet, and what it will tell.
    pub(crate) fn follower<S: Sink>(&self, sink: S) -> (Follower<S>, mpsc::Receiver<Report>) {
        let (sender, reports) = mpsc::channel(100_000);
        (Follower::new(self.config.clone(), topics(), sink, sender).unwrap(), reports)
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Ends the follower, wherever it is.
    pub(crate) async fn stop(&mut self) {
        self.hear();
        if let Some(Running { stop, task, .. }) = self.running.take() {
            drop(stop);
            task.await.unwrap();
        }
    }

    /// Waits until the follower has told something.
    pub(crate) async fn report(&mut self, what: &str, is_it: impl Fn(&Report) -> bool) -> Report {
        self.reported(what, 1, is_it).await
    }

    /// Waits until it has told something so many times, and returns the last of them.
    pub(crate) async fn reported(
        &mut self,
        what: &str,
        times: usize,
        is_it: impl Fn(&Report) -> bool,
    ) -> Report {
        let mut ticks = time::interval(Duration::from_millis(2));
        let waiting = async {
            loop {
                self.hear();
                if let Some(report) = self.reports.iter().filter(|report| is_it(report)).nth(times - 1) {
                    return report.clone();
                }
                ticks.tick().await;
            }
        };
        match time::timeout(PATIENCE, waiting).await {
            Ok(report) => report,
            Err(_) => panic!("never told: {what}; but {:?}", self.last_reports()),
        }
    }

    /// Waits until the newest block of the store is this one.
    pub(crate) async fn arrival(&mut self, hash: BlockHash) {
        let mut ticks = time::interval(Duration::from_millis(2));
        let arriving = async {
            while self.head().await.map(|head| head.hash) != Some(hash) {
                ticks.tick().await;
            }
        };
        if time::timeout(PATIENCE, arriving).await.is_err() {
            self.hear();
            panic!("{hash} never came; {:?}", self.last_reports());
        }
    }

    /// Waits until the store knows that the chain is final up to a height.
    pub(crate) async fn finality(&mut self, height: u64) {
        let mut ticks = time::interval(Duration::from_millis(2));
        let settling = async {
            while self.info().await.and_then(|info| info.finalized).map(BlockNumber::get) != Some(height) {
                ticks.tick().await;
            }
        };
        if time::timeout(PATIENCE, settling).await.is_err() {
            self.hear();
            panic!("{height} never was final; {:?}", self.last_reports());
        }
    }

    pub(crate) async fn info(&self) -> Option<ChainInfo> {
        self.store.chain(self.config.chain).await.unwrap()
    }

    pub(crate) async fn head(&self) -> Option<BlockRef> {
        self.info().await?.block
    }

    pub(crate) async fn restart_chain(&self) {
        self.store.restart_chain(self.config.chain).await.unwrap();
    }

    /// The balances, without those that are 0.
    pub(crate) async fn balances(&self) -> BTreeMap<String, i128> {
        let request = ChainValuesRequest {
            chain: self.config.chain,
            topics: vec![topic()],
            up_to: None,
            after: None,
            limit: 10_000,
        };
        let values = self.store.chain_values(request).await.unwrap().unwrap().values;
        let balance = |text: &str| text.trim_matches('"').parse::<i128>().unwrap();
        let all = values.iter().map(|(_, key, value)| (key.as_str().to_owned(), balance(value.as_str())));
        all.filter(|(_, balance)| *balance != 0).collect()
    }

    /// How often the follower took blocks back, up to the newest block of the store.
    pub(crate) async fn reorgs(&mut self) -> usize {
        let newest = self.head().await;
        let mut ticks = time::interval(Duration::from_millis(2));
        // The store may be ahead of what the follower has told.
        while self.newest_told() != newest {
            ticks.tick().await;
        }
        self.reports.iter().filter(|report| matches!(report, Report::Reorg { .. })).count()
    }

    fn newest_told(&mut self) -> Option<BlockRef> {
        self.hear();
        self.reports.iter().rev().find_map(|report| match report {
            Report::Ingested { head, .. } => *head,
            _ => None,
        })
    }

    /// All that the follower told so far.
    pub(crate) fn reports(&mut self) -> &[Report] {
        self.hear();
        &self.reports
    }

    /// Why nodes failed so far.
    pub(crate) fn failures(&mut self) -> Vec<Trouble> {
        self.hear();
        self.reports.iter().filter_map(trouble).collect()
    }

    fn hear(&mut self) {
        if let Some(running) = &mut self.running {
            while let Ok(report) = running.reports.try_recv() {
                self.reports.push(report);
            }
        }
    }

    fn last_reports(&self) -> &[Report] {
        &self.reports[self.reports.len().saturating_sub(12)..]
    }
}

/// Who holds what the store told, across revokes, as a client does.
#[derive(Debug)]
pub(crate) struct Client {
    passed: Seq,
    held: Vec<(Seq, Happening)>,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self { passed: Seq::FIRST.prev(), held: vec![] }
    }

    /// Takes in all that was told since last time.
    pub(crate) async fn catch_up(&mut self, world: &World) {
        loop {
            let request = ChainLogRequest {
                chain: world.config.chain,
                topics: vec![topic()],
                after: self.passed,
                up_to: None,
                limit: 100,
            };
            let Some(slice) = world.store.chain_log(request).await.unwrap() else { return };
            for entry in slice.entries {
                match entry.kind {
                    ChainEntryKind::Event { block, log, .. } => {
                        self.held.push((entry.seq, (block.hash, log)));
                    }
                    ChainEntryKind::Revoke { first, .. } => self.held.retain(|(seq, _)| *seq < first),
                }
                self.passed = entry.seq;
            }
            if !slice.has_more {
                return;
            }
        }
    }

    /// What it holds.
    pub(crate) async fn happenings(&mut self, world: &World) -> Vec<Happening> {
        self.catch_up(world).await;
        self.held.iter().map(|(_, happening)| *happening).collect()
    }
}

/// Why a node failed, if it did.
pub(crate) fn trouble(report: &Report) -> Option<Trouble> {
    match report {
        Report::Node { state: NodeState::Failed { trouble, .. }, .. } => Some(*trouble),
        _ => None,
    }
}

fn topic() -> Topic {
    Topic::new("token").unwrap()
}

fn topics() -> Topics {
    Topics::new(&[TopicConfig::erc20_balance("token", TOKEN)]).unwrap()
}
