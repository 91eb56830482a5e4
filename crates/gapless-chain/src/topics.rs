//! Topics: which logs are events, and what readers get of them.

use std::collections::{BTreeMap, BTreeSet};

use alloy_dyn_abi::{DynSolEvent, DynSolType, DynSolValue, Specifier as _};
use alloy_json_abi::Event;
use alloy_primitives::{Address, B256};
use gapless_proto::{Amount, Body, ChainEvent, Change, Effect, Topic, ValueKey};
use serde::{Deserialize, Serialize};

use self::payload::{Argument, Payload};
use crate::wire::Log;

mod payload;
#[cfg(test)]
mod tests;

/// The event that a balance of an ERC-20 token is counted from.
const ERC20_TRANSFER: &str = "Transfer(address indexed from, address indexed to, uint256 value)";

/// A topic as somebody declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicConfig {
    /// Its name.
    pub name: String,
    /// The contracts whose logs it takes; at least one. What all contracts emit can't be followed: nobody vouches for it.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The signature of the event with the names of its arguments, as in
    /// `Transfer(address indexed from, address indexed to, uint256 value)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The argument that names the value which an event replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The argument that is the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Instead of `event`, `key` and `value`: something that is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Builtin>,
}

impl TopicConfig {
    /// The transfers of an ERC-20 token, and its holders' balances.
    pub fn erc20_balance(name: &str, token: &str) -> Self {
        Self {
            name: name.to_owned(),
            addresses: vec![token.to_owned()],
            event: None,
            key: None,
            value: None,
            builtin: Some(Builtin::Erc20Balance),
        }
    }
}

/// A topic that needs no description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Transfers of one ERC-20 token; the values are the holders' balances. The zero address, from which tokens are minted
    /// and to which they are burnt, has none.
    Erc20Balance,
}

/// Why a topic can't be.
#[derive(Debug, thiserror::Error)]
#[error("topic {name:?}: {problem}")]
pub struct TopicError {
    /// The name as it was declared.
    pub name: String,
    /// What is wrong.
    pub problem: TopicProblem,
}

/// What is wrong with a topic.
#[derive(Debug, thiserror::Error)]
pub enum TopicProblem {
    /// Its name can't be one.
    #[error(transparent)]
    Name(#[from] gapless_proto::IdError),
    /// Another has the name.
    #[error("there are two topics of that name; rename one")]
    Twice,
    /// It takes logs of no contract.
    #[error(
        "it has no addresses; list the contracts in `addresses`, since a topic of all contracts isn't possible"
    )]
    NoAddress,
    /// Something isn't an address.
    #[error("`{0}` is no address; write `0x` and 40 hexadecimal digits")]
    Address(String),
    /// The capital letters of an address, which are a checksum (EIP-55), don't fit it.
    #[error(
        "`{0}` isn't quite an address: its capital letters don't fit, so a digit may be wrong; copy it anew, or write it in small \
         letters if you are sure of it"
    )]
    Checksum(String),
    /// Balances of several tokens would be added up.
    #[error("`erc20_balance` counts one token; give one address, and further tokens topics of their own")]
    SeveralTokens,
    /// It has both or neither.
    #[error("give it either `event` or `builtin`, and `key` and `value` only with `event`")]
    EventOrBuiltin,
    /// The signature can't be read.
    #[error("`{event}` is no event ({reason}); write it as in `{ERC20_TRANSFER}`")]
    Event {
        /// The signature.
        event: String,
        /// Why.
        reason: String,
    },
    /// Arguments can't be told apart.
    #[error(
        "give each argument of the event a name of its own; argument {position} has none, or one that is taken"
    )]
    ArgumentName {
        /// Which, beginning with 1.
        position: usize,
    },
    /// A key without a value or the other way round.
    #[error("a snapshot needs both `key` and `value`; add the other, or remove it")]
    HalfSnapshot,
    /// `key` or `value` isn't there.
    #[error("the event has no argument `{argument}`; it has: {arguments}")]
    NoArgument {
        /// The name.
        argument: String,
        /// Those that there are.
        arguments: String,
    },
    /// `key` is something that can't be one.
    #[error("`{argument}` can't be a key; take an address, a number, a bool, or bytes of fixed length")]
    KeyType {
        /// The name.
        argument: String,
    },
}

/// A log of a topic that isn't what the topic declares.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("log {log} isn't the event that topic {topic} declares: {reason}")]
pub struct Undecodable {
    /// The topic.
    pub topic: Topic,
    /// The log's index in the block.
    pub log: u32,
    /// What is wrong.
    pub reason: String,
}

