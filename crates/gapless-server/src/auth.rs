//! Who is at the other end, and what they may do.
//!
//! A token is a JWT, signed with HS256 and one of the server's secrets. Its claims: `sub` is the user, `device` the device
//! (`default` when left out), `exp` when it expires, `nbf` from when on it holds, `scope` what its owner may do beyond what every
//! user may. Times are compared without leeway: a token has expired in the very second that `exp` names.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use gapless_core::Authority;
use gapless_proto::{DeviceId, ErrorCode, IdError, Timestamp, Topic, UserId};
use gapless_store::Reader;

use crate::config::{AuthConfig, Secrets};
use crate::gateway::Gateway;
use crate::refusal::Refusal;

mod claims;
mod credentials;
mod scope;
#[cfg(test)]
mod tests;

pub use scope::{Readable, Scope, Scopes};

/// Tells whose a token is, and makes new ones.
#[derive(Debug, Clone)]
pub struct Authenticator(AuthConfig);

/// Who someone is, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: UserId,
    /// The device.
    pub device: DeviceId,
    /// When the token expires; `None` when it never does.
    pub expires_at: Option<Timestamp>,
    /// What they may do beyond what every user may.
    pub rights: Rights,
}

/// What someone may do beyond what every user may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rights {
    /// What the scopes of their token say.
    Scopes(Scopes),
    /// The server is open, and they are whom they say they are. So they see and do what that user may; beyond it they may
    /// name other users, choose ids and administer.
    Open,
}

/// Why someone isn't let in. Doesn't tell what exactly is wrong with a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No token was given.
    #[error("no token was given; send one as `Authorization: Bearer TOKEN`")]
    Missing,
    /// It is no token of this server.
    #[error("the token isn't valid here; ask for a fresh one")]
    Invalid,
    /// Its time is over.
    #[error("the token has expired; ask for a fresh one")]
    Expired,
    /// Its time hasn't come.
    #[error("the token isn't valid yet; wait until its `nbf`, or set the clock of the machine that made it")]
    Early,
    /// It is signed by us, and says something that can't be used.
    #[error("the token's claims can't be used: {0}; correct how it is made")]
    Claims(String),
    /// The server is open, and no user was named.
    #[error(
        "no user was named; this server is open: say who you are as `?user=NAME`, or in the header `X-Gapless-User`"
    )]
    Unnamed,
    /// The server is open, and a token was given instead of a name.
    #[error(
        "this server is open and takes no tokens; say who you are as `?user=NAME`, or in the header `X-Gapless-User`"
    )]
    TokenInsteadOfName,
    /// The server is open, and what was named can't be a user or a device.
    #[error("{0}")]
    Name(IdError),
    /// The server is open and has no secret, so it neither takes nor makes tokens.
    #[error("this server is open and takes no tokens; start it with `--auth jwt` for them")]
    Open,
}

/// Whose token to make, and what it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The user.
    pub user: UserId,
    /// The device; left out, it is `default`.
    pub device: Option<DeviceId>,
    /// What its owner may do beyond what every user may.
    pub scopes: Scopes,
    /// How long it holds.
    pub ttl: Duration,
}

/// A token, and when it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The token.
    pub token: String,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Names the user to an open server, where the query doesn't.
pub const USER_HEADER: &str = "x-gapless-user";
/// Names the device to an open server, where the query doesn't.
pub const DEVICE_HEADER: &str = "x-gapless-device";

impl Authenticator {
    /// One that goes by a configuration.
    pub fn new(config: AuthConfig) -> Self {
        Self(config)
    }

    /// Checks a token as of `now`.
    pub fn authenticate(&self, token: &str, now: Timestamp) -> Result<Identity, AuthError> {
        claims::verify(token, self.secrets()?.verifying(), now)
    }

    /// Makes a token that holds from `now` on.
    pub fn mint(&self, request: &TokenRequest, now: Timestamp) -> Result<Minted, AuthError> {
        let secret = self.secrets()?.signing().ok_or(AuthError::Invalid)?;
        claims::sign(request, secret, now)
    }

    /// Whether everyone is let in as whom they say they are.
    pub(crate) fn is_open(&self) -> bool {
        match self.0 {
            AuthConfig::Open => true,
            AuthConfig::Jwt(_) => false,
        }
    }

