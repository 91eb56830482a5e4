//! The statements that make a target what it has to be.

use std::collections::BTreeMap;

use crate::quoting::{identifier, qualified};
use crate::replicate::plan::{Misfit, Step, Wanted, WantedColumn};
use crate::wire::{Column, CustomType, SourceName, TableDescription};

/// The table that a description asks for.
pub(super) fn wanted(description: &TableDescription) -> Wanted {
    let columns = description.columns.iter().map(|column| WantedColumn {
        name: column.name.clone(),
        type_name: column.type_name.clone(),
        not_null: column.not_null,
    });
    Wanted { columns: columns.collect(), key: description.key.clone() }
}

/// The statements of a step.
pub(super) fn step(step: &Step, name: &SourceName, description: &TableDescription) -> String {
    let relation = qualified(&name.schema, &name.table);
    match step {
        Step::Create => {
            let columns: Vec<String> = description.columns.iter().map(definition).collect();
            let key: Vec<String> = description.key.iter().map(|column| identifier(column)).collect();
            format!("CREATE TABLE {relation} ({}, PRIMARY KEY ({}))", columns.join(", "), key.join(", "))
        }
        Step::AddColumn(wanted) => {
            let column = description.columns.iter().find(|column| column.name == wanted.name);
            let definition = column.map(definition).unwrap_or_default();
            format!("ALTER TABLE {relation} ADD COLUMN {definition}")
        }
        Step::AllowNull(column) => {
            format!("ALTER TABLE {relation} ALTER COLUMN {} DROP NOT NULL", identifier(column))
        }
    }
}

fn definition(column: &Column) -> String {
    let collation =
        column.collation.as_ref().map(|collation| format!(" COLLATE {collation}")).unwrap_or_default();
    let not_null = if column.not_null { " NOT NULL" } else { "" };
    format!("{} {}{collation}{not_null}", identifier(&column.name), column.type_name)
}

/// The statements that make types or bring them up to date.
pub(super) fn types(
    wanted: &[CustomType],
    existing: &BTreeMap<String, CustomType>,
) -> Result<Vec<String>, Misfit> {
    let mut statements = Vec::new();
    for wanted in wanted {
        match (wanted, existing.get(wanted.name())) {
            (_, None) => statements.push(creation(wanted)),
            (CustomType::Enum { name, labels }, Some(CustomType::Enum { labels: found, .. })) => {
                statements.extend(new_labels(name, labels, found));
            }
            (wanted, Some(found)) if wanted == found => {}
            (CustomType::Domain { name, .. } | CustomType::Enum { name, .. }, Some(found)) => {
                let how = format!("the source has `{}`, the target `{}`", creation(wanted), creation(found));
                return Err(Misfit::Type { name: name.clone(), how });
            }
        }
    }
    Ok(statements)
}

/// The schema in the name of a type, without quotes.
pub(super) fn schema_of(name: &str) -> Option<String> {
    let Some(quoted) = name.strip_prefix('"') else {
        return name.split_once('.').map(|(schema, _)| schema.to_owned());
    };
    let mut schema = String::new();
    let mut rest = quoted.chars().peekable();
    while let Some(c) = rest.next() {
        // A quote that belongs to the name is doubled.
        if c == '"' && rest.next_if_eq(&'"').is_none() {
            return Some(schema);
        }
        schema.push(c);
    }
    None
}

fn creation(wanted: &CustomType) -> String {
    match wanted {
        CustomType::Enum { name, labels } => {
            let labels: Vec<String> = labels.iter().map(|label| literal(label)).collect();
            format!("CREATE TYPE {name} AS ENUM ({})", labels.join(", "))
        }
        CustomType::Domain { name, base, checks, not_null } => {
            let not_null = if *not_null { " NOT NULL" } else { "" };
            let checks: String = checks.iter().map(|check| format!(" {check}")).collect();
            format!("CREATE DOMAIN {name} AS {base}{not_null}{checks}")
        }
    }
}

