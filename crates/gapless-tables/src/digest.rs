//! What says in a few bytes whether two tables hold the same rows.
//!
//! Source and copy compute it with the same SQL. The hash of a row is the first 8 bytes of the MD5 of its columns, each as its length in bytes, a
//! colon and its text, or `N` for NULL, so that no two rows read the same. That of a range is the sum of its rows' hashes, in whatever order.

use md5::{Digest as _, Md5};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::quoting::identifier;
use crate::wire::{Column, KeyRange, RowDigest};

/// Settings of a connection under which values have the same texts everywhere.
pub(crate) const TEXTS: &str = "
    SET TimeZone = 'UTC';
    SET DateStyle = 'ISO, YMD';
    SET IntervalStyle = 'postgres';
    SET bytea_output = 'hex';
    SET extra_float_digits = 1;
    SET xmlbinary = 'base64';
    SET lc_monetary = 'C';
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

    /// The key of a range's last row, counted up to a number, if it has as many; as an array of texts.
    pub(crate) fn last_of(&self, range: &KeyRange, rows: u32) -> String {
        let key: Vec<String> = self.names().map(|name| format!("{name}::text")).collect();
        let order: Vec<String> = self.names().collect();
        format!(
            "SELECT ARRAY[{}] FROM {} t WHERE {} ORDER BY {} OFFSET {} LIMIT 1",
            key.join(", "),
            self.relation,
            self.conditions(range),
            order.join(", "),
            rows.saturating_sub(1)
        )
    }

    /// The hashes of the rows that have some keys, as far as there are such: which of the keys, from 1, and the hash. The texts of each column
    /// of the keys are an array, `$1`, `$2` ….
    pub(crate) fn of_keys(&self) -> String {
        format!("SELECT k.n, {}::text FROM {}", self.hash(), self.by_keys("JOIN"))
    }

    /// Keys that are asked for as `k`, each with its place `n`, and the row of each as `t`.
    pub(crate) fn by_keys(&self, join: &str) -> String {
        let arrays: Vec<String> = (1..=self.key.len()).map(|place| format!("${place}::text[]")).collect();
        let asked: Vec<String> = (1..=self.key.len()).map(|place| format!("k{place}")).collect();
        let same = self.key.iter().zip(self.names()).zip(&asked);
        let same = same.map(|((column, name), asked)| format!("{name} = k.{asked}::{}", column.type_name));
        // What makes a row count may use names that the keys have, too, and so stands where only the table's are known.
        let conditions: Vec<String> = self.live.iter().map(|live| (*live).to_owned()).chain(same).collect();
        format!(
            "unnest({}) WITH ORDINALITY AS k ({}, n) {join} LATERAL (SELECT t.* FROM {} t WHERE {}) t ON true",
            arrays.join(", "),
            asked.join(", "),
            self.relation,
            conditions.join(" AND ")
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

/// The texts of some keys, column by column; as many columns as are wanted.
pub(crate) fn by_column(keys: &[Vec<String>], columns: usize) -> Vec<Vec<&str>> {
    (0..columns)
        .map(|column| keys.iter().filter_map(|key| Some(key.get(column)?.as_str())).collect())
        .collect()
}

/// The hash of a row that has one of some keys, as [`Compared::of_keys`] gives it.
pub(crate) fn of_key(row: &Row, keys: &[Vec<String>]) -> Option<RowDigest> {
    let place = usize::try_from(row.try_get::<_, i64>(0).ok()? - 1).ok()?;
    Some(RowDigest { key: keys.get(place)?.clone(), digest: row.try_get(1).ok()? })
}

/// The hash of a row, given the texts of its columns; what the SQL computes, too.
pub(crate) fn row_hash(texts: &[Option<&[u8]>]) -> i64 {
    let mut md5 = Md5::new();
    for text in texts {
        match text {
            None => md5.update(b"N"),
            Some(text) => {
                md5.update(format!("{}:", text.len()));
                md5.update(text);
            }
        }
    }
    let digest = md5.finalize();
    i64::from_be_bytes(*digest.first_chunk().expect("a digest has 16 bytes"))
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
