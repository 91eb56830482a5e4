//! What says in a few bytes whether two tables hold the same rows.
//!
//! Source and copy compute it with the same SQL. The hash of a row is the first 8 bytes of the MD5 of its columns, each as its length in bytes, a
//! colon and its text, or `N` for NULL, so that no two rows read the same. That of a range is the sum of its rows' hashes, in whatever order.

use tokio_postgres::types::ToSql;

use crate::quoting::identifier;
use crate::wire::{Column, KeyRange};

/// Settings of a connection under which values have the same texts everywhere.
pub(crate) const TEXTS: &str = "
    SET TimeZone = 'UTC';
    SET DateStyle = 'ISO, YMD';
    SET IntervalStyle = 'postgres';
    SET bytea_output = 'hex';
    SET extra_float_digits = 1;
    SET xmlbinary = 'base64';
";

/// A table whose rows are compared.
pub(crate) struct Compared<'a> {
    /// Its name, quoted.
    pub(crate) relation: &'a str,
    pub(crate) columns: &'a [Column],
    pub(crate) key: &'a [Column],
    /// Which rows count, under the alias `t`; all without it.
    pub(crate) live: Option<&'a str>,
}

impl Compared<'_> {
    /// How many rows a range has, and the sum of their hashes. Bounds are `$1`, `$2` …, first those of `after`.
    pub(crate) fn sum(&self, range: &KeyRange) -> String {
        format!(
            "SELECT count(*), coalesce(sum({}), 0)::text FROM {} t WHERE {}",
            self.hash(),
            self.relation,
            self.conditions(range)
        )
    }

    /// The keys of a range in their order, each as an array of texts, with the hashes of their rows; at most so many.
    pub(crate) fn rows(&self, range: &KeyRange, limit: u32) -> String {
        let key: Vec<String> = self.names().map(|name| format!("{name}::text")).collect();
        let order: Vec<String> = self.names().collect();
        format!(
            "SELECT ARRAY[{}], {}::text FROM {} t WHERE {} ORDER BY {} LIMIT {limit}",
            key.join(", "),
            self.hash(),
            self.relation,
            self.conditions(range),
            order.join(", ")
        )
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.key.iter().map(|column| format!("t.{}", identifier(&column.name)))
    }

    fn hash(&self) -> String {
        let columns = self.columns.iter().map(|column| {
            let text = format!("t.{}::text", identifier(&column.name));
            format!("coalesce(octet_length({text}) || ':' || {text}, 'N')")
        });
        let joined = columns.collect::<Vec<_>>().join(" || ");
        format!("('x' || substr(md5({joined}), 1, 16))::bit(64)::bigint")
    }

    fn conditions(&self, range: &KeyRange) -> String {
        let mut conditions: Vec<String> = self.live.iter().map(|live| (*live).to_owned()).collect();
        let mut next = 1;
        for (how, bound) in [(">", &range.after), ("<=", &range.up_to)] {
            if bound.is_none() {
                continue;
            }
            let params: Vec<String> = self
                .key
                .iter()
                .enumerate()
                .map(|(index, column)| format!("${}::text::{}", next + index, column.type_name))
                .collect();
            next += self.key.len();
            let names: Vec<String> = self.names().collect();
            conditions.push(format!("({}) {how} ({})", names.join(", "), params.join(", ")));
        }
        if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") }
    }
}

/// The parameters of a range's bounds.
pub(crate) fn params(range: &KeyRange) -> Vec<&(dyn ToSql + Sync)> {
    let bounds = [&range.after, &range.up_to].into_iter().flatten().flatten();
    bounds.map(|text| text as &(dyn ToSql + Sync)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_has_a_parameter_a_key_column() {
        let column = |name: &str, kind: &str| Column {
            name: name.to_owned(),
            type_name: kind.to_owned(),
            binary: true,
            not_null: true,
            collation: None,
        };
        let key = [column("a", "bigint"), column("b", "uuid")];
        let compared = Compared { relation: "x", columns: &key, key: &key, live: Some("t.ok") };
        let both = |text: &str| Some(vec![text.to_owned(), text.to_owned()]);
        let range = KeyRange { after: None, up_to: both("1") };
        let sql = compared.sum(&range);
        assert!(
            sql.ends_with(r#"WHERE t.ok AND (t."a", t."b") <= ($1::text::bigint, $2::text::uuid)"#),
            "{sql}"
        );
        assert_eq!(params(&range).len(), 2);
        let range = KeyRange { after: both("1"), up_to: both("2") };
        assert!(compared.rows(&range, 5).contains("($3::text::bigint, $4::text::uuid)"));
        assert_eq!(params(&range).len(), 4);
    }
}