/// All topics of a chain.
#[derive(Debug, Clone)]
pub struct Topics {
    declared: Vec<Declared>,
    by_log: BTreeMap<(Address, B256), Vec<usize>>,
}

#[derive(Debug, Clone)]
struct Declared {
    name: Topic,
    event: DynSolEvent,
    /// Name and whether it is indexed, in the order of the signature.
    arguments: Vec<(String, bool)>,
    snapshot: Snapshot,
}

/// What an event does to the values of its topic. Arguments by position.
#[derive(Debug, Clone, Copy)]
enum Snapshot {
    None,
    Set { key: usize, value: usize },
    Erc20Balance,
}

impl Topics {
    /// Reads declarations.
    pub fn new(configs: &[TopicConfig]) -> Result<Self, TopicError> {
        let mut topics = Self { declared: Vec::new(), by_log: BTreeMap::new() };
        for config in configs {
            topics.declare(config).map_err(|problem| TopicError { name: config.name.clone(), problem })?;
        }
        Ok(topics)
    }

    /// The contracts whose logs are wanted.
    pub fn addresses(&self) -> BTreeSet<Address> {
        self.by_log.keys().map(|(address, _)| *address).collect()
    }

    /// The signatures of the events that are wanted.
    pub fn signatures(&self) -> BTreeSet<B256> {
        self.by_log.keys().map(|(_, signature)| *signature).collect()
    }

    /// Which signatures of which contracts are wanted.
    pub fn wanted(&self) -> impl Iterator<Item = (Address, B256)> + '_ {
        self.by_log.keys().copied()
    }

    /// The events that a log is, one a topic.
    pub fn events(&self, index: u32, log: &Log) -> Vec<Result<ChainEvent, Undecodable>> {
        let Some(signature) = log.topics.first() else { return Vec::new() };
        let declared = self.by_log.get(&(log.address, *signature)).into_iter().flatten();
        declared.map(|declared| self.declared[*declared].event(index, log)).collect()
    }

    fn declare(&mut self, config: &TopicConfig) -> Result<(), TopicProblem> {
        let declared = Declared::new(config)?;
        if self.declared.iter().any(|other| other.name == declared.name) {
            return Err(TopicProblem::Twice);
        }
        let signature = declared.event.topic_0().expect("anonymous events were refused");
        for address in addresses(config)? {
            self.by_log.entry((address, signature)).or_default().push(self.declared.len());
        }
        self.declared.push(declared);
        Ok(())
    }
}

impl Declared {
    fn new(config: &TopicConfig) -> Result<Self, TopicProblem> {
        let name = Topic::new(&config.name)?;
        let text = match (&config.event, config.builtin) {
            (Some(event), None) => event,
            (None, Some(Builtin::Erc20Balance)) if config.key.is_none() && config.value.is_none() => {
                ERC20_TRANSFER
            }
            (Some(_) | None, Some(Builtin::Erc20Balance)) | (None, None) => {
                return Err(TopicProblem::EventOrBuiltin);
            }
        };
        let refused = |reason: String| TopicProblem::Event { event: text.to_owned(), reason };
        let event = Event::parse(text).map_err(|error| refused(error.to_string()))?;
        if event.anonymous {
            return Err(refused("anonymous events can't be told from others".to_owned()));
        }
        let mut arguments: Vec<(String, bool)> = Vec::new();
        for (index, input) in event.inputs.iter().enumerate() {
            if input.name.is_empty() || arguments.iter().any(|(name, _)| *name == input.name) {
                return Err(TopicProblem::ArgumentName { position: index + 1 });
            }
            arguments.push((input.name.clone(), input.indexed));
        }
        let event = event.resolve().map_err(|error| refused(error.to_string()))?;
        let mut declared = Self { name, event, arguments, snapshot: Snapshot::None };
        declared.snapshot = match (&config.key, &config.value, config.builtin) {
            (_, _, Some(Builtin::Erc20Balance)) => Snapshot::Erc20Balance,
            (Some(key), Some(value), None) => {
                Snapshot::Set { key: declared.key(key)?, value: declared.argument(value)? }
            }
            (None, None, None) => Snapshot::None,
            (Some(_), None, None) | (None, Some(_), None) => return Err(TopicProblem::HalfSnapshot),
        };
        Ok(declared)
    }

