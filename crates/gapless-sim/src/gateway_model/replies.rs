//! What a gateway says.

use std::time::Duration;

use gapless_core::AppendRefusal;
use gapless_proto::{
    DeviceId, ErrorCode, ErrorReply, Notice, NoticeCode, Rid, ServerMessage, SessionId, UserId, Welcome,
};

use crate::names::LinkNo;

pub(crate) fn welcome(link: LinkNo, user: UserId, heartbeat: Duration) -> ServerMessage {
    ServerMessage::Welcome(Welcome {
        user,
        device: DeviceId::new("any").expect("it is an id"),
        session: SessionId::new(&format!("s-{}", link.0)).expect("it is an id"),
        heartbeat_ms: u64::try_from(heartbeat.as_millis()).expect("it is short"),
        body_bytes_max: 1_000,
        expires_at: None,
    })
}

pub(crate) fn draining(link: LinkNo) -> ServerMessage {
    ServerMessage::Notice(Notice {
        code: NoticeCode::Draining,
        reconnect_after_ms: Some(1_000 + 100 * (link.0 % 10)),
        expires_in_ms: None,
    })
}

pub(crate) fn error(rid: Rid, code: ErrorCode) -> ServerMessage {
    let message = "refused".to_owned();
    ServerMessage::Error(ErrorReply { rid: Some(rid), code, message, retry_after_ms: None })
}

pub(crate) fn refusal(rid: Rid, refusal: &AppendRefusal) -> ServerMessage {
    let code = match refusal {
        AppendRefusal::NotFound | AppendRefusal::NeverMember => ErrorCode::NotFound,
        AppendRefusal::NoLongerMember | AppendRefusal::NotAllowed => ErrorCode::Forbidden,
        AppendRefusal::KeyConflict { .. } => ErrorCode::KeyConflict,
    };
    error(rid, code)
}
