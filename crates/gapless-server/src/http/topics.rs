//! Which topics a request is about, and from where on.

use gapless_proto::{Cursor, Mode, Topic};

use super::query::Query;
use crate::auth::Identity;
use crate::refusal::Refusal;

/// What somebody wants to be told who may be told of it.
pub(super) struct TopicsQuery {
    pub(super) topics: Vec<Topic>,
    pub(super) cursor: Option<Cursor>,
    pub(super) mode: Option<Mode>,
}

impl TopicsQuery {
    /// Takes `topics`, `cursor` and `mode` out of a query.
    pub(super) fn take(query: &mut Query, identity: &Identity) -> Result<Self, Refusal> {
        let names: Option<String> = query.take("topics")?;
        let cursor: Option<String> = query.take("cursor")?;
        let mode: Option<String> = query.take("mode")?;
        let names = names.unwrap_or_default();
        let topics = names.split(',').filter(|name| !name.is_empty()).map(Topic::new);
        let topics: Vec<Topic> =
            topics.collect::<Result<_, _>>().map_err(|error| Refusal::bad_request(error.to_string()))?;
        identity.check_reads(&topics)?;
        let mode = match mode.as_deref() {
            None => None,
            Some("instant") => Some(Mode::Instant),
            Some("confirmed") => Some(Mode::Confirmed),
            Some(_) => return Err(Refusal::bad_request("the parameter `mode` is `instant` or `confirmed`")),
        };
        let cursor = cursor.map(|cursor| read_cursor(&cursor)).transpose()?;
        Ok(Self { topics, cursor, mode })
    }
}

/// Reads a cursor, as far as that can be said without its chain.
pub(super) fn read_cursor(text: &str) -> Result<Cursor, Refusal> {
    Cursor::new(text).map_err(|error| Refusal::bad_request(error.to_string()))
}
