//! What a target keeps about a copy, and what that allows.

use super::plan::Existing;
use super::position::Position;
use super::sink::SinkError;
use crate::wire::TableDescription;

/// What a target keeps about a copy beside its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) position: Position,
    /// The name the table goes by at the source.
    pub(crate) source_table: String,
    /// The columns that the copy had.
    pub(crate) columns: Vec<String>,
    /// What the source's table was like, types included.
    pub(crate) schema_version: String,
}

/// A target as it is found.
pub(crate) struct Found<'a> {
    /// What it is called, for people and in statements.
    pub(crate) name: &'a str,
    pub(crate) kept: Option<&'a Kept>,
    pub(crate) existing: Option<&'a Existing>,
    pub(crate) has_rows: bool,
    /// The statement that forgets what is kept.
    pub(crate) forget: &'a str,
}

impl Found<'_> {
    /// Makes sure that it is a copy of the described table, or may become one.
    pub(crate) fn check(&self, description: &TableDescription) -> Result<(), SinkError> {
        let (name, table) = (self.name, &description.table);
        let problem = match (self.kept, self.existing) {
            (Some(kept), _) if kept.source_table != *table => {
                format!("{name} is a copy of `{}`; copy `{table}` into another table", kept.source_table)
            }
            (Some(_), None) => format!(
                "{name} was dropped, and its position is still kept; to copy it anew, `{}`",
                self.forget
            ),
            (None, Some(_)) if self.has_rows => format!(
                "{name} has rows that no replicator has put there; empty it, or copy into another table"
            ),
            (Some(_) | None, Some(_) | None) => return Ok(()),
        };
        Err(SinkError::Refused(problem))
    }

    /// How far the copy of the described table is once it has what it needs. A type that was changed may have changed values, which no
    /// trigger tells, even where the target keeps both types alike.
    pub(crate) fn position_of(&self, description: &TableDescription) -> Position {
        match self.kept {
            Some(kept) if kept.schema_version != description.schema_version => kept.position.reshaped(),
            Some(kept) => kept.position.clone(),
            None if self.existing.is_none() => Position::of_a_new_table(),
            // Somebody else may put rows into it, too.
            None => Position::default(),
        }
    }
}

/// There is nothing to be compared.
pub(crate) fn not_a_copy(name: &str) -> SinkError {
    SinkError::Refused(format!("{name} is no copy that `gapless replicate` has made; make one with it"))
}

/// The source has columns or types that the copy hasn't.
pub(crate) fn outdated(name: &str) -> SinkError {
    SinkError::Refused(format!(
        "{name} hasn't the columns that its source has now; let `gapless replicate` bring it up to date first"
    ))
}