/// Adds the labels that an enum lacks, each at its place.
fn new_labels(name: &str, wanted: &[String], found: &[String]) -> Vec<String> {
    let lacking = wanted.iter().enumerate().filter(|(_, label)| !found.contains(label));
    let statement = |(index, label): (usize, &String)| {
        let place =
            match (index.checked_sub(1), wanted[index + 1..].iter().find(|label| found.contains(label))) {
                (Some(before), _) => format!(" AFTER {}", literal(&wanted[before])),
                (None, Some(behind)) => format!(" BEFORE {}", literal(behind)),
                (None, None) => String::new(),
            };
        format!("ALTER TYPE {name} ADD VALUE {}{place}", literal(label))
    };
    lacking.map(statement).collect()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Consistency, Deletes};

    // Table behaviour 10
    #[test]
    fn a_table_is_made_with_the_exact_types_of_the_source() {
        let sql = step(&Step::Create, &description().source, &description());
        assert_eq!(
            sql,
            "CREATE TABLE \"Shop\".\"Orders\" (\"Id\" bigint NOT NULL, \"na\"\"me\" text COLLATE pg_catalog.\"C\", \
             PRIMARY KEY (\"Id\"))"
        );
    }

    #[test]
    fn a_column_is_added_as_the_source_has_it() {
        let column =
            WantedColumn { name: "na\"me".to_owned(), type_name: "text".to_owned(), not_null: false };
        assert_eq!(
            step(&Step::AddColumn(column), &description().source, &description()),
            "ALTER TABLE \"Shop\".\"Orders\" ADD COLUMN \"na\"\"me\" text COLLATE pg_catalog.\"C\""
        );
    }

    #[test]
    fn types_are_made_and_labels_added_at_their_place() {
        let there = |labels: &[&str]| BTreeMap::from([("public.mood".to_owned(), mood(labels))]);
        let plan = |wanted: &[&str], found: &[&str]| types(&[mood(wanted)], &there(found)).unwrap();
        assert_eq!(
            types(&[mood(&["sad", "it's"])], &BTreeMap::new()).unwrap(),
            ["CREATE TYPE public.mood AS ENUM ('sad', 'it''s')"]
        );
        assert!(plan(&["a", "b"], &["a", "b"]).is_empty());
        assert_eq!(
            plan(&["a", "b", "c", "d"], &["c"]),
            [
                "ALTER TYPE public.mood ADD VALUE 'a' BEFORE 'c'",
                "ALTER TYPE public.mood ADD VALUE 'b' AFTER 'a'",
                "ALTER TYPE public.mood ADD VALUE 'd' AFTER 'c'",
            ]
        );
        let domain = posint("CHECK ((VALUE > 0))");
        let other = BTreeMap::from([("public.posint".to_owned(), posint("CHECK ((VALUE > 1))"))]);
        let misfit = types(&[domain], &other).unwrap_err().to_string();
        assert!(misfit.contains("public.posint") && misfit.contains("VALUE > 1"), "{misfit}");
    }

    #[test]
    fn the_schema_of_a_type_is_found_whatever_quotes_it_needs() {
        for (name, schema) in
            [("public.mood", "public"), ("\"my.\"\"Shop\".\"a.b\"", "my.\"Shop"), ("\"Shop\".mood", "Shop")]
        {
            assert_eq!(schema_of(name).as_deref(), Some(schema), "{name}");
        }
    }

    fn mood(labels: &[&str]) -> CustomType {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        CustomType::Enum { name: "public.mood".to_owned(), labels }
    }

    fn posint(check: &str) -> CustomType {
        CustomType::Domain {
            name: "public.posint".to_owned(),
            base: "integer".to_owned(),
            checks: vec![check.to_owned()],
            not_null: false,
        }
    }

    fn description() -> TableDescription {
        let column = |name: &str, type_name: &str, not_null, collation| Column {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            binary: true,
            not_null,
            collation,
        };
        TableDescription {
            table: "orders".to_owned(),
            source: SourceName { schema: "Shop".to_owned(), table: "Orders".to_owned() },
            consistency: Consistency::Strict,
            deletes: Deletes::Tombstones,
            schema_version: "1".to_owned(),
            cursor_column: "at".to_owned(),
            key: vec!["Id".to_owned()],
            loose_key: Vec::new(),
            columns: vec![
                column("Id", "bigint", true, None),
                column("na\"me", "text", false, Some("pg_catalog.\"C\"".to_owned())),
            ],
            types: Vec::new(),
            rows_estimate: None,
        }
    }
}
