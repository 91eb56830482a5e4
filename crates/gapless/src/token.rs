//! `gapless token`: who somebody is, signed.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::Args;
use gapless_proto::{DeviceId, Timestamp, UserId};
use gapless_server::{Authenticator, Scopes, TokenRequest};

use crate::config_flags::ConfigFlags;
use crate::output::say;

/// Make a token that says who somebody is.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Whose token it is
    #[arg(long)]
    user: UserId,
    /// Of which device; `default` when left out
    #[arg(long)]
    device: Option<DeviceId>,
    /// What it allows beyond what every user may, with commas between: `service` (act for any user, read everything), `admin` (trim,
    /// epoch, kick), `read:TOPIC` (read a topic of a chain, or a table, as in `read:table:orders`; with a star at the end all that begin so)
    #[arg(long, default_value = "", hide_default_value = true, value_parser = Scopes::parse)]
    scope: Scopes,
    /// How long it holds, as in 15m, 1h or 30days
    #[arg(long, default_value = "1h", value_parser = lifetime)]
    ttl: Duration,
    #[command(flatten)]
    config: ConfigFlags,
}

/// Prints a token and nothing else.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let auth = arguments.config.gather(Vec::new())?.check_auth()?;
    let request = TokenRequest {
        user: arguments.user,
        device: arguments.device,
        scopes: arguments.scope,
        ttl: arguments.ttl,
    };
    say(Authenticator::new(auth).mint(&request, now()?)?.token)?;
    Ok(ExitCode::SUCCESS)
}

/// How long a token may hold.
fn lifetime(text: &str) -> Result<Duration, String> {
    let Ok(lifetime) = humantime::parse_duration(text) else {
        return Err(
            "write a time, as in 15m, 1h or 30days; every token ends, but it may be after 10years".to_owned()
        );
    };
    if lifetime.is_zero() {
        return Err("such a token has ended before anyone can use it; write a time, as in 15m, 1h or 30days"
            .to_owned());
    }
    Ok(lifetime)
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> anyhow::Result<Timestamp> {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().context("the clock stands before 1970; set it")?;
    let millis = u64::try_from(since_epoch.as_millis()).context("the clock is beyond all times; set it")?;
    Ok(Timestamp::new(millis)?)
}
