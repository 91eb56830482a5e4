//! A gateway that runs in this process, with a database of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gapless_core::{Append, Appended, Authority, History, Operation};
use gapless_proto::{Body, ConvId, DeviceId, Key, Seq, Timestamp, UserId};
use gapless_server::{
    AuthConfig, Authenticator, Beside, ChainTips, Config, RunError, Scopes, Secret, TokenRequest,
};
use gapless_store::{CommitNews, Creation, NewsReceiver, PAGE_ENTRIES_MAX, Store, StoreUrl};
use gapless_tables::{DeclaredTables, Tables};
use gapless_testkit::SharedPostgres;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::client::{Client, within};
use crate::faulty_store::FaultyStore;

/// A running gateway.
pub(crate) struct TestServer {
    config: Config,
    store: Arc<dyn Store>,
    running: Running,
    tips: ChainTips,
    /// The tables that it reads for others, each time it starts.
    tables: Vec<DeclaredTables>,
    url: StoreUrl,
    _folder: TempDir,
    /// Keeps a channel open that nobody sends to.
    silence: Option<mpsc::Sender<CommitNews>>,
}

struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), RunError>>,
}

const SECRET: &str = "the secret of the gateways that these tests start";
const OTHER_SECRET: &str = "the secret of a gateway that somebody else starts";
const HOUR: Duration = Duration::from_secs(3_600);

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts one on a PostgreSQL database of its own.
    pub(crate) async fn start_on_postgres() -> Self {
        let url = SharedPostgres::from_environment().fresh_database().parse().unwrap();
        let (store, news) = gapless_store::open(&url).await.unwrap();
        Self { url, ..Self::start_on(store, news, TempDir::new().unwrap(), |_| {}).await }
    }

    /// Starts one with another configuration than the default.
    pub(crate) async fn start_with(configure: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().unwrap();
        let (store, news) = open(&folder).await;
        Self::start_on(store, news, folder, configure).await
    }

    /// Starts one on a store that is open.
    pub(crate) async fn start_on(
        store: Arc<dyn Store>,
        news: NewsReceiver,
        folder: TempDir,
        configure: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config { auth: signed_with(SECRET), ..Config::default() };
        configure(&mut config);
        Self::start_beside(store, news, folder, config, Vec::new()).await
    }

    /// Starts one that reads tables for others.
    pub(crate) async fn start_with_tables(tables: Vec<DeclaredTables>) -> Self {
        let folder = TempDir::new().unwrap();
        let (store, news) = open(&folder).await;
        let config = Config { auth: signed_with(SECRET), ..Config::default() };
        Self::start_beside(store, news, folder, config, tables).await
    }

    async fn start_beside(
        store: Arc<dyn Store>,
        news: NewsReceiver,
        folder: TempDir,
        config: Config,
        tables: Vec<DeclaredTables>,
    ) -> Self {
        let tips = ChainTips::default();
        let running = Running::start(&config, &store, news, beside(&config, &tips, &tables)).await;
        let url = sqlite_in(&folder);
        Self { config, store, running, tips, tables, url, _folder: folder, silence: None }
    }

    /// Starts one on a store that fails on demand.
    pub(crate) async fn start_faulty() -> (Self, Arc<FaultyStore>) {
        Self::start_faulty_with(|_| {}).await
    }

    pub(crate) async fn start_faulty_with(configure: impl FnOnce(&mut Config)) -> (Self, Arc<FaultyStore>) {
        let folder = TempDir::new().unwrap();
        let (store, news) = open(&folder).await;
        let faulty = FaultyStore::new(store);
        (Self::start_on(Arc::clone(&faulty) as _, news, folder, configure).await, faulty)
    }

    /// Starts one to which its store, which fails on demand, tells no news.
    pub(crate) async fn start_deaf_with(configure: impl FnOnce(&mut Config)) -> (Self, Arc<FaultyStore>) {
        let folder = TempDir::new().unwrap();
        let (store, _) = open(&folder).await;
        let faulty = FaultyStore::new(store);
        let (silence, no_news) = mpsc::channel(1);
        let mut server = Self::start_on(Arc::clone(&faulty) as _, no_news, folder, configure).await;
        server.silence = Some(silence);
        (server, faulty)
    }

    /// Stops it, and starts another on the same database.
    pub(crate) async fn restart(&mut self) {
        self.running.stop().await;
        self.store.close().await;
        let (store, news) = gapless_store::open(&self.url).await.unwrap();
        self.store = store;
        let beside = beside(&self.config, &self.tips, &self.tables);
        self.running = Running::start(&self.config, &self.store, news, beside).await;
    }

    /// What is told of the chains that are followed beside it.
    pub(crate) fn tips(&self) -> &ChainTips {
        &self.tips
    }

    /// The SQLite database, past the store that is open on it.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        let StoreUrl::Sqlite(path) = &self.url else {
            panic!("the store isn't SQLite");
        };
        rusqlite::Connection::open(path).unwrap()
    }

    /// The keys of a conversation's messages, in the order of the log.
    pub(crate) async fn messages(&self, conv: &ConvId) -> Vec<String> {
        let mut keys = Vec::new();
        let mut after = Seq::ZERO;
        loop {
            let slice = self.store.log(conv, after, PAGE_ENTRIES_MAX).await.unwrap().unwrap();
            let Some(last) = slice.entries.last() else {
                return keys;
            };
            after = last.seq;
            keys.extend(slice.entries.iter().filter_map(|entry| entry.key.as_ref()).map(Key::to_string));
        }
    }

    /// Asks it to drain and stop.
    pub(crate) fn begin_stop(&mut self) {
        self.running.begin_stop();
    }

    /// Waits until it has drained and stopped.
    pub(crate) async fn stopped(mut self) {
        self.running.stop().await;
        self.store.close().await;
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(self) -> Result<(), RunError> {
        within(self.running.task).await.unwrap()
    }

    /// Waits until so many connections to it are open, from its side.
    pub(crate) async fn until_connections(&self, open: usize) {
        let port = self.address().port();
        within(async {
            // The kernel tells nobody.
            let mut looks = interval(Duration::from_millis(5));
            while established(port) != open {
                looks.tick().await;
            }
        })
        .await;
    }

    /// Makes an HTTP request without a body. Returns status and body of the answer.
    pub(crate) async fn http(&self, method: &str, path: &str, token: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n",
            self.address()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Connects a user's only device and waits for the welcome.
    pub(crate) async fn connect(&self, user: &str) -> Client {
        self.connect_through(self.address(), user).await
    }

    /// Connects by way of another address, such as a proxy's.
    pub(crate) async fn connect_through(&self, address: SocketAddr, user: &str) -> Client {
        let mut client = Client::connect(address, &self.token(user)).await.unwrap();
        client.expect_welcome().await;
        client
    }

    /// A token that holds for an hour.
    pub(crate) fn token(&self, user: &str) -> String {
        self.token_for(user, "phone", HOUR)
    }

    pub(crate) fn token_for(&self, user: &str, device: &str, ttl: Duration) -> String {
        Minting { device, ttl, ..Minting::of(user) }.token()
    }

    /// A token that has held once.
    pub(crate) fn expired_token(&self, user: &str) -> String {
        let long_ago = Timestamp::new(wall_clock().get() - 7_200_000).unwrap();
        Minting { minted_at: long_ago, ..Minting::of(user) }.token()
    }

    /// A token that allows more than an ordinary one.
    pub(crate) fn scoped_token(&self, user: &str, scopes: Scopes) -> String {
        Minting { scopes, ..Minting::of(user) }.token()
    }

    /// One that runs out.
    pub(crate) fn short_token(&self, user: &str, scopes: Scopes, ttl: Duration) -> String {
        Minting { scopes, ttl, ..Minting::of(user) }.token()
    }

    /// A token that another server would take.
    pub(crate) fn foreign_token(user: &str) -> String {
        Minting { secret: OTHER_SECRET, ..Minting::of(user) }.token()
    }

    /// Makes a conversation; the first member creates it.
    pub(crate) async fn conversation(&self, name: &str, members: &[&str]) -> ConvId {
        let (creator, others) = members.split_first().unwrap();
        let conv = conv(name);
        let members = others.iter().map(|member| user(member)).collect();
        let creation =
            Creation { conv: conv.clone(), creator: user(creator), members, history: History::FromJoin };
        self.store.create(creation).await.unwrap();
        conv
    }

    /// Adds a member, as the creator would.
    pub(crate) async fn join(&self, conv: &ConvId, who: &str, by: &str) -> Seq {
        self.append(conv, Operation::Join { user: user(who), by: user(by) }).await
    }

    /// Ends a membership.
    pub(crate) async fn leave(&self, conv: &ConvId, who: &str, by: &str) -> Seq {
        self.append(conv, Operation::Leave { user: user(who), by: user(by) }).await
    }

    /// Appends a message past all connections, as a backend would.
    pub(crate) async fn say(&self, conv: &ConvId, sender: &str, text: &str) -> Seq {
        self.say_text(conv, sender, text, text).await
    }

    pub(crate) async fn say_text(&self, conv: &ConvId, sender: &str, key: &str, text: &str) -> Seq {
        let key = Key::new(key).unwrap();
        let body = Body::from_value(&text).unwrap();
        self.append(conv, Operation::Message { sender: user(sender), key, body }).await
    }

    async fn append(&self, conv: &ConvId, operation: Operation) -> Seq {
        let append = Append { conv: conv.clone(), authority: Authority::Service, operation };
        let Appended { position, .. } = self.store.append(append, None).await.unwrap();
        position.seq
    }
}

impl Running {
    async fn start(config: &Config, store: &Arc<dyn Store>, news: NewsReceiver, beside: Beside) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(gapless_server::run(
            listener,
            config.clone(),
            Arc::clone(store),
            news,
            beside,
            shutdown,
        ));
        Self { address, stop: Some(stop), task }
    }

    fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap();
        }
    }

    async fn stop(&mut self) {
        self.begin_stop();
        within(&mut self.task).await.unwrap().unwrap();
    }
}

