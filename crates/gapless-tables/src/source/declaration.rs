//! Tables as somebody declares them.

use serde::{Deserialize, Serialize};

use crate::wire::{Consistency, Deletes};

/// A table as it is declared. What is left out is taken from the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// The name it goes by; letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// The table in its database, as in `public.orders`; left out, it has the name it goes by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The column that says when a row was changed last: `timestamptz`, `timestamp` or `date`.
    #[serde(default = "default_cursor")]
    pub cursor: String,
    /// The columns of the key; left out, those of the primary key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// The columns that are read, beside key and cursor; left out, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// A condition in SQL; rows that don't meet it count as deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How deletes are noticed.
    #[serde(default = "default_deletes")]
    pub deletes: Deletes,
    /// With `deletes = "soft"`: the column that isn't NULL, or is true, once a row counts as deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_column: Option<String>,
    /// What is promised about late commits.
    #[serde(default = "default_consistency")]
    pub consistency: Consistency,
    /// With `consistency = "best_effort"`: how late rows are read, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Whether each commit that changes the table wakes those who follow it, so that they needn't look so often.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
}

/// The delay of `best_effort`, in milliseconds.
pub(crate) const DELAY_MS_DEFAULT: u64 = 5_000;

impl TableConfig {
    /// A table that goes by its own name, with all that is usual.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            table: None,
            cursor: default_cursor(),
            key: Vec::new(),
            columns: Vec::new(),
            filter: None,
            deletes: default_deletes(),
            soft_column: None,
            consistency: default_consistency(),
            delay_ms: None,
            notify: false,
        }
    }

    /// The schema and name of the table in its database.
    pub(crate) fn source(&self) -> (&str, &str) {
        let table = self.table.as_deref().unwrap_or(&self.name);
        table.split_once('.').unwrap_or(("public", table))
    }

    /// Says what contradicts itself in the declaration, and how to mend it.
    pub(crate) fn problem(&self) -> Option<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || !self.name.chars().all(is_word) {
            return Some(format!(
                "the name may have 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`; rename it, and give the table in its \
                 database as `table`"
            ));
        }
        match (self.deletes, &self.soft_column) {
            (Deletes::Soft, None) => {
                Some("`deletes = \"soft\"` needs `soft_column`, the column that marks deleted rows".to_owned())
            }
            (Deletes::Tombstones | Deletes::None, Some(_)) => {
                Some("`soft_column` means something only with `deletes = \"soft\"`; add that or remove it".to_owned())
            }
            _ if self.notify && self.consistency == Consistency::BestEffort => {
                Some("`notify` wakes nobody in time where rows are read late; remove it".to_owned())
            }
            (Deletes::Soft | Deletes::Tombstones | Deletes::None, _) => match (self.consistency, self.delay_ms) {
                (Consistency::Strict | Consistency::Watched, Some(_)) => Some(
                    "`delay_ms` means something only with `consistency = \"best_effort\"`; add that or remove it"
                        .to_owned(),
                ),
                (Consistency::Strict | Consistency::Watched | Consistency::BestEffort, _) => None,
            },
        }
    }
}

const NAME_BYTES_MAX: usize = 64;

fn default_cursor() -> String {
    "updated_at".to_owned()
}

fn default_deletes() -> Deletes {
    Deletes::Tombstones
}

fn default_consistency() -> Consistency {
    Consistency::Strict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_a_declaration() {
        let config = TableConfig::new("orders");
        assert_eq!((config.source(), config.problem()), (("public", "orders"), None));
        let other = TableConfig { table: Some("shop.Orders".to_owned()), ..config };
        assert_eq!(other.source(), ("shop", "Orders"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let good = TableConfig::new("orders");
        for bad in [
            TableConfig::new(""),
            TableConfig::new("a b"),
            TableConfig { deletes: Deletes::Soft, ..good.clone() },
            TableConfig { soft_column: Some("deleted_at".to_owned()), ..good.clone() },
            TableConfig { notify: true, consistency: Consistency::BestEffort, ..good.clone() },
            TableConfig { delay_ms: Some(5), ..good },
        ] {
            assert!(bad.problem().is_some(), "{bad:?}");
        }
    }
}