    fn identify(&self, parts: &Parts, now: Timestamp) -> Result<Identity, AuthError> {
        let token = credentials::token(parts);
        if self.is_open() {
            return named(parts).map_err(|error| match (error, token) {
                (AuthError::Unnamed, Some(_)) => AuthError::TokenInsteadOfName,
                (error, _) => error,
            });
        }
        self.authenticate(&token.ok_or(AuthError::Missing)?, now)
    }

    fn secrets(&self) -> Result<&Secrets, AuthError> {
        match &self.0 {
            AuthConfig::Open => Err(AuthError::Open),
            AuthConfig::Jwt(secrets) => Ok(secrets),
        }
    }
}

impl Identity {
    /// On whose authority they append: a backend's own, or the acting user's.
    pub fn authority(&self) -> Authority {
        if self.is_service() { Authority::Service } else { Authority::Member }
    }

    /// As whom they read: a backend sees everything, a user their part.
    pub fn reader(&self) -> Reader {
        match self.authority() {
            Authority::Service => Reader::Service,
            Authority::Member => Reader::User(self.user.clone()),
        }
    }

    /// Whether they may name others to act for, and choose the ids of conversations.
    pub fn acts_for_others(&self) -> bool {
        self.is_service() || self.rights == Rights::Open
    }

    /// The user they act for: themselves, or another whom they name and may.
    pub(crate) fn acting_for(&self, named: Option<UserId>) -> Result<UserId, Refusal> {
        match named {
            None => Ok(self.user.clone()),
            Some(user) if user == self.user || self.acts_for_others() => Ok(user),
            Some(_) => Err(Refusal::forbidden(
                "only a token with the scope `service` may act for another user; leave that user out, or make such a token \
                 with `gapless token --user NAME --scope service`",
            )),
        }
    }

    /// Whether they may trim, raise epochs and end connections.
    pub fn administers(&self) -> bool {
        match &self.rights {
            Rights::Scopes(scopes) => scopes.admin,
            Rights::Open => true,
        }
    }

    /// Refuses those who may not read all of some topics.
    pub(crate) fn check_reads(&self, topics: &[Topic]) -> Result<(), Refusal> {
        let readable = match &self.rights {
            Rights::Open => return Ok(()),
            Rights::Scopes(scopes) if scopes.service => return Ok(()),
            Rights::Scopes(scopes) => &scopes.readable,
        };
        match topics.iter().find(|topic| !readable.allows(topic.as_str())) {
            None => Ok(()),
            Some(topic) => Err(Refusal::new(
                ErrorCode::Forbidden,
                format!("the token may not read {topic}; it needs the scope `read:{topic}`"),
            )),
        }
    }

    /// Refuses those who may not read a table.
    pub(crate) fn check_reads_table(&self, table: &str) -> Result<(), Refusal> {
        let name = format!("table:{table}");
        match &self.rights {
            Rights::Open => Ok(()),
            Rights::Scopes(scopes) if scopes.service || scopes.readable.allows(&name) => Ok(()),
            Rights::Scopes(_) => {
                let message = format!("the token may not read {name}; it needs the scope `read:{name}`");
                Err(Refusal::new(ErrorCode::Forbidden, message))
            }
        }
    }

    /// The scopes of their token.
    pub fn scopes(&self) -> Scopes {
        match &self.rights {
            Rights::Scopes(scopes) => scopes.clone(),
            Rights::Open => Scopes::default(),
        }
    }

    fn is_service(&self) -> bool {
        match &self.rights {
            Rights::Scopes(scopes) => scopes.service,
            Rights::Open => false,
        }
    }
}

impl FromRequestParts<Arc<Gateway>> for Identity {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Self, Refusal> {
        Ok(gateway.authenticator().identify(parts, unix_now())?)
    }
}

/// Milliseconds since the Unix epoch, as this machine's clock has it.
pub(crate) fn unix_now() -> Timestamp {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    Timestamp::new(millis).unwrap_or_default()
}

/// Who a request to an open server says it is from.
fn named(parts: &Parts) -> Result<Identity, AuthError> {
    let user = credentials::name(parts, "user", USER_HEADER).ok_or(AuthError::Unnamed)?;
    let device = credentials::name(parts, "device", DEVICE_HEADER);
    Ok(Identity {
        user: UserId::new(&user).map_err(AuthError::Name)?,
        device: device
            .map_or_else(|| Ok(default_device()), |device| DeviceId::new(&device))
            .map_err(AuthError::Name)?,
        expires_at: None,
        rights: Rights::Open,
    })
}

fn default_device() -> DeviceId {
    DeviceId::new("default").expect("a plain word is an id")
}
