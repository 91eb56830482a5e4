//! What others leave for one session: entries, hints, and orders to end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use gapless_core::{Delivery, DeliveryConfig, Outgoing};
use gapless_proto::{CloseCode, ConvId, Position};

use crate::socket::Frame;

/// Holds what the hub has for a session until its socket takes it, and wakes the session.
///
/// Anyone may put something in and never waits; only the session takes out.
pub(crate) struct Mailbox {
    contents: Mutex<Contents>,
    waker: AtomicWaker,
}

struct Contents {
    delivery: Delivery<Frame>,
    order: Option<Order>,
}

/// What a session must do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Tell the peer to come back after a while, finish what is in flight, then close.
    Drain {
        /// When to come back.
        reconnect_after: Duration,
    },
    /// Close now.
    End(CloseCode),
}

impl Mailbox {
    pub(crate) fn new(config: DeliveryConfig) -> Self {
        Self {
            contents: Mutex::new(Contents { delivery: Delivery::new(config), order: None }),
            waker: AtomicWaker::new(),
        }
    }

    /// Queues an entry. Returns whether the queue overflowed because of it.
    pub(crate) fn push(&self, conv: ConvId, position: Position, frame: Frame) -> bool {
        let overflowed = {
            let mut contents = self.contents();
            let overflows = contents.delivery.overflows();
            let bytes = frame.len();
            contents.delivery.handle_event(conv, position, frame, bytes);
            contents.delivery.overflows() > overflows
        };
        self.waker.wake();
        overflowed
    }

    /// Queues a hint.
    pub(crate) fn hint(&self, conv: ConvId, position: Position) {
        self.contents().delivery.handle_hint(conv, position);
        self.waker.wake();
    }

    /// Leaves an order. An order to end stands, whatever comes later.
    pub(crate) fn order(&self, order: Order) {
        {
            let mut contents = self.contents();
            if !matches!(contents.order, Some(Order::End(_))) {
                contents.order = Some(order);
            }
        }
        self.waker.wake();
    }

    /// Takes the order, if there is one; otherwise has the task woken by whatever comes next.
    pub(crate) fn poll_order(&self, context: &Context<'_>) -> Poll<Order> {
        self.waker.register(context.waker());
        match self.contents().order.take() {
            Some(order) => Poll::Ready(order),
            None => Poll::Pending,
        }
    }

    /// Takes what to write next.
    pub(crate) fn poll_outgoing(&self) -> Option<Outgoing<Frame>> {
        self.contents().delivery.poll_outgoing()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
