//! Whole blocks, put together from what a node tells and checked, as the real follower does it.

use gapless_chain::{Header, Log, LogsFault, Trouble, check_logs, check_receipts, decoded};
use gapless_proto::Block;

use super::{Failure, Round};
use crate::chains::contracts;
use crate::chains::coverage::ChainLandmark;
use crate::chains::fault::ChainFault;
use crate::chains::node_model::{Answer, Ask};

impl Round<'_> {
    /// A block whose logs were told together with others'.
    pub(super) async fn block_with(&self, header: Header, logs: Vec<Log>) -> Result<Block, Failure> {
        match check_logs(&self.promising(&header), logs, contracts::topics()) {
            Ok(logs) => Ok(decoded(&header, &logs, contracts::topics()).0),
            Err(_) => self.block(header).await,
        }
    }

    /// A block, its logs by its hash.
    pub(super) async fn block(&self, header: Header) -> Result<Block, Failure> {
        let logs = self.logs(Ask::Logs(header.at.hash)).await?;
        match check_logs(&self.promising(&header), logs, contracts::topics()) {
            Ok(logs) => Ok(decoded(&header, &logs, contracts::topics()).0),
            Err(LogsFault::Promised { .. }) => self.settled(header).await,
            Err(_) => Err(Failure::Node(Trouble::Untrustworthy)),
        }
    }

    /// A block whose bloom promises what wasn't there: its receipts tell whether that is so.
    async fn settled(&self, header: Header) -> Result<Block, Failure> {
        self.questions.note(ChainLandmark::ReceiptsAsked).await;
        let receipts = match self.answer(Ask::Receipts(header.at.hash)).await {
            Ok(Answer::Receipts(receipts)) => receipts,
            Ok(other) => unreachable!("{other:?} answers no question for receipts"),
            Err(Failure::Node(Trouble::Unsupported)) => return Err(Failure::Node(Trouble::Untrustworthy)),
            Err(failure) => return Err(failure),
        };
        let receipts = receipts.ok_or(Failure::Node(Trouble::Untrustworthy))?;
        let logs = check_receipts(&header, receipts).map_err(|_| Failure::Node(Trouble::Untrustworthy))?;
        Ok(decoded(&header, &logs, contracts::topics()).0)
    }

    pub(super) async fn logs(&self, ask: Ask) -> Result<Vec<Log>, Failure> {
        let Answer::Logs(logs) = self.answer(ask).await? else {
            unreachable!("the answer fits the question")
        };
        Ok(logs)
    }

    pub(super) async fn header(&self, ask: Ask) -> Result<Option<Header>, Failure> {
        let Answer::Header(header) = self.answer(ask).await? else {
            unreachable!("the answer fits the question")
        };
        Ok(header)
    }

    pub(super) async fn answer(&self, ask: Ask) -> Result<Answer, Failure> {
        let answer = self.questions.node(self.node, ask).await;
        if let Answer::Failed(trouble) = answer {
            return Err(Failure::Node(trouble));
        }
        Ok(answer)
    }

    /// The header as the checks see it.
    fn promising(&self, header: &Header) -> Header {
        let believes = self.questions.fault == Some(ChainFault::BelieveNoLogs);
        Header { bloom: header.bloom.clone().filter(|_| !believes), ..header.clone() }
    }
}
