//! What `send` and `tail` have in common: where the server is, and how it goes with it.

use std::io::{self, Write};

use anyhow::Context;
use gapless_client::{
    ClientConfig, ClientEvent, Credentials, DisconnectReason, Follow, ServerUrl, StopReason, TokenSource,
};
use gapless_proto::{CloseCode, ConvId, DeviceId, ErrorCode, UserId};

use crate::output::visible;

/// Where the server is and who asks.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Where the server is: http:// or https://, then its host and port.
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
        let credentials = match (&self.user, given(self.token.as_ref())) {
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

    /// One who tells how it goes with this connection.
    pub(crate) fn weather(&self) -> Weather {
        Weather { url: self.url.clone(), has_connected: false, trouble: None }
    }

    /// Why the client has stopped, and what mends it.
    pub(crate) fn advice(&self, reason: &StopReason) -> String {
        match reason {
            StopReason::Unauthenticated { message } => match &self.user {
                Some(user) => format!(
                    "`--user {user}` isn't enough for this server: {message}\n{}",
                    how_to_make_a_token(user.as_str())
                ),
                None => format!("{reason}\n{TOKEN_OR_USER}"),
            },
            StopReason::Refused { code, .. } if *code == CloseCode::Kicked.number() => {
                format!("{reason}\nask who runs the server")
            }
            StopReason::Refused { .. } => format!("{reason}\nis the server's address right?"),
            StopReason::Requested
            | StopReason::WrongAddress { .. }
            | StopReason::OtherUser { .. }
            | StopReason::State { .. } => reason.to_string(),
        }
    }

    /// What the server says when it doesn't serve a conversation, and what mends that.
    pub(crate) fn mend(&self, conv: &ConvId, code: ErrorCode, message: &str) -> String {
        if code != ErrorCode::NotFound {
            return format!("{message} ({code})");
        }
        let url = &self.url;
        format!(
            "{message}\nif {conv} doesn't exist, create it: gapless admin create {conv} --url {url} --creator YOU\nif it \
             does, have a member add you: gapless admin add {conv} YOU --url {url} --user MEMBER (or with their --token)"
        )
    }
}

/// What mends that a token isn't taken.
pub(crate) const TOKEN_OR_USER: &str = "make a token with `gapless token --user NAME` and a secret of this server, and give it as --token or GAPLESS_TOKEN; \
     if the server runs with `--auth open`, it takes none: give `--user NAME` instead";

/// What mends that a token is wanted and none was given, given what goes behind `--user`.
pub(crate) fn how_to_make_a_token(user: &str) -> String {
    format!(
        "make a token with `gapless token --user {user}` and a secret of this server, and give it as --token or \
         GAPLESS_TOKEN; `--user` alone is for a server that runs with `--auth open`"
    )
}

/// A token, unless it is empty: so it comes from a variable that isn't set, or from a command that failed.
pub(crate) fn given(token: Option<&String>) -> Option<&str> {
    token.map(|token| token.trim()).filter(|token| !token.is_empty())
}

/// What mends that no connection ever came about.
const SEE_THAT_IT_RUNS: &str = "; see that the server runs, or name another with `--url`";

/// Tells a person how it goes with the connection, each thing once.
#[derive(Debug)]
pub(crate) struct Weather {
    url: ServerUrl,
    has_connected: bool,
    trouble: Option<DisconnectReason>,
}

impl Weather {
    /// That no connection has come about yet, if so, and what mends that.
    pub(crate) fn never_connected(&self) -> Option<String> {
        (!self.has_connected).then(|| format!("no connection to {} came about{SEE_THAT_IT_RUNS}", self.url))
    }

    /// That there is no connection now, which there was.
    pub(crate) fn disconnected(&self) -> String {
        format!("there is no connection to {} any more", self.url)
    }

