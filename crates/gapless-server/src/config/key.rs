//! The keys there are.

/// One thing an operator may choose: its name in the file, what it is by default, and what it means.
#[derive(Debug)]
pub struct Key {
    /// Its name, as in `limits.body_bytes_max`.
    pub name: &'static str,
    /// What it is when nobody says; empty for "none".
    pub default: &'static str,
    /// What it means, in half a sentence.
    pub meaning: &'static str,
    /// Whether it takes several values, separated by commas.
    pub is_list: bool,
    /// Whether its value may be shown.
    pub is_secret: bool,
}

impl Key {
    const fn new(name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        Self { name, default, meaning, is_list: false, is_secret: false }
    }

    const fn list(self) -> Self {
        Self { is_list: true, ..self }
    }

    const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// What the names of all our environment variables begin with.
pub(super) const VARIABLE_PREFIX: &str = "GAPLESS_";

/// All keys, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    Key::new("listen", "127.0.0.1:7700", "the address and port to listen on; port 0 is any that is free"),
    Key::new(
        "store",
        "sqlite:gapless.db",
        "the database: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE",
    )
    .secret(),
    Key::new(
        "auth.mode",
        "jwt",
        "who is let in: jwt (whoever has a token), or open (everyone; on loopback only)",
    ),
    Key::new("auth.secrets", "", "what signs tokens, with commas between; the first signs, all verify")
        .list()
        .secret(),
    Key::new("auth.secrets_file", "", "a file with the secrets, one a line, instead of auth.secrets"),
    Key::new("limits.body_bytes_max", "64KiB", "the longest body of a message"),
    Key::new("limits.handshake_max", "10s", "how long a connection may take to say what it wants"),
    Key::new("limits.request_max", "30s", "how long an HTTP request may take"),
    Key::new(
        "http.origins",
        "",
        "whose web pages may use HTTP, as in https://app.example, with commas between; * for all",
    )
    .list(),
    Key::new("delivery.queued_frames_max", "1000", "how many pushes may wait for one connection"),
    Key::new("delivery.queued_bytes_max", "1MiB", "how many bytes of pushes may wait for one connection"),
    Key::new("delivery.write_stall_max", "30s", "how long a connection may take no byte"),
    Key::new("delivery.pushed_members_max", "500", "conversations with more members are hinted, not pushed"),
    Key::new("delivery.fetched_entries_max", "2000", "a log that is further behind is hinted, not read"),
    Key::new("delivery.lag_max", "3s", "how long a reader may lag before it is hinted"),
    Key::new("delivery.hint_interval_max", "1m", "the longest time between two hints to a reader that lags"),
    Key::new("delivery.sweep_interval", "1s", "the time between two looks for readers that lag"),
    Key::new("delivery.heads_interval", "3s", "the time between two looks for entries that nobody told of"),
    Key::new("heartbeat.ping_after", "25s", "after how much silence a client is asked whether it is there"),
    Key::new("heartbeat.give_up_after", "10s", "how long it may take to answer"),
    Key::new("drain.reconnect_spread", "5s", "clients are told to come back within this time"),
    Key::new("drain.deadline", "10s", "connections that haven't ended by then are dropped"),
    Key::new("chains.follow", "", "files that declare a chain to follow each, with commas between").list(),
    Key::new("chains.confirmations", "12", "a block is confirmed when the head is so many blocks above it"),
    Key::new("chains.reorg_blocks_max", "1024", "how many blocks below the head a reorg may reach"),
    Key::new(
        "chains.replay_entries",
        "10000000",
        "how many of a chain's newest entries are kept for those who come back; older ones go once no reorg reaches them",
    ),
    Key::new(
        "chains.stall_max",
        "2m",
        "how long a chain that is followed here may stand still while its node has more, until the server isn't ready",
    ),
    Key::new("chains.trim_interval", "1m", "the time between two looks for entries that needn't be kept"),
    Key::new("tables.serve", "", "files that declare the tables of a database each, with commas between")
        .list(),
    Key::new("log.format", "text", "the log's form: text or json"),
    Key::new("log.level", "info", "what is logged: error, warn, info, debug or trace"),
];

/// The key of a name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// How many letters a typing error may add, leave out, change or swap, and in how long a name the second one of them may be.
/// What differs by more is another word.
const TYPING_ERRORS_MAX: usize = 2;
const SECOND_ERROR_FROM: usize = 8;

/// The candidate that `name` is a typing error of, if there is one.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let errors_max = if name.len() < SECOND_ERROR_FROM { 1 } else { TYPING_ERRORS_MAX };
    let measured = candidates.map(|candidate| (strsim::osa_distance(name, candidate), candidate));
    let near = measured.filter(|(distance, _)| *distance <= errors_max);
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}
