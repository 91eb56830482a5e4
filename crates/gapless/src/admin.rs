//! `gapless admin`: conversations and their logs, from outside.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use gapless_proto::{ChainId, ConvId, Seq, UserId};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::api::{Api, ApiFlags};
use crate::connection::block_on;
use crate::output::{say, visible};

/// Run conversations and their logs on a server, over HTTP.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    api: ApiFlags,
}

#[derive(Subcommand)]
enum Action {
    /// Make a conversation (scope `service` where id or creator are given)
    Create {
        /// Its id; one is made when left out
        conv: Option<ConvId>,
        /// Who creates it and is its first member, if not oneself
        #[arg(long)]
        creator: Option<UserId>,
        /// A further member; as often as there are
        #[arg(long = "member", value_name = "USER")]
        members: Vec<UserId>,
        /// What those may see who join later
        #[arg(long, default_value = "from-join")]
        history: History,
    },
    /// Add a member (scope `service`, or a member's own token)
    Add {
        /// Of which conversation
        conv: ConvId,
        /// Who becomes a member
        user: UserId,
    },
    /// End a membership (scope `service`, or the creator's own token)
    Remove {
        /// Of which conversation
        conv: ConvId,
        /// Who ceases to be a member
        user: UserId,
    },
    /// Delete the oldest entries of a log (scope `admin`)
    Trim {
        /// Of which conversation
        conv: ConvId,
        /// Entries with a smaller seq go
        #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
        below: Seq,
    },
    /// Delete the oldest entries of a chain's log (scope `admin`)
    TrimChain {
        /// Of which chain
        chain: ChainId,
        /// Entries with a smaller seq go, but for those that a reorg may still take back
        #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
        below: Seq,
    },
    /// After a restore from backup: make every reader start over (scope `admin`)
    #[command(group = ArgGroup::new("which").args(["conv", "all"]).required(true))]
    Epoch {
        /// Of which conversation
        conv: Option<ConvId>,
        /// Of all conversations
        #[arg(long)]
        all: bool,
    },
    /// End all connections of a user to this server (scope `admin`)
    Kick {
        /// Whose
        user: UserId,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum History {
    /// Nothing that came before
    FromJoin,
    /// Everything
    All,
}

/// Carries out one action and says what came of it.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { action, api } = arguments;
    say(visible(&block_on(carry_out(action, Api::new(api)?))?))?;
    Ok(ExitCode::SUCCESS)
}

async fn carry_out(action: Action, api: Api) -> anyhow::Result<String> {
    Ok(match action {
        Action::Create { conv, creator, members, history } => {
            let request = create_request(conv, creator, members, history);
            let made = api.call(Method::POST, &["v1", "conversations"], Some(&request)).await?;
            text(&made["conv"]).to_owned()
        }
        Action::Add { conv, user } => {
            let path = ["v1", "conversations", conv.as_str(), "members", user.as_str()];
            let added = api.call(Method::PUT, &path, None).await?;
            format!("{user} is a member of {conv}{}", at(&added))
        }
        Action::Remove { conv, user } => {
            let path = ["v1", "conversations", conv.as_str(), "members", user.as_str()];
            let removed = api.call(Method::DELETE, &path, None).await?;
            format!("{user} is no member of {conv}{}", at(&removed))
        }
        Action::Trim { conv, below } => {
            let path = ["v1", "admin", "conversations", conv.as_str(), "trim"];
            let trimmed = api.call(Method::POST, &path, Some(&json!({ "below": below }))).await?;
            format!("{conv} is kept from seq {} on; {} entries went", trimmed["min_seq"], trimmed["deleted"])
        }
        Action::TrimChain { chain, below } => {
            let path = ["v1", "admin", "chains", &chain.to_string(), "trim"];
            let trimmed = api.call(Method::POST, &path, Some(&json!({ "below": below }))).await?;
            format!("chain {chain} is kept from seq {} on", trimmed["min_seq"])
        }
        Action::Epoch { conv: Some(conv), .. } => {
            api.call(Method::POST, &["v1", "admin", "conversations", conv.as_str(), "epoch"], None).await?;
            format!("{conv} began a new life; its readers start over{}", when_epoch_is_heard())
        }
        Action::Epoch { conv: None, .. } => {
            let raised = api.call(Method::POST, &["v1", "admin", "epoch"], None).await?;
            format!(
                "{} conversations began a new life; their readers start over{}",
                raised["raised"],
                when_epoch_is_heard()
            )
        }
        Action::Kick { user } => {
            let kicked =
                api.call(Method::POST, &["v1", "admin", "users", user.as_str(), "kick"], None).await?;
            format!("{} connections of {user} were ended", kicked["closed"])
        }
    })
}

/// How long it takes at most until a connected reader is hinted at a new epoch, by default: its gateway looks at the
/// heads, finds out who lags, and sweeps.
const EPOCH_HEARD_WITHIN: Duration = Duration::from_secs(7);

fn when_epoch_is_heard() -> String {
    let seconds = EPOCH_HEARD_WITHIN.as_secs();
    format!(
        ": the connected ones within about {seconds} s, unless the server is set otherwise, the others when they come back"
    )
}

fn create_request(
    conv: Option<ConvId>,
    creator: Option<UserId>,
    members: Vec<UserId>,
    history: History,
) -> Value {
    let mut request = Map::new();
    request.extend(conv.map(|conv| ("conv".to_owned(), json!(conv))));
    request.extend(creator.map(|creator| ("creator".to_owned(), json!(creator))));
    request.insert("members".to_owned(), json!(members));
    let history = match history {
        History::FromJoin => "from_join",
        History::All => "all",
    };
    request.insert("history".to_owned(), json!(history));
    Value::Object(request)
}

/// Where a change is in the log.
fn at(changed: &Value) -> String {
    let since = if changed["duplicate"] == true { "already since" } else { "from" };
    format!(", {since} seq {} on", changed["seq"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use gapless_server::Config;

    use super::*;

    #[test]
    fn a_new_epoch_is_heard_of_as_soon_as_the_settings_let_it() {
        let Config { hub, upkeep, .. } = Config::default();
        assert_eq!(EPOCH_HEARD_WITHIN, upkeep.heads_interval + hub.lag_max + upkeep.sweep_interval);
    }
}
