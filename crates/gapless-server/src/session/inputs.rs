//! All that can wake a session.

use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::StreamExt as _;
use gapless_proto::CloseCode;
use gapless_store::StoreError;

use super::work::Done;
use super::{Session, State, now};
use crate::mailbox::Order;
use crate::socket::Incoming;

/// How many sends of one connection may be under way; while there are as many, nothing is read from it.
const SENDS_MAX: usize = 64;

/// Something happened.
pub(super) enum Input {
    /// Someone wants the session to end.
    Order(Order),
    /// The user's conversations were read.
    Loaded(Result<(), StoreError>),
    /// The store has answered.
    Done(Done),
    /// Something came from the peer.
    Incoming(Incoming),
    /// A timer fired.
    Timeout,
    /// All answers were taken, and syncs may be started that waited for this.
    Answered,
    /// All that was under way is answered and written.
    Finished(CloseCode),
}

/// Who goes first when the socket can be read and written: they take turns, so that neither a flood of pushes keeps the
/// peer's acks waiting nor a flood of requests its pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Read,
    Write,
}

impl Session {
    /// The next input: orders first, then what the store has answered, then the peer, then time.
    pub(super) fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        if let Poll::Ready(order) = self.registration.session().mailbox().poll_order(context) {
            return Poll::Ready(Input::Order(order));
        }
        if let State::Loading(loading) = &mut self.state
            && let Poll::Ready(loaded) = loading.as_mut().poll(context)
        {
            return Poll::Ready(Input::Loaded(loaded));
        }
        if let Poll::Ready(Some(done)) = self.work.poll_next_unpin(context) {
            return Poll::Ready(Input::Done(done));
        }
        if let Poll::Ready(input) = self.poll_socket(context) {
            return Poll::Ready(input);
        }
        self.poll_timer(context).map(|()| Input::Timeout)
    }

    /// Whether requests are read at the moment, as far as it is for us to say.
    pub(super) fn listens(&self) -> bool {
        match self.state {
            State::Serving => self.pipelines.sends() < SENDS_MAX && self.syncs.has_room(),
            State::Loading(_) | State::Finishing(_) => false,
        }
    }

    fn poll_socket(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        loop {
            match self.socket.poll_write(context) {
                Poll::Ready(Ok(())) => {
                    if self.stall.handle_free() {
                        self.heartbeat.handle_received(now());
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Input::Incoming(Incoming::HangUp)),
                Poll::Pending => {
                    let now = now();
                    if self.stall.handle_blocked(self.socket.taken(), now) {
                        self.heartbeat.handle_received(now);
                    }
                    self.subscriptions.check_overrun(context, self.gateway.config().session.delivery);
                    return Poll::Pending;
                }
            }
            if self.turn == Turn::Write {
                self.turn = Turn::Read;
                if self.fill_batch(context) {
                    continue;
                }
            }
            // While answers wait to be taken, no further requests are read: a peer that asks without reading costs nothing.
            if self.listens()
                && self.answers.is_empty()
                && let Poll::Ready(incoming) = self.socket.poll_read(context)
            {
                self.turn = Turn::Write;
                return Poll::Ready(Input::Incoming(incoming));
            }
            if !self.fill_batch(context) {
                return self.poll_written();
            }
        }
    }

    /// Hands the socket what waits, as far as it has room. Returns whether there was anything.
    fn fill_batch(&mut self, context: &mut Context<'_>) -> bool {
        let mut filled = false;
        while self.socket.has_room()
            && let Some(frame) = self.next_outgoing(context)
        {
            self.socket.push(frame);
            filled = true;
        }
        filled
    }

    /// What follows from nothing being left to write.
    fn poll_written(&self) -> Poll<Input> {
        match self.state {
            State::Finishing(code) if self.work.is_empty() => Poll::Ready(Input::Finished(code)),
            State::Serving if self.syncs.may_start() => Poll::Ready(Input::Answered),
            State::Loading(_) | State::Serving | State::Finishing(_) => Poll::Pending,
        }
    }

    /// The session's only timer. It is left alone when the time it waits for has moved further away, as it does with every
    /// frame, so that a busy connection doesn't rearm it all the time.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.due();
        if self.timer.is_elapsed() || due < self.timer.deadline().into_std() {
            self.timer.as_mut().reset(due.into());
        }
        self.timer.as_mut().poll(context)
    }

    fn due(&self) -> Instant {
        let stalled = self.stall.poll_timeout(self.config().write_stall_max);
        let due = [Some(self.heartbeat.poll_timeout()), stalled, self.expiry.poll_timeout()];
        due.into_iter().flatten().fold(self.heartbeat.poll_timeout(), Instant::min)
    }
}
