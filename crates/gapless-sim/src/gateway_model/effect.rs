//! What a gateway wants from the world around it.

use gapless_core::{Append, FeedNews, Standing};
use gapless_proto::{CloseCode, ConvId, ErrorCode, Page, Rid, Seq, ServerMessage, UserId};

use crate::names::LinkNo;
use crate::store_model::{Frame, Generation, PageAsk};

/// What a gateway wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Ask the store.
    Read(Read),
    /// Have the store append.
    Append { link: LinkNo, rid: Rid, append: Append, generation: Option<Generation> },
    /// Write a frame.
    Write { link: LinkNo, message: ServerMessage },
    /// Close a connection.
    Close { link: LinkNo, code: CloseCode },
}

/// A question for the store.
#[derive(Debug, Clone)]
pub(crate) enum Read {
    Standings { link: LinkNo, user: UserId, after: Option<ConvId> },
    LookUp { link: LinkNo, user: UserId, conv: ConvId },
    Log { conv: ConvId, after: Seq },
    Heads { convs: Vec<ConvId> },
    Page { link: LinkNo, rid: Rid, user: UserId, conv: ConvId, ask: PageAsk },
}

/// What the store has found.
#[derive(Debug)]
pub(crate) enum Found {
    Standings(Vec<Standing>),
    LookUp(Option<Standing>),
    Log(Option<FeedNews<Frame>>),
    Heads(Vec<FeedNews<Frame>>),
    Page(Result<Page, ErrorCode>),
}
