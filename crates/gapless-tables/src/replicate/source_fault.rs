//! Why a server gave no answer that can be used, and what that means.

use std::time::Duration;

use gapless_proto::ErrorCode;

use super::page::PageError;
use super::source_client::ANSWER_BYTES_MAX;

/// Why a server gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// Nobody answers, or the answer breaks off.
    #[error("can't reach {server}: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The server refuses.
    #[error("{message} ({code})")]
    Refused {
        /// What kind of refusal.
        code: ErrorCode,
        /// What the server says about it.
        message: String,
        /// When to ask again.
        retry_after: Option<Duration>,
    },
    /// The answer isn't one of this protocol.
    #[error("{server} answers {what}; is that a gapless server?")]
    Strange {
        /// The server.
        server: String,
        /// What it answers.
        what: String,
        /// Whether it may be a passing fault of something between.
        is_passing: bool,
    },
    /// A page is broken.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A page is larger than any should be.
    #[error("an answer has more than {} MiB; a row may be too large to be copied", ANSWER_BYTES_MAX >> 20)]
    TooLarge,
}

impl SourceFault {
    /// Its name in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Refused { .. } => "refused",
            Self::Strange { .. } => "strange",
            Self::Page(_) => "broken_page",
            Self::TooLarge => "too_large",
        }
    }

    /// Whether the same question may be answered later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => code.is_retryable(),
            Self::Strange { is_passing, .. } => *is_passing,
            Self::Page(PageError::Cut | PageError::TooLong | PageError::Head) => true,
            Self::Page(PageError::Fields { .. } | PageError::Op { .. }) | Self::TooLarge => false,
        }
    }

    /// Whether the server can't go on from the cursor.
    pub fn is_about_the_cursor(&self) -> bool {
        match self {
            Self::Refused { code, .. } => {
                matches!(code, ErrorCode::CursorInvalid | ErrorCode::EpochChanged | ErrorCode::CursorExpired)
            }
            Self::Unreachable { .. } | Self::Strange { .. } | Self::Page(_) | Self::TooLarge => false,
        }
    }

    /// Whether what the server doesn't know any more can't be made up for by reading again from some time on.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code: ErrorCode::CursorExpired, .. })
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. } | Self::Strange { .. } | Self::Page(_) | Self::TooLarge => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_decides_whether_it_is_asked_again() {
        let refused = |code| SourceFault::Refused { code, message: String::new(), retry_after: None };
        assert!(refused(ErrorCode::Unavailable).is_retryable());
        assert!(!refused(ErrorCode::NotFound).is_retryable());
        assert!(!refused(ErrorCode::EpochChanged).is_retryable());
        assert!(refused(ErrorCode::CursorExpired).is_about_the_cursor());
        assert!(!refused(ErrorCode::Forbidden).is_about_the_cursor());
        assert!(refused(ErrorCode::CursorExpired).is_expired());
        assert!(!refused(ErrorCode::EpochChanged).is_expired());
        assert!(SourceFault::Page(PageError::Cut).is_retryable());
        assert!(!SourceFault::Page(PageError::Op { index: 0 }).is_retryable());
    }
}
