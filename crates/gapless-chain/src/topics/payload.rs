//! What readers get of a log.

use alloy_dyn_abi::DynSolValue;
use alloy_primitives::hex;
use serde::{Serialize, Serializer};

use crate::wire::Log;

/// The JSON of an event: contract, transaction, and the arguments by name in the order of the signature.
#[derive(Serialize)]
pub(super) struct Payload<'a> {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx: Option<String>,
    args: Arguments<'a>,
}

impl<'a> Payload<'a> {
    pub(super) fn new(log: &Log, arguments: Vec<(&'a str, &'a DynSolValue)>) -> Self {
        Self {
            address: format!("{:#x}", log.address),
            // Logs that a chain makes by itself have zeros there on some.
            tx: log.transaction_hash.filter(|hash| !hash.is_zero()).map(|hash| format!("{hash:#x}")),
            args: Arguments(arguments),
        }
    }
}

struct Arguments<'a>(Vec<(&'a str, &'a DynSolValue)>);

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, Argument(value))))
    }
}

/// A value as JSON, exact: numbers are decimal texts, since JavaScript can't keep them; addresses and bytes are hexadecimal;
/// arrays and structs are arrays.
pub(super) struct Argument<'a>(pub(super) &'a DynSolValue);

impl Argument<'_> {
    /// The value as a text that names something.
    pub(super) fn to_key(&self) -> String {
        match self.0 {
            DynSolValue::Bool(is_true) => is_true.to_string(),
            DynSolValue::Int(number, _) => number.to_string(),
            DynSolValue::Uint(number, _) => number.to_string(),
            DynSolValue::FixedBytes(word, bytes) => hex::encode_prefixed(&word[..*bytes]),
            DynSolValue::Address(address) => format!("{address:#x}"),
            DynSolValue::Function(function) => hex::encode_prefixed(function),
            DynSolValue::Bytes(bytes) => hex::encode_prefixed(bytes),
            DynSolValue::String(text) => text.clone(),
            DynSolValue::Array(_) | DynSolValue::FixedArray(_) | DynSolValue::Tuple(_) => String::new(),
        }
    }
}

impl Serialize for Argument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            DynSolValue::Bool(is_true) => serializer.serialize_bool(*is_true),
            DynSolValue::Array(values) | DynSolValue::FixedArray(values) | DynSolValue::Tuple(values) => {
                serializer.collect_seq(values.iter().map(Argument))
            }
            DynSolValue::Int(..)
            | DynSolValue::Uint(..)
            | DynSolValue::FixedBytes(..)
            | DynSolValue::Address(_)
            | DynSolValue::Function(_)
            | DynSolValue::Bytes(_)
            | DynSolValue::String(_) => serializer.serialize_str(&self.to_key()),
        }
    }
}
