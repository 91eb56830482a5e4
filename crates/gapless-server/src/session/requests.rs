//! What a client asks, and what it is answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use gapless_core::{Append, Appended, Authority, Operation};
use gapless_proto::{
    Body, ClientMessage, CloseCode, ConvId, Epoch, ErrorCode, Key, Page, Rid, Sent, Seq, ServerMessage, Sub,
    Subscribe, Subscribed, Timestamp, decode_client_message,
};
use gapless_store::{AppendError, PAGE_ENTRIES_DEFAULT, PageError, PageRequest, Reader};
use tracing::debug;

use super::expiry::Expiry;
use super::work::{self, Done};
use super::{End, Session};
use crate::auth::unix_now;
use crate::page_size::shortened;
use crate::refusal::Refusal;
use crate::subscription::{Begun, Wanted};

/// After how many malformed frames in a row a peer is taken for something else than a client.
const MALFORMED_IN_A_ROW_MAX: u32 = 10;
/// How much of an error's text a peer is told; some repeat what the peer sent.
const MESSAGE_CHARS_MAX: usize = 300;

impl Session {
    pub(super) fn handle_frame(&mut self, text: &str, now: Instant) -> ControlFlow<End> {
        let message = match decode_client_message(text) {
            Ok(message) => message,
            Err(error) => {
                let text = error.kind.to_string().chars().take(MESSAGE_CHARS_MAX).collect::<String>();
                self.refuse(error.rid, Refusal::bad_request(text));
                self.malformed_in_a_row += 1;
                if self.malformed_in_a_row == MALFORMED_IN_A_ROW_MAX {
                    return ControlFlow::Break(End::Close(CloseCode::ProtocolError));
                }
                return ControlFlow::Continue(());
            }
        };
        self.malformed_in_a_row = 0;
        match message {
            ClientMessage::Send { rid, conv, key, body } => self.send(rid, conv, key, body),
            ClientMessage::Sync { rid, conv, after, limit, epoch } => {
                self.sync(rid, conv, after, limit, epoch);
            }
            ClientMessage::Ack { conv, cursor, epoch } => {
                self.registration.hub().handle_ack(self.registration.session(), &conv, cursor, epoch);
            }
            ClientMessage::Renew { rid, token } => self.renew(rid, &token, now),
            ClientMessage::Subscribe(subscribe) => {
                let rid = subscribe.rid;
                if let Err(refusal) = self.subscribe(subscribe) {
                    self.refuse(Some(rid), refusal);
                }
            }
            ClientMessage::Unsubscribe { rid, sub } => self.unsubscribe(rid, sub),
            ClientMessage::Ping => self.answer(&ServerMessage::Pong),
            ClientMessage::Pong => {}
        }
        ControlFlow::Continue(())
    }

    pub(super) fn handle_done(&mut self, done: Done) {
        match done {
            Done::Subscribe { rid, outcome } => self.handle_begun(rid, outcome),
            Done::Send { rid, conv, outcome, took } => self.handle_sent(rid, conv, outcome, took),
            Done::Sync { rid, conv, outcome, took } => self.handle_page(rid, conv, outcome, took),
        }
    }

