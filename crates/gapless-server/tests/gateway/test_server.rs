//! A gateway that runs in this process, with a database of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gapless_core::{Append, Appended, Authority, History, Operation};
use gapless_proto::{Body, ConvId, DeviceId, Key, Seq, Timestamp, UserId};
use gapless_server::{AuthConfig, Authenticator, Config, RunError, Scopes, Secret, TokenRequest};
use gapless_store::{Creation, NewsReceiver, Store, StoreUrl};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, within};

/// A running gateway.
pub(crate) struct TestServer {
    config: Config,
    store: Arc<dyn Store>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), RunError>>,
    _folder: TempDir,
}

const SECRET: &str = "the secret of the gateways that these tests start";
const OTHER_SECRET: &str = "the secret of a gateway that somebody else starts";
const HOUR: Duration = Duration::from_secs(3_600);

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts one with another configuration than the default.
    pub(crate) async fn start_with(configure: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().unwrap();
        let url = StoreUrl::Sqlite(folder.path().join("gapless.db"));
        let (store, news) = gapless_store::open(&url).await.unwrap();
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
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let running =
            tokio::spawn(gapless_server::run(listener, config.clone(), Arc::clone(&store), news, shutdown));
        Self { config, store, address, stop: Some(stop), running, _folder: folder }
    }

    /// Asks it to drain and stop.
    pub(crate) fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap();
        }
    }

    /// Waits until it has drained and stopped.
    pub(crate) async fn stopped(mut self) {
        self.begin_stop();
        within(self.running).await.unwrap().unwrap();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Connects a user's only device and waits for the welcome.
    pub(crate) async fn connect(&self, user: &str) -> Client {
        self.connect_through(self.address, user).await
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
        mint(self.config.auth.clone(), user, device, ttl, Scopes::default())
    }

    /// A token that another server would take.
    pub(crate) fn foreign_token(user: &str) -> String {
        mint(signed_with(OTHER_SECRET), user, "phone", HOUR, Scopes::default())
    }

    /// A token whose time is over.
    pub(crate) fn expired_token(&self, user: &str) -> String {
        let an_hour_ago = Timestamp::new(wall_clock().get() - 3_600_000).unwrap();
        let minute = Duration::from_secs(60);
        mint_at(an_hour_ago, self.config.auth.clone(), user, "phone", minute, Scopes::default())
    }

    /// A token that allows more than an ordinary one.
    pub(crate) fn scoped_token(&self, user: &str, scopes: Scopes) -> String {
        mint(self.config.auth.clone(), user, "backend", HOUR, scopes)
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
        let key = Key::new(text).unwrap();
        let body = Body::from_value(&text).unwrap();
        self.append(conv, Operation::Message { sender: user(sender), key, body }).await
    }

    async fn append(&self, conv: &ConvId, operation: Operation) -> Seq {
        let append = Append { conv: conv.clone(), authority: Authority::Service, operation };
        let Appended { position, .. } = self.store.append(append, None).await.unwrap();
        position.seq
    }
}

fn signed_with(secret: &str) -> AuthConfig {
    AuthConfig::Jwt([Secret::new(secret).unwrap()].into_iter().collect())
}

fn mint(auth: AuthConfig, user: &str, device: &str, ttl: Duration, scopes: Scopes) -> String {
    mint_at(wall_clock(), auth, user, device, ttl, scopes)
}

fn mint_at(
    now: Timestamp,
    auth: AuthConfig,
    user: &str,
    device: &str,
    ttl: Duration,
    scopes: Scopes,
) -> String {
    let request = TokenRequest {
        user: UserId::new(user).unwrap(),
        device: Some(DeviceId::new(device).unwrap()),
        scopes,
        ttl,
    };
    Authenticator::new(auth).mint(&request, now).unwrap().token
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