    /// What there is to say about an event.
    pub(crate) fn remark(&mut self, event: &ClientEvent) -> Option<String> {
        match event {
            ClientEvent::Connected { .. } => {
                self.has_connected = true;
                self.trouble.take().map(|_| "connected again".to_owned())
            }
            ClientEvent::Disconnected { reason, retry_in } if self.trouble.as_ref() != Some(reason) => {
                self.trouble = Some(reason.clone());
                let hint = if self.has_connected { "" } else { SEE_THAT_IT_RUNS };
                let (url, seconds) = (&self.url, retry_in.as_secs_f64());
                Some(format!("no connection to {url}: {reason}{hint}; trying again in {seconds:.1} s"))
            }
            ClientEvent::TokenExpiring { expires_in } => {
                Some(format!("the token expires in {} s; start again with a fresh one", expires_in.as_secs()))
            }
            ClientEvent::Fault(fault) => Some(fault.to_string()),
            ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::Reset { .. }
            | ClientEvent::Refused { .. }
            | ClientEvent::Sent(_)
            | ClientEvent::SendRefused(_)
            | ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::Stopped(_) => None,
        }
    }
}

/// Says something to the person in front of the terminal; others may have chosen parts of it.
pub(crate) fn remark(text: &str) {
    let lines: Vec<String> = text.split('\n').map(visible).collect();
    // Who closed stderr doesn't want to know.
    writeln!(io::stderr(), "{}", lines.join("\n")).ok();
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

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;

    pub(crate) fn connected() -> ClientEvent {
        ClientEvent::Connected {
            user: "alice".parse().unwrap(),
            device: "default".parse().unwrap(),
            session: "s-1".parse().unwrap(),
        }
    }

    pub(crate) fn connection(user: Option<&str>, token: Option<&str>) -> Connection {
        Connection {
            url: "http://h:1".parse().unwrap(),
            user: user.map(|user| user.parse().unwrap()),
            device: "default".parse().unwrap(),
            token: token.map(str::to_owned),
        }
    }

    #[test]
    fn who_is_not_let_in_learns_what_to_give_instead_of_what_they_gave() {
        let refused = StopReason::Unauthenticated { message: "no".to_owned() };
        let named = connection(Some("alice"), None).advice(&refused);
        assert!(named.contains("`gapless token --user alice`") && named.contains("--token"), "{named}");
        let with_token = connection(None, Some("T.O.K")).advice(&refused);
        assert!(with_token.contains("`gapless token --user NAME`"), "{with_token}");
        assert!(with_token.contains("give `--user NAME` instead"), "{with_token}");
    }

    #[test]
    fn trouble_names_the_server_and_until_there_was_a_connection_another_is_suggested() {
        let failed = ClientEvent::Disconnected {
            reason: DisconnectReason::ConnectTimeout,
            retry_in: Duration::from_millis(500),
        };
        let mut weather = connection(Some("alice"), None).weather();
        let first = weather.remark(&failed).unwrap();
        assert!(first.starts_with("no connection to http://h:1: ") && first.contains("`--url`"), "{first}");
        assert_eq!(weather.remark(&failed), None);
        assert!(weather.never_connected().is_some_and(|text| text.contains("http://h:1")));

        weather.remark(&connected());
        assert_eq!(weather.never_connected(), None);
        let later = weather.remark(&failed).unwrap();
        assert!(later.contains("http://h:1") && !later.contains("`--url`"), "{later}");
    }

    #[test]
    fn an_empty_token_is_none() {
        for empty in [None, Some(""), Some(" \n")] {
            assert!(connection(None, empty).config().unwrap_err().to_string().contains("say who you are"));
        }
        assert!(connection(None, Some("T.O.K")).config().is_ok());
    }

    #[test]
    fn only_a_conversation_that_is_not_found_can_be_made_or_joined() {
        let conv: ConvId = "c".parse().unwrap();
        let mend = |code| connection(Some("alice"), None).mend(&conv, code, "no");
        assert!(mend(ErrorCode::NotFound).contains("gapless admin create c --url http://h:1"));
        assert_eq!(mend(ErrorCode::Forbidden), "no (FORBIDDEN)");
    }
}
