//! What a reader has subscribed to, whichever kind of feed it is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use gapless_core::DeliveryConfig;
use gapless_proto::{Cursor, Mode, Topic};

use crate::chains::{self, TopicName};
use crate::gateway::Gateway;
use crate::live_tables;
use crate::refusal::Refusal;
use crate::told::Told;

/// What a reader wants to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Topics of a chain.
    Chain(chains::Begin),
    /// A table.
    Table(live_tables::Begin),
}

/// One subscription under way, as a stream that ends with a reset. Whoever doesn't poll it costs nothing.
pub(crate) enum Subscription {
    /// Of topics of a chain.
    Chain(Box<chains::Follow>),
    /// Of a table.
    Table(Box<live_tables::Follow>),
}

/// A subscription that has begun.
pub(crate) struct Begun {
    pub(crate) subscription: Subscription,
    /// Where it begins.
    pub(crate) cursor: Cursor,
}

/// What stands before the name of a table in that of its topic.
const TABLE: &str = "table:";

impl Wanted {
    /// Reads what is asked for: topics of one chain, or one table.
    pub(crate) fn new(
        topics: &[Topic],
        cursor: Option<Cursor>,
        mode: Option<Mode>,
        snapshot: bool,
    ) -> Result<Self, Refusal> {
        let Some(table) = topics.iter().find_map(|topic| topic.as_str().strip_prefix(TABLE)) else {
            let (chain, topics) = TopicName::parse_all(topics)?;
            let mode = mode.unwrap_or_default();
            return Ok(Self::Chain(chains::Begin { chain, topics, cursor, mode, snapshot }));
        };
        if topics.len() > 1 {
            let message = "a subscription to a table has no other topic; subscribe to each table apart";
            return Err(Refusal::bad_request(message));
        }
        if mode == Some(Mode::Confirmed) {
            return Err(Refusal::bad_request(
                "rows of a table are told at once, and never taken back; ask without `confirmed`",
            ));
        }
        Ok(Self::Table(live_tables::Begin { table: table.to_owned(), cursor, snapshot }))
    }

    /// Finds where the reader goes on. A position that can't be served is one reset, and then the stream's end.
    pub(crate) async fn begin(self, gateway: &Arc<Gateway>) -> Result<Begun, Refusal> {
        Ok(match self {
            Self::Chain(begin) => {
                let (follow, cursor) = begin.begin(gateway.chains()).await?;
                Begun { subscription: Subscription::Chain(Box::new(follow)), cursor }
            }
            Self::Table(begin) => {
                let (follow, cursor) = begin.begin(gateway).await?;
                Begun { subscription: Subscription::Table(Box::new(follow)), cursor }
            }
        })
    }
}

impl Subscription {
    /// The whole names of its topics.
    pub(crate) fn topics(&self) -> Vec<Topic> {
        match self {
            Self::Chain(follow) => follow.topics().collect(),
            Self::Table(follow) => vec![follow.topic().clone()],
        }
    }

    /// Drops what waits for a peer that takes nothing, where it is too much. Of a table nothing waits: who falls behind reads it anew.
    pub(crate) fn check_overrun(&mut self, context: &Context<'_>, config: DeliveryConfig) {
        match self {
            Self::Chain(follow) => {
                follow.check_overrun(context, config.queued_frames_max, config.queued_bytes_max);
            }
            Self::Table(_) => {}
        }
    }
}

impl Stream for Subscription {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Told>> {
        match &mut *self {
            Self::Chain(follow) => Pin::new(&mut **follow).poll_next(context),
            Self::Table(follow) => Pin::new(&mut **follow).poll_next(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use gapless_proto::ErrorCode;

    use super::*;

    fn wanted(names: &[&str], mode: Option<Mode>) -> Result<Wanted, Refusal> {
        let topics: Vec<Topic> = names.iter().map(|name| Topic::new(name).unwrap()).collect();
        Wanted::new(&topics, None, mode, false)
    }

    #[test]
    fn a_table_is_subscribed_to_alone_and_without_a_mode() {
        let begin = live_tables::Begin { table: "orders".to_owned(), cursor: None, snapshot: false };
        for mode in [None, Some(Mode::Instant)] {
            assert_eq!(wanted(&["table:orders"], mode).unwrap(), Wanted::Table(begin.clone()));
        }
        assert!(matches!(wanted(&["chain:1:a", "chain:1:b"], Some(Mode::Confirmed)), Ok(Wanted::Chain(_))));
        for names in [["table:orders", "table:users"], ["chain:1:a", "table:users"]] {
            let refusal = wanted(&names, None).unwrap_err();
            assert!(refusal.message.contains("apart"), "{refusal:?}");
        }
        let refusal = wanted(&["table:orders"], Some(Mode::Confirmed)).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::BadRequest);
    }
}
