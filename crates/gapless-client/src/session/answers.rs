//! What a session makes of each frame.

use std::time::{Duration, Instant};

use gapless_core::{FeedReader, SyncRequest};
use gapless_proto::{
    ConvId, Epoch, ErrorCode, ErrorReply, Event, Notice, NoticeCode, Page, Position, Rid, Sent, Seq,
};

use super::lifecycle::RECONNECT_AFTER_MAX;
use super::persisting::Consequence;
use super::requests::Request;
use super::{Command, Session};
use crate::{Change, ClientEvent, Delivered, DisconnectReason, Fault};

impl Session {
    pub(super) fn handle_sent(&mut self, sent: Sent) {
        let Some(Request::Send(id)) = self.take_request(sent.rid) else {
            return;
        };
        let Some(message) = self.outbox.remove(id) else {
            return;
        };
        self.persist(Change::Dequeue(id), Consequence::None);
        self.report(ClientEvent::Sent(Delivered {
            id,
            conv: message.conv,
            key: message.key,
            seq: sent.seq,
            epoch: sent.epoch,
            ts: sent.ts,
            duplicate: sent.duplicate,
        }));
    }

    pub(super) fn handle_page(&mut self, rid: Rid, page: Page, now: Instant) {
        let Some(Request::Sync { conv, asked }) = self.take_request(rid) else {
            return;
        };
        self.page_limit = self.page_limit.saturating_mul(2).min(self.config.page_limit);
        let head = Position { epoch: page.epoch, seq: page.head };
        let is_news = self.feeds.position(&conv).is_none_or(|held| held < head);
        let mut outcome = Ok(());
        self.with_feed(&conv, None, now, |reader| outcome = reader.handle_page(asked, page, now));
        match outcome {
            Ok(()) if is_news => {}
            Ok(()) => self.report(ClientEvent::UpToDate { conv }),
            Err(error) => self.report_fault(Fault::BadPage { conv, error }),
        }
    }

    pub(super) fn handle_event(&mut self, event: Event, now: Instant) {
        let Event { conv, epoch, entry } = event;
        self.discover(&conv, now);
        self.with_feed(&conv, None, now, |reader| reader.handle_event(epoch, entry, now));
    }

    pub(super) fn handle_hint(&mut self, conv: &ConvId, epoch: Epoch, head: Seq, now: Instant) {
        self.discover(conv, now);
        self.with_feed(conv, None, now, |reader| reader.handle_hint(epoch, head, now));
    }

    pub(super) fn handle_renewed(&mut self, rid: Rid) {
        self.take_request(rid);
    }

    pub(super) fn handle_error(&mut self, error: ErrorReply, now: Instant) {
        let request = error.rid.and_then(|rid| self.take_request(rid));
        match request {
            Some(Request::Send(id)) if ends_the_connection(error.code) => {
                self.needs_fresh_token |= error.code == ErrorCode::Unauthenticated;
                let ErrorReply { code, message, retry_after_ms, .. } = error;
                tracing::debug!(%id, ?code, "a send failed for now");
                let retry_after = retry_after_ms.map(Duration::from_millis);
                self.give_up(DisconnectReason::SendFailed { code, message }, retry_after, now);
            }
            Some(Request::Send(id)) => self.refuse_send(id, error.code, error.message),
            Some(Request::Subscribe(id)) => self.handle_topics_refused(id, error, now),
            Some(Request::Sync { conv, asked }) => self.handle_sync_refused(&conv, asked, &error, now),
            // The server ends the connection when the token that it has expires.
            Some(Request::Renew) | None => {
                let ErrorReply { code, message, .. } = error;
                self.report_fault(Fault::Complaint { code, message });
            }
        }
    }

    pub(super) fn handle_notice(&mut self, notice: &Notice) {
        match notice.code {
            NoticeCode::Draining => {
                let delay = notice.reconnect_after_ms.map(Duration::from_millis);
                if let Some(live) = self.connection.live() {
                    live.reconnect_after = delay.map(|delay| delay.min(RECONNECT_AFTER_MAX));
                }
            }
            NoticeCode::TokenExpiring if self.config.token_is_renewable => {
                self.commands.push_back(Command::FetchToken);
            }
            NoticeCode::TokenExpiring => {
                let expires_in = Duration::from_millis(notice.expires_in_ms.unwrap_or_default());
                self.report(ClientEvent::TokenExpiring { expires_in });
            }
            NoticeCode::Unknown => {}
        }
    }

    fn handle_sync_refused(&mut self, conv: &ConvId, asked: SyncRequest, error: &ErrorReply, now: Instant) {
        let retry_after = error.retry_after_ms.map(Duration::from_millis);
        self.with_feed(conv, Some(&error.message), now, |reader| {
            reader.handle_sync_refused(asked, error.code, retry_after, now);
        });
    }

    /// Follows a conversation that the server has news of.
    fn discover(&mut self, conv: &ConvId, now: Instant) {
        if !self.feeds.discovers() {
            return;
        }
        match self.feeds.watch(conv, Seq::ZERO) {
            Ok(true) => self.with_feed(conv, None, now, FeedReader::handle_connected),
            Ok(false) => {}
            Err(super::feeds::TooMany) => {
                self.report_fault(Fault::TooManyConversations { conv: conv.clone() });
            }
        }
    }

    pub(super) fn take_request(&mut self, rid: Rid) -> Option<Request> {
        self.connection.live()?.requests.remove(rid)
    }
}

/// Whether a failed send may succeed later, so that nothing behind it may overtake it.
fn ends_the_connection(code: ErrorCode) -> bool {
    match code {
        ErrorCode::RateLimited
        | ErrorCode::Unavailable
        | ErrorCode::Internal
        | ErrorCode::Unauthenticated => true,
        ErrorCode::BadRequest
        | ErrorCode::Forbidden
        | ErrorCode::NotFound
        | ErrorCode::CursorAhead
        | ErrorCode::EpochChanged
        | ErrorCode::CursorExpired
        | ErrorCode::CursorInvalid
        | ErrorCode::KeyConflict
        | ErrorCode::TooLarge
        | ErrorCode::MissingParent
        | ErrorCode::DeepReorg
        | ErrorCode::Unknown => false,
    }
}