fn beside(config: &Config, tips: &ChainTips, tables: &[DeclaredTables]) -> Beside {
    Beside { tips: tips.clone(), tables: Tables::new(tables.to_vec(), &config.auth.cursor_keys()).unwrap() }
}

async fn open(folder: &TempDir) -> (Arc<dyn Store>, NewsReceiver) {
    gapless_store::open(&sqlite_in(folder)).await.unwrap()
}

fn sqlite_in(folder: &TempDir) -> StoreUrl {
    StoreUrl::Sqlite(folder.path().join("gapless.db"))
}

fn signed_with(secret: &str) -> AuthConfig {
    AuthConfig::Jwt([Secret::new(secret).unwrap()].into_iter().collect())
}

/// What a token is made of.
struct Minting<'a> {
    secret: &'a str,
    user: &'a str,
    device: &'a str,
    minted_at: Timestamp,
    ttl: Duration,
    scopes: Scopes,
}

impl<'a> Minting<'a> {
    fn of(user: &'a str) -> Self {
        Self {
            secret: SECRET,
            user,
            device: "phone",
            minted_at: wall_clock(),
            ttl: HOUR,
            scopes: Scopes::default(),
        }
    }

    fn token(&self) -> String {
        let request = TokenRequest {
            user: user(self.user),
            device: Some(DeviceId::new(self.device).unwrap()),
            scopes: self.scopes.clone(),
            ttl: self.ttl,
        };
        Authenticator::new(signed_with(self.secret)).mint(&request, self.minted_at).unwrap().token
    }
}

fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::new(since_epoch.as_millis().try_into().unwrap()).unwrap()
}

pub(crate) fn conv(name: &str) -> ConvId {
    ConvId::new(name).unwrap()
}

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

pub(crate) fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

/// `PREFIX0`, `PREFIX1` and so on.
pub(crate) fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// How many connections to a local port the kernel knows that neither side has closed.
fn established(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines.filter(|columns| columns[1].ends_with(&local) && columns[3] == "01").count()
}
