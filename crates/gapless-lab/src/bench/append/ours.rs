//! Appends through the store.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered, TryStreamExt as _};
use gapless_core::{Append, Authority, History, Operation};
use gapless_proto::{Body, ConvId, Key, UserId};
use gapless_store::{Creation, Store};
use tokio::task::JoinSet;

use super::Load;
use crate::bench::rows;

/// How many conversations are created at the same time.
const CREATIONS_AT_ONCE: usize = 32;

/// Creates the conversations. One that all write to has all senders as members, each of many has its own.
pub(super) async fn create_conversations(store: &Arc<dyn Store>, load: Load) -> anyhow::Result<()> {
    let creations = (0..load.conversations).map(async |number| -> anyhow::Result<()> {
        let user = |number| UserId::new(&rows::sender(number));
        let conv = ConvId::new(&rows::conversation(number))?;
        let members = if load.conversations == 1 { 1..load.senders } else { 0..0 };
        let members = members.map(user).collect::<Result<_, _>>()?;
        let creator = user(rows::owner(number, load.senders))?;
        store.create(Creation { conv, creator, members, history: History::FromJoin }).await?;
        Ok(())
    });
    stream::iter(creations).buffer_unordered(CREATIONS_AT_ONCE).try_collect().await
}

/// Lets all senders send for one round, each with `window` sends under way. Returns how many were acknowledged a second.
pub(super) async fn rate(store: &Arc<dyn Store>, load: Load, window: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut senders = JoinSet::new();
    for number in 0..load.senders {
        let sender = Sender::new(number, load, Arc::clone(store))?;
        senders.spawn(sender.send_until(start + load.round, window));
    }
    let mut acknowledged = 0;
    while let Some(sent) = senders.join_next().await {
        acknowledged += sent??;
    }
    Ok(acknowledged as f64 / start.elapsed().as_secs_f64())
}

struct Sender {
    user: UserId,
    /// Those that it sends to, in turns.
    conversations: Vec<ConvId>,
    body: Body,
    store: Arc<dyn Store>,
}

impl Sender {
    fn new(number: usize, load: Load, store: Arc<dyn Store>) -> anyhow::Result<Self> {
        let is_own =
            |conversation| load.conversations == 1 || rows::owner(conversation, load.senders) == number;
        let own = (0..load.conversations).filter(|number| is_own(*number));
        Ok(Self {
            user: UserId::new(&rows::sender(number))?,
            conversations: own
                .map(|number| ConvId::new(&rows::conversation(number)))
                .collect::<Result<_, _>>()?,
            body: Body::from_text(rows::BODY.to_owned())?,
            store,
        })
    }

    async fn send_until(self, deadline: Instant, window: usize) -> anyhow::Result<u64> {
        let mut conversations = self.conversations.iter().cycle();
        let mut under_way = FuturesUnordered::new();
        let mut acknowledged = 0;
        while Instant::now() < deadline {
            while under_way.len() < window {
                let Some(conv) = conversations.next() else { return Ok(0) };
                under_way.push(self.send(conv));
            }
            if let Some(outcome) = under_way.next().await {
                outcome?;
                acknowledged += 1;
            }
        }
        while let Some(outcome) = under_way.next().await {
            outcome?;
            acknowledged += 1;
        }
        Ok(acknowledged)
    }

    async fn send(&self, conv: &ConvId) -> anyhow::Result<()> {
        let key = Key::new(&rows::fresh_key())?;
        let operation = Operation::Message { sender: self.user.clone(), key, body: self.body.clone() };
        let append = Append { conv: conv.clone(), authority: Authority::Member, operation };
        self.store.append(append, None).await?;
        Ok(())
    }
}