    fn argument(&self, name: &str) -> Result<usize, TopicProblem> {
        let names = || self.arguments.iter().map(|(name, _)| name.as_str());
        names().position(|other| other == name).ok_or_else(|| TopicProblem::NoArgument {
            argument: name.to_owned(),
            arguments: names().collect::<Vec<_>>().join(", "),
        })
    }

    fn key(&self, name: &str) -> Result<usize, TopicProblem> {
        let position = self.argument(name)?;
        let is_indexed = self.arguments[position].1;
        let nth = self.arguments[..position].iter().filter(|(_, indexed)| *indexed == is_indexed).count();
        let kinds = if is_indexed { self.event.indexed() } else { self.event.body() };
        let is_short = matches!(
            kinds[nth],
            DynSolType::Bool
                | DynSolType::Int(_)
                | DynSolType::Uint(_)
                | DynSolType::FixedBytes(_)
                | DynSolType::Address
        );
        // What is long stands in an index as its hash.
        if is_short || is_indexed {
            return Ok(position);
        }
        Err(TopicProblem::KeyType { argument: name.to_owned() })
    }

    fn event(&self, index: u32, log: &Log) -> Result<ChainEvent, Undecodable> {
        let undecodable = |reason: String| Undecodable { topic: self.name.clone(), log: index, reason };
        let decoded = self
            .event
            .decode_log_parts(log.topics.iter().copied(), &log.data)
            .map_err(|error| undecodable(error.to_string()))?;
        let (mut indexed, mut body) = (decoded.indexed.into_iter(), decoded.body.into_iter());
        let values: Vec<DynSolValue> = self
            .arguments
            .iter()
            .filter_map(|(_, is_indexed)| if *is_indexed { indexed.next() } else { body.next() })
            .collect();
        let names = self.arguments.iter().map(|(name, _)| name.as_str());
        let payload = Payload::new(log, names.zip(&values).collect());
        let payload = Body::from_value(&payload).map_err(|error| undecodable(error.to_string()))?;
        let changes = self.changes(&values).map_err(undecodable)?;
        Ok(ChainEvent { log: index, topic: self.name.clone(), payload, changes })
    }

    fn changes(&self, values: &[DynSolValue]) -> Result<Vec<Change>, String> {
        match (self.snapshot, values) {
            (Snapshot::Set { key, value }, _) => {
                let key =
                    ValueKey::new(&Argument(&values[key]).to_key()).map_err(|error| error.to_string())?;
                let value = Body::from_value(&Argument(&values[value])).map_err(|error| error.to_string())?;
                Ok(vec![Change { key, effect: Effect::Set(value) }])
            }
            (
                Snapshot::Erc20Balance,
                [DynSolValue::Address(from), DynSolValue::Address(to), DynSolValue::Uint(amount, _)],
            ) => {
                let moved = [(from, format!("-{amount}")), (to, amount.to_string())];
                let held = moved.into_iter().filter(|(holder, _)| **holder != Address::ZERO);
                held.map(|(holder, amount)| added(holder, &amount)).collect()
            }
            (Snapshot::None | Snapshot::Erc20Balance, _) => Ok(Vec::new()),
        }
    }
}

fn added(holder: &Address, amount: &str) -> Result<Change, String> {
    let key = ValueKey::new(&format!("{holder:#x}")).map_err(|error| error.to_string())?;
    let amount: Amount = amount.parse().map_err(|error: gapless_proto::AmountError| error.to_string())?;
    Ok(Change { key, effect: Effect::Add(amount) })
}

fn addresses(config: &TopicConfig) -> Result<BTreeSet<Address>, TopicProblem> {
    let addresses: BTreeSet<Address> =
        config.addresses.iter().map(|text| address(text)).collect::<Result<_, _>>()?;
    match (addresses.len(), config.builtin) {
        (0, _) => Err(TopicProblem::NoAddress),
        (2.., Some(Builtin::Erc20Balance)) => Err(TopicProblem::SeveralTokens),
        (_, _) => Ok(addresses),
    }
}

fn address(text: &str) -> Result<Address, TopicProblem> {
    let address: Address = text.parse().map_err(|_| TopicProblem::Address(text.to_owned()))?;
    let digits = text.trim_start_matches("0x");
    let has = |is_such: fn(&u8) -> bool| digits.bytes().any(|digit| is_such(&digit));
    let is_checksum = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    match is_checksum && !address.to_checksum(None).ends_with(digits) {
        true => Err(TopicProblem::Checksum(text.to_owned())),
        false => Ok(address),
    }
}
