//! The subscriptions of one connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream as _;
use gapless_core::DeliveryConfig;
use gapless_proto::{Sub, Topic};

use crate::socket::Frame;
use crate::subscription::Subscription;

/// How many subscriptions a connection may have, those that are about to begin included.
const SUBSCRIPTIONS_MAX: usize = 64;

/// The subscriptions of one connection, which take turns.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// The number of the newest.
    newest: u32,
    /// How many are about to begin.
    beginning: usize,
    all: VecDeque<(Sub, Subscription)>,
}

impl Subscriptions {
    /// Whether another one may come.
    pub(super) fn has_room(&self) -> bool {
        self.all.len() + self.beginning < SUBSCRIPTIONS_MAX
    }

    /// One is about to begin.
    pub(super) fn handle_beginning(&mut self) {
        self.beginning += 1;
    }

    /// One that was about to begin does, or doesn't. Returns its number if it does.
    pub(super) fn handle_begun(&mut self, subscription: Option<Subscription>) -> Option<Sub> {
        self.beginning -= 1;
        let subscription = subscription?;
        self.newest += 1;
        let sub = Sub::new(self.newest);
        self.all.push_back((sub, subscription));
        Some(sub)
    }

    /// Ends one. Returns whether there was one of that number.
    pub(super) fn end(&mut self, ended: Sub) -> bool {
        let before = self.all.len();
        self.all.retain(|(sub, _)| *sub != ended);
        self.all.len() < before
    }

    /// The whole names of the topics that are followed.
    pub(super) fn topics(&self) -> Vec<Topic> {
        self.all.iter().flat_map(|(_, subscription)| subscription.topics()).collect()
    }

    /// Takes what to tell next; otherwise has the task woken when there is something.
    pub(super) fn poll_told(&mut self, context: &mut Context<'_>) -> Poll<Frame> {
        for _ in 0..self.all.len() {
            let Some((sub, mut subscription)) = self.all.pop_front() else { break };
            let told = Pin::new(&mut subscription).poll_next(context);
            if !matches!(told, Poll::Ready(None)) {
                self.all.push_back((sub, subscription));
            }
            if let Poll::Ready(Some(told)) = told {
                return Poll::Ready(told.frame(sub));
            }
        }
        Poll::Pending
    }

    /// Drops what waits for a peer that takes nothing, where it is too much.
    pub(super) fn check_overrun(&mut self, context: &Context<'_>, config: DeliveryConfig) {
        for (_, subscription) in &mut self.all {
            subscription.check_overrun(context, config);
        }
    }
}
