//! From what was typed to what it means.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gapless_core::{DeliveryConfig, HeartbeatConfig, HubConfig};
use gapless_store::StoreUrl;
use tracing::Level;

use super::error::ConfigErrors;
use super::origins::{Origins, origin};
use super::raw::RawConfig;
use super::reader::Reader;
use super::{
    AuthConfig, ChainsConfig, Config, DrainConfig, HttpConfig, LogConfig, LogFormat, SessionConfig,
    TablesConfig, UpkeepConfig,
};

impl RawConfig {
    /// Reads all values, and finds everything that is wrong with them.
    pub fn check(&self) -> Result<Config, ConfigErrors> {
        let mut reader = Reader::new(self);
        let listen = reader.listen();
        let config = Config {
            auth: reader.auth(Some(listen)),
            listen,
            store: reader.store(),
            hub: reader.hub(),
            session: reader.session(),
            http: reader.http(),
            drain: reader.drain(),
            chains: reader.chains(),
            tables: reader.tables(),
            upkeep: reader.upkeep(),
            log: reader.log(),
        };
        reader.check_frames_fit(&config.session);
        reader.finish(config)
    }

    /// Reads only who is let in.
    pub fn check_auth(&self) -> Result<AuthConfig, ConfigErrors> {
        let mut reader = Reader::new(self);
        let auth = reader.auth(None);
        reader.finish(auth)
    }

    /// Reads only which store it is.
    pub fn check_store(&self) -> Result<StoreUrl, ConfigErrors> {
        let mut reader = Reader::new(self);
        let store = reader.store();
        reader.finish(store)
    }

    /// The values that a follower of chains needs, or everything that is wrong with them.
    pub fn check_following(&self) -> Result<(StoreUrl, ChainsConfig, LogConfig), ConfigErrors> {
        let mut reader = Reader::new(self);
        let following = (reader.store(), reader.chains(), reader.log());
        reader.finish(following)
    }
}

const MOMENT: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3600);
/// More than any log ever has.
const ENTRIES_MAX: u64 = 1 << 53;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What a frame has beside the body, at most: ids, a key and the names of fields, with escapes.
const ENVELOPE_BYTES_MAX: usize = 4 << 10;

impl Reader<'_> {
    fn listen(&mut self) -> SocketAddr {
        let typed = self.raw.typed("listen");
        let value = typed.values.concat();
        value.parse().unwrap_or_else(|_| {
            self.wrong(typed, &value, "write an address and a port, as in 127.0.0.1:7700 or [::]:7700");
            Config::default().listen
        })
    }

    fn store(&mut self) -> StoreUrl {
        let typed = self.raw.typed("store");
        let value = typed.values.concat();
        value.parse().unwrap_or_else(|error: gapless_store::StoreUrlError| {
            self.wrong(typed, &value, &error.to_string());
            Config::default().store
        })
    }

    fn hub(&mut self) -> HubConfig {
        HubConfig {
            pushed_members_max: self.number("delivery.pushed_members_max", 0..=1_000_000),
            lag_max: self.time("delivery.lag_max", MOMENT..=HOUR),
            hint_interval_max: self.time("delivery.hint_interval_max", MOMENT..=HOUR),
            fetched_entries_max: self.number("delivery.fetched_entries_max", 1..=1_000_000),
        }
    }

    fn session(&mut self) -> SessionConfig {
        SessionConfig {
            body_bytes_max: self.size("limits.body_bytes_max", 1..=MIB),
            handshake_max: self.time("limits.handshake_max", MOMENT..=HOUR),
            delivery: DeliveryConfig {
                queued_frames_max: self.size("delivery.queued_frames_max", 1..=1_000_000),
                queued_bytes_max: self.size("delivery.queued_bytes_max", KIB..=1024 * MIB),
            },
            write_stall_max: self.time("delivery.write_stall_max", MOMENT..=HOUR),
            heartbeat: HeartbeatConfig {
                ping_after: self.time("heartbeat.ping_after", MOMENT..=HOUR),
                give_up_after: self.time("heartbeat.give_up_after", MOMENT..=HOUR),
            },
        }
    }

    fn http(&mut self) -> HttpConfig {
        HttpConfig {
            request_max: self.time("limits.request_max", MOMENT..=HOUR),
            origins: self.origins("http.origins"),
        }
    }

    fn origins(&mut self, name: &str) -> Origins {
        let typed = self.raw.typed(name);
        if typed.values == ["*"] {
            return Origins::Any;
        }
        let mut origins = Vec::new();
        for value in &typed.values {
            match origin(value) {
                Some(origin) => origins.push(origin),
                None => self.wrong(
                    typed,
                    value,
                    "write origins as browsers send them, as in https://app.example or http://127.0.0.1:5173, or * alone",
                ),
            }
        }
        Origins::These(origins)
    }

    fn drain(&mut self) -> DrainConfig {
        DrainConfig {
            reconnect_spread: self.time("drain.reconnect_spread", Duration::ZERO..=HOUR),
            deadline: self.time("drain.deadline", Duration::ZERO..=HOUR),
        }
    }

    fn chains(&mut self) -> ChainsConfig {
        ChainsConfig {
            follow: self.raw.typed("chains.follow").values.iter().map(PathBuf::from).collect(),
            confirmations: self.number("chains.confirmations", 0..=1_000_000),
            reorg_blocks_max: self.number("chains.reorg_blocks_max", 1..=100_000),
            replay_entries: self.number("chains.replay_entries", 1..=ENTRIES_MAX),
            stall_max: self.time("chains.stall_max", MOMENT..=HOUR),
            trim_interval: self.time("chains.trim_interval", MOMENT..=HOUR),
        }
    }

    fn tables(&mut self) -> TablesConfig {
        TablesConfig { serve: self.raw.typed("tables.serve").values.iter().map(PathBuf::from).collect() }
    }

    fn upkeep(&mut self) -> UpkeepConfig {
        UpkeepConfig {
            sweep_interval: self.time("delivery.sweep_interval", MOMENT..=HOUR),
            heads_interval: self.time("delivery.heads_interval", MOMENT..=HOUR),
        }
    }

    fn log(&mut self) -> LogConfig {
        LogConfig {
            format: self.choice("log.format", [("text", LogFormat::Text), ("json", LogFormat::Json)]),
            level: self.choice(
                "log.level",
                [
                    ("error", Level::ERROR),
                    ("warn", Level::WARN),
                    ("info", Level::INFO),
                    ("debug", Level::DEBUG),
                    ("trace", Level::TRACE),
                ],
            ),
        }
    }

    fn check_frames_fit(&mut self, session: &SessionConfig) {
        if session.delivery.queued_bytes_max < session.body_bytes_max + ENVELOPE_BYTES_MAX {
            let remedy =
                "the longest message must fit into an empty queue; let it hold 4 KiB more than a body";
            self.conflict("delivery.queued_bytes_max", "limits.body_bytes_max", remedy);
        }
    }
}
