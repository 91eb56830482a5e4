//! What has to be done so that a target can hold a copy, and what stands in the way.

use std::collections::BTreeSet;

/// The table that a copy needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) columns: Vec<WantedColumn>,
    pub(crate) key: Vec<String>,
}

/// A column that a copy needs; types are spelled as the target spells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedColumn {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) not_null: bool,
}

/// The table that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Existing {
    pub(crate) columns: Vec<ExistingColumn>,
    /// The columns of each index that makes them unique.
    pub(crate) unique: Vec<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExistingColumn {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) not_null: bool,
    pub(crate) has_default: bool,
    /// Whether it is computed, so that nothing can be written into it.
    pub(crate) is_computed: bool,
}

/// Something to be done to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    AddColumn(WantedColumn),
    AllowNull(String),
}

/// Why a target can't hold the copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It lacks a column that can't be added.
    #[error(
        "the target lacks the column `{0}`; add it to the target with the values of the source, or copy into a table that isn't there yet"
    )]
    Lacks(String),
    /// A column has another type.
    #[error(
        "the column `{column}` is a {wanted} at the source and a {found} in the target; change its type in the target, or copy into another table"
    )]
    OtherType {
        /// The column.
        column: String,
        /// Its type at the source.
        wanted: String,
        /// Its type in the target.
        found: String,
    },
    /// A column of the target can't be written.
    #[error(
        "the column `{0}` is computed in the target; make it a plain one: `ALTER TABLE … ALTER COLUMN … DROP EXPRESSION`"
    )]
    Computed(String),
    /// A column may be NULL at the source only.
    #[error("the column `{0}` may be NULL at the source and not in the target; drop its NOT NULL there")]
    NotNull(String),
    /// The target has a column that nobody fills.
    #[error(
        "the source has no column `{0}`, and the target requires a value for it; drop it there, or give it a default"
    )]
    Unfilled(String),
    /// The source has dropped a column.
    #[error("the column `{0}` isn't at the source any more; drop it in the target, too, and start again")]
    Dropped(String),
    /// The target may have a key twice.
    #[error("the target has no unique index on ({0}), the key of the source; make one")]
    NoKey(String),
    /// A type has another meaning.
    #[error("the type {name} differs between source and target: {how}; make it the same")]
    Type {
        /// The type.
        name: String,
        /// In what it differs.
        how: String,
    },
}

/// Compares what a copy needs with what is there. `copied` names the columns that the copy had before, if we have made it: then columns
/// that may be NULL are added, and others mustn't just vanish.
pub(crate) fn plan(
    wanted: &Wanted,
    existing: Option<&Existing>,
    copied: Option<&[String]>,
) -> Result<Vec<Step>, Misfit> {
    let Some(existing) = existing else { return Ok(vec![Step::Create]) };
    let mut steps = Vec::new();
    for column in &wanted.columns {
        let found = existing.columns.iter().find(|found| found.name == column.name);
        steps.extend(fit(column, found, copied.is_some())?);
    }
    for found in &existing.columns {
        let is_wanted = wanted.columns.iter().any(|column| column.name == found.name);
        if !is_wanted && copied.is_some_and(|copied| copied.contains(&found.name)) {
            return Err(Misfit::Dropped(found.name.clone()));
        }
        if !is_wanted && found.not_null && !found.has_default && !found.is_computed {
            return Err(Misfit::Unfilled(found.name.clone()));
        }
    }
    let key: BTreeSet<String> = wanted.key.iter().cloned().collect();
    match existing.unique.contains(&key) {
        true => Ok(steps),
        false => Err(Misfit::NoKey(wanted.key.join(", "))),
    }
}