    fn send(&mut self, rid: Rid, conv: ConvId, key: Key, body: Body) {
        let bytes_max = self.config().body_bytes_max;
        if body.as_str().len() > bytes_max {
            return self.refuse(Some(rid), Refusal::too_large(bytes_max));
        }
        let store = Arc::clone(self.gateway.store());
        let generation = self.pipelines.begin(&conv, store.generation(&conv));
        let operation = Operation::Message { sender: self.identity.user.clone(), key, body };
        let append = Append { conv, authority: Authority::Member, operation };
        let mut send = Box::pin(work::send(store, rid, append, generation));
        // The first poll gives the append its place, before another frame is read: so sends take effect in the order in which they came.
        match send.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => self.handle_done(done),
            Poll::Pending => self.work.push(send),
        }
    }

    fn handle_sent(
        &mut self,
        rid: Rid,
        conv: ConvId,
        outcome: Result<Appended, AppendError>,
        took: Duration,
    ) {
        self.pipelines.end(&conv);
        self.gateway.meters().count_send(&outcome, took);
        match outcome {
            Ok(Appended { position, ts, duplicate }) => {
                let sent = Sent { rid, conv, seq: position.seq, epoch: position.epoch, ts, duplicate };
                self.answer(&ServerMessage::Sent(sent));
            }
            Err(error) => self.handle_send_failed(rid, Refusal::from(error)),
        }
    }

    /// After a send that failed for a passing reason, none after it may succeed on this connection: the client will send it again,
    /// and it would come after them. So nothing more is read; what is under way is answered; and the client comes back and
    /// sends all that is unanswered in order.
    fn handle_send_failed(&mut self, rid: Rid, refusal: Refusal) {
        let is_passing = refusal.code.is_retryable();
        self.refuse(Some(rid), refusal);
        if is_passing {
            self.finish(CloseCode::Unavailable);
        }
    }

    fn sync(&mut self, rid: Rid, conv: ConvId, after: Seq, limit: Option<u32>, epoch: Option<Epoch>) {
        let request = PageRequest {
            conv,
            reader: Reader::User(self.identity.user.clone()),
            after,
            epoch,
            limit: limit.unwrap_or(PAGE_ENTRIES_DEFAULT),
        };
        self.syncs.handle_sync(rid, request);
        self.start_syncs();
    }

    /// Starts what may run. Call it only while no answer waits to be taken, so that a peer which doesn't read costs no more than the
    /// pages of the syncs that run.
    pub(super) fn start_syncs(&mut self) {
        while let Some((rid, request)) = self.syncs.poll_start() {
            self.work.push(Box::pin(work::sync(Arc::clone(self.gateway.store()), rid, request)));
        }
    }

    fn subscribe(&mut self, subscribe: Subscribe) -> Result<(), Refusal> {
        let Subscribe { rid, topics, cursor, mode, snapshot } = subscribe;
        if !self.subscriptions.has_room() {
            let message =
                "this connection has as many subscriptions as it may; end one, or put topics together";
            return Err(Refusal::bad_request(message));
        }
        self.identity.check_reads(&topics)?;
        let wanted = Wanted::new(&topics, cursor, mode, snapshot.unwrap_or_default())?;
        self.subscriptions.handle_beginning();
        self.work.push(Box::pin(work::subscribe(Arc::clone(&self.gateway), rid, wanted)));
        Ok(())
    }

    fn handle_begun(&mut self, rid: Rid, outcome: Result<Begun, Refusal>) {
        // The token may be another one by now.
        let outcome =
            outcome.and_then(|begun| self.identity.check_reads(&begun.subscription.topics()).map(|()| begun));
        match outcome {
            Ok(Begun { subscription, cursor }) => {
                let Some(sub) = self.subscriptions.handle_begun(Some(subscription)) else { return };
                self.answer(&ServerMessage::Subscribed(Subscribed { rid, sub, cursor }));
            }
            Err(refusal) => {
                self.subscriptions.handle_begun(None);
                self.refuse(Some(rid), refusal);
            }
        }
    }

    fn unsubscribe(&mut self, rid: Rid, sub: Sub) {
        if self.subscriptions.end(sub) {
            self.answer(&ServerMessage::Unsubscribed { rid, sub });
        } else {
            let message = "there is no such subscription on this connection; it may have ended with a reset";
            self.refuse(Some(rid), Refusal::new(ErrorCode::NotFound, message));
        }
    }

    fn handle_page(&mut self, rid: Rid, conv: ConvId, outcome: Result<Page, PageError>, took: Duration) {
        let outcome = outcome.map(shortened);
        self.gateway.meters().count_page(&outcome, took);
        match outcome {
            Ok(page) => self.answer(&ServerMessage::Page { rid, conv, page }),
            Err(error) => self.refuse(Some(rid), Refusal::from(error)),
        }
        self.syncs.handle_done();
    }

    fn renew(&mut self, rid: Rid, token: &str, now: Instant) {
        let wall_now = unix_now();
        let identity = match self.gateway.authenticator().authenticate(token, wall_now) {
            Ok(identity) => identity,
            Err(error) => return self.refuse(Some(rid), Refusal::from(error)),
        };
        if identity.user != self.identity.user || identity.device != self.identity.device {
            let refusal = Refusal::forbidden("the token is of another user or device; connect anew with it");
            return self.refuse(Some(rid), refusal);
        }
        if let Err(refusal) = identity.check_reads(&self.subscriptions.topics()) {
            return self.refuse(Some(rid), refusal);
        }
        debug!("renewed");
        self.expiry = Expiry::new(identity.expires_at, wall_now, now);
        let expires_at = identity.expires_at.unwrap_or(Timestamp::MAX);
        self.identity = identity;
        self.answer(&ServerMessage::Renewed { rid, expires_at });
    }
}
