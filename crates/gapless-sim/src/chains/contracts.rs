//! Two contracts whose logs are events of topics: a token, and a board on which anybody sets marks.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, Bloom, U64, U256, address};
use gapless_chain::{Builtin, Log, TopicConfig, Topics};
use gapless_proto::{BlockHash, ChainId, Topic, ValueKey};

/// How many accounts hold the token; the account 0 is the zero address, from which tokens are minted.
pub(super) const HOLDERS: usize = 4;
/// How many marks the board has.
pub(super) const MARKS: usize = 3;

const TOKEN: Address = address!("0x00000000000000000000000000000000000000aa");
const BOARD: Address = address!("0x00000000000000000000000000000000000000bb");

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// The token moves.
    Transfer { from: usize, to: usize, amount: u64 },
    /// A mark is set.
    Mark { key: usize, value: u64 },
    /// Both contracts log what only the other one's topic is about, so that a bloom promises too much.
    Noise,
}

/// A transaction; it may be mined again on another branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) number: u64,
    pub(super) deed: Deed,
}

/// The names of a topic: as the chain's feed has it, and as subscriptions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TopicKind {
    Transfers,
    Marks,
}

struct Declared {
    topics: Topics,
    transfer: B256,
    mark: B256,
}

static DECLARED: LazyLock<Declared> = LazyLock::new(|| {
    let topic = |name: &str, address: Address| TopicConfig {
        name: name.to_owned(),
        addresses: vec![address.to_string()],
        event: None,
        key: None,
        value: None,
        builtin: None,
    };
    let transfers = TopicConfig { builtin: Some(Builtin::Erc20Balance), ..topic("transfers", TOKEN) };
    let marks = TopicConfig {
        event: Some("Mark(uint256 indexed key, uint256 value)".to_owned()),
        key: Some("key".to_owned()),
        value: Some("value".to_owned()),
        ..topic("marks", BOARD)
    };
    let topics = Topics::new(&[transfers, marks]).expect("they are declared as they should be");
    let signature = |contract| {
        let found = topics.wanted().find(|(address, _)| *address == contract);
        found.map(|(_, signature)| signature).expect("it was declared")
    };
    let (transfer, mark) = (signature(TOKEN), signature(BOARD));
    Declared { topics, transfer, mark }
});

/// The topics as a follower has them declared.
pub(super) fn topics() -> &'static Topics {
    &DECLARED.topics
}

impl TopicKind {
    pub(super) const ALL: [Self; 2] = [Self::Transfers, Self::Marks];

    pub(super) fn name(self) -> Topic {
        let name = match self {
            Self::Transfers => "transfers",
            Self::Marks => "marks",
        };
        Topic::new(name).expect("it is short")
    }

    pub(super) fn whole_name(self, chain: ChainId) -> Topic {
        Topic::new(&format!("chain:{chain}:{}", self.name())).expect("it is short")
    }

    pub(super) fn of_name(name: &Topic) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == *name)
    }
}

/// The key of a holder's balance.
pub(super) fn holder_key(holder: usize) -> ValueKey {
    ValueKey::new(&format!("{:#x}", holder_address(holder))).expect("it is short")
}

/// The key of a mark.
pub(super) fn mark_key(mark: usize) -> ValueKey {
    ValueKey::new(&mark.to_string()).expect("it is short")
}

impl Deed {
    /// Of which topic its log is an event, if it is one.
    pub(super) fn topic(self) -> Option<TopicKind> {
        match self {
            Self::Transfer { .. } => Some(TopicKind::Transfers),
            Self::Mark { .. } => Some(TopicKind::Marks),
            Self::Noise => None,
        }
    }
}

impl Transaction {
    /// Its logs in a block, from an index on.
    pub(super) fn logs(self, block: BlockHash, first: u32) -> Vec<Log> {
        let log = |index: u32, address, topics, value: u64| Log {
            address,
            topics,
            data: U256::from(value).to_be_bytes::<32>().into(),
            block_hash: Some(B256::from(block.0)),
            transaction_hash: Some(self.hash()),
            log_index: Some(U64::from(index)),
            removed: false,
        };
        let word = |number: usize| B256::from(U256::from(number));
        match self.deed {
            Deed::Transfer { from, to, amount } => {
                let topics =
                    vec![DECLARED.transfer, holder_address(from).into_word(), holder_address(to).into_word()];
                vec![log(first, TOKEN, topics, amount)]
            }
            Deed::Mark { key, value } => vec![log(first, BOARD, vec![DECLARED.mark, word(key)], value)],
            Deed::Noise => vec![
                log(first, TOKEN, vec![DECLARED.mark], 0),
                log(first + 1, BOARD, vec![DECLARED.transfer], 0),
            ],
        }
    }

    /// What readers get of it; written by hand, so that it doesn't depend on what is tested.
    pub(super) fn payload(self) -> Option<String> {
        let (address, arguments) = match self.deed {
            Deed::Transfer { from, to, amount } => {
                let [from, to] = [from, to].map(|holder| format!("{:#x}", holder_address(holder)));
                (TOKEN, format!(r#"{{"from":"{from}","to":"{to}","value":"{amount}"}}"#))
            }
            Deed::Mark { key, value } => (BOARD, format!(r#"{{"key":"{key}","value":"{value}"}}"#)),
            Deed::Noise => return None,
        };
        Some(format!(r#"{{"address":"{address:#x}","tx":"{:#x}","args":{arguments}}}"#, self.hash()))
    }

    fn hash(self) -> B256 {
        B256::from(U256::from(self.number))
    }
}

/// What a block's header says of its logs; `None` when there are none.
pub(super) fn bloom(logs: &[Log]) -> Option<Box<Bloom>> {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    (!logs.is_empty()).then(|| Box::new(bloom))
}

fn holder_address(holder: usize) -> Address {
    let mut bytes = [0; 20];
    bytes[19] = u8::try_from(holder).expect("there are few");
    Address::from(bytes)
}