/// What one column needs.
fn fit(column: &WantedColumn, found: Option<&ExistingColumn>, is_ours: bool) -> Result<Option<Step>, Misfit> {
    let name = column.name.clone();
    match found {
        None if is_ours && !column.not_null => Ok(Some(Step::AddColumn(column.clone()))),
        None => Err(Misfit::Lacks(name)),
        Some(found) if found.is_computed => Err(Misfit::Computed(name)),
        Some(found) if found.type_name != column.type_name => Err(Misfit::OtherType {
            column: name,
            wanted: column.type_name.clone(),
            found: found.type_name.clone(),
        }),
        Some(found) if found.not_null && !column.not_null && is_ours => Ok(Some(Step::AllowNull(name))),
        Some(found) if found.not_null && !column.not_null => Err(Misfit::NotNull(name)),
        Some(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_not_there_is_made() {
        assert_eq!(plan(&wanted(), None, None), Ok(vec![Step::Create]));
    }

    #[test]
    fn a_table_that_fits_needs_nothing() {
        assert_eq!(plan(&wanted(), Some(&existing()), None), Ok(vec![]));
        let mut wider = existing();
        wider.columns.push(ExistingColumn { has_default: true, ..there("note", "text", true) });
        wider.columns.push(there("remark", "text", false));
        assert_eq!(plan(&wanted(), Some(&wider), None), Ok(vec![]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let misfit = |change: &dyn Fn(&mut Existing)| {
            let mut existing = existing();
            change(&mut existing);
            plan(&wanted(), Some(&existing), None).unwrap_err()
        };
        assert_eq!(
            misfit(&|it| it.columns[1].type_name = "text".to_owned()),
            Misfit::OtherType {
                column: "total".to_owned(),
                wanted: "numeric(18,4)".to_owned(),
                found: "text".to_owned()
            }
        );
        assert_eq!(misfit(&|it| drop(it.columns.remove(1))), Misfit::Lacks("total".to_owned()));
        assert_eq!(misfit(&|it| it.columns[1].not_null = true), Misfit::NotNull("total".to_owned()));
        assert_eq!(misfit(&|it| it.columns[1].is_computed = true), Misfit::Computed("total".to_owned()));
        assert_eq!(
            misfit(&|it| it.columns.push(there("note", "text", true))),
            Misfit::Unfilled("note".to_owned())
        );
        assert_eq!(misfit(&|it| it.unique.clear()), Misfit::NoKey("id".to_owned()));
    }

    #[test]
    fn a_copy_of_ours_gets_what_the_source_has_got() {
        let mut source = wanted();
        source.columns.push(WantedColumn { not_null: false, ..column("note", "text") });
        let copied = ["id".to_owned(), "total".to_owned()];
        let steps = plan(&source, Some(&existing()), Some(&copied));
        assert_eq!(steps, Ok(vec![Step::AddColumn(source.columns[2].clone())]));

        let mut strict = existing();
        strict.columns[1].not_null = true;
        let steps = plan(&wanted(), Some(&strict), Some(&copied));
        assert_eq!(steps, Ok(vec![Step::AllowNull("total".to_owned())]));
    }

    #[test]
    fn a_copy_of_ours_stops_at_what_it_can_not_follow() {
        let copied = ["id".to_owned(), "total".to_owned()];
        let mut source = wanted();
        source.columns.push(WantedColumn { not_null: true, ..column("note", "text") });
        assert_eq!(plan(&source, Some(&existing()), Some(&copied)), Err(Misfit::Lacks("note".to_owned())));
        source.columns.truncate(1);
        assert_eq!(plan(&source, Some(&existing()), Some(&copied)), Err(Misfit::Dropped("total".to_owned())));
        assert_eq!(plan(&source, Some(&existing()), None), Ok(vec![]), "others may have more");
    }

    fn wanted() -> Wanted {
        Wanted {
            columns: vec![
                WantedColumn { not_null: true, ..column("id", "bigint") },
                column("total", "numeric(18,4)"),
            ],
            key: vec!["id".to_owned()],
        }
    }

    fn column(name: &str, type_name: &str) -> WantedColumn {
        WantedColumn { name: name.to_owned(), type_name: type_name.to_owned(), not_null: false }
    }

    fn existing() -> Existing {
        Existing {
            columns: vec![there("id", "bigint", true), there("total", "numeric(18,4)", false)],
            unique: vec![BTreeSet::from(["id".to_owned()])],
        }
    }

    fn there(name: &str, type_name: &str, not_null: bool) -> ExistingColumn {
        let (name, type_name) = (name.to_owned(), type_name.to_owned());
        ExistingColumn { name, type_name, not_null, has_default: false, is_computed: false }
    }
}
