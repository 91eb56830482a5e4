//! What `send` and `tail` have in common: where the server is, and how it goes with it.

use std::io::{self, Write};

use anyhow::Context;
use gapless_client::{
    ClientConfig, ClientEvent, Credentials, DisconnectReason, Follow, ServerUrl, StopReason, TokenSource,
};
use gapless_proto::{CloseCode, DeviceId, UserId};

/// Where the server is and who asks.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Where the server is.
    #[arg(long, env = "GAPLESS_URL", default_value = "http://127.0.0.1:7700", value_name = "URL")]
    url: ServerUrl,

    /// Who you are, for a server that runs with `--auth open`.
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,

    /// Which of your devices this is, for a server that runs with `--auth open`.
    #[arg(long, default_value = "default", value_name = "DEVICE")]
    device: DeviceId,

    /// The token that says who you are. Taken unless `--user` is given.
    #[arg(long, env = "GAPLESS_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
}

impl Connection {
    pub(crate) fn config(&self) -> anyhow::Result<ClientConfig> {
        let credentials = match (&self.user, &self.token) {
            (Some(user), _) => Credentials::Open { user: user.clone(), device: self.device.clone() },
            (None, Some(token)) => Credentials::Token(TokenSource::fixed(token)),
            (None, None) => anyhow::bail!(
                "say who you are: `--token` (or GAPLESS_TOKEN), or `--user NAME` for a server that runs with `--auth open`"
            ),
        };
        let mut config = ClientConfig::new(self.url.clone(), credentials);
        config.session.follow = Follow::Watched;
        Ok(config)
    }

    pub(crate) fn url(&self) -> &ServerUrl {
        &self.url
    }
}

/// Tells a person how it goes with the connection, each thing once.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    trouble: Option<DisconnectReason>,
}

impl Weather {
    /// What there is to say about an event.
    pub(crate) fn remark(&mut self, event: &ClientEvent) -> Option<String> {
        match event {
            ClientEvent::Connected { .. } => self.trouble.take().map(|_| "connected again".to_owned()),
            ClientEvent::Disconnected { reason, retry_in } if self.trouble.as_ref() != Some(reason) => {
                self.trouble = Some(reason.clone());
                Some(format!("no connection: {reason}; trying again in {:.1} s", retry_in.as_secs_f64()))
            }
            ClientEvent::TokenExpiring { expires_in } => {
                Some(format!("the token expires in {} s; start again with a fresh one", expires_in.as_secs()))
            }
            ClientEvent::Fault(fault) => Some(fault.to_string()),
            ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::Reset { .. }
            | ClientEvent::Refused { .. }
            | ClientEvent::Sent(_)
            | ClientEvent::SendRefused(_)
            | ClientEvent::Stopped(_) => None,
        }
    }
}

/// Why the client has stopped, and what mends it.
pub(crate) fn advice(reason: &StopReason) -> String {
    match reason {
        StopReason::Unauthenticated { .. } => {
            format!(
                "{reason}\nmint a token with `gapless token --user NAME`, and give it as --token or GAPLESS_TOKEN"
            )
        }
        StopReason::Refused { code, .. } if *code == CloseCode::Kicked.number() => {
            format!("{reason}\nask who runs the server")
        }
        StopReason::Refused { .. } => format!("{reason}\nis the server's address right?"),
        StopReason::Requested | StopReason::OtherUser { .. } | StopReason::State { .. } => reason.to_string(),
    }
}

/// Says something to the person in front of the terminal.
pub(crate) fn remark(text: &str) {
    // Who closed stderr doesn't want to know.
    writeln!(io::stderr(), "{text}").ok();
}

/// Says why it didn't work.
pub(crate) fn complain(text: &str) {
    remark(&format!("error: {text}"));
}

/// Runs a client command to its end. A read from the terminal that still waits doesn't hold it up.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}
