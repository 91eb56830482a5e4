//! The statements that read a page.

use gapless_core::{Mark, Place, TableStep};
use tokio_postgres::types::ToSql;

use super::raw::Bytes;
use super::table::{DELETED_AT, STAMP, SourceTable};
use crate::quoting::identifier;
use crate::wire::{Column, Consistency};

/// How the values of a page are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Values {
    /// In PostgreSQL's binary form, where that means the same everywhere.
    Binary,
    /// As texts.
    Text,
}

/// A statement with its parameters. Its text depends only on what kinds of bounds there are, so that it is prepared once.
#[derive(Default)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) params: Vec<Param>,
}

pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// Columns of a page before those of the table: the op, the cursor column, and the transaction that wrote the row; then the key's.
pub(crate) const LEADING: usize = 3;

/// What a page is read from, and how.
pub(crate) struct Reading<'a> {
    pub(crate) table: &'a SourceTable,
    pub(crate) values: Values,
    /// The most rows.
    pub(crate) limit: i64,
    /// Rows are passed over whose cursor column has this value or a later one; only where they are read a fixed time late.
    pub(crate) before: Option<i64>,
}

/// A table that rows come from, under an alias: the table itself, or the deleted keys.
struct Leg<'a> {
    relation: &'a str,
    at: String,
    stamp: Option<String>,
    key: Vec<String>,
    is_tombstones: bool,
}

impl Reading<'_> {
    /// The statement of a step, if there is anything to read.
    pub(crate) fn statement(&self, step: TableStep<'_>) -> Option<Statement> {
        let is_stamped = self.table.is_stamped();
        match (step, self.table.config.consistency) {
            (TableStep::Begin, _) | (TableStep::Late { .. }, Consistency::BestEffort) => None,
            (TableStep::Late { base, mark, up_to, after }, _) => {
                Some(self.union(is_stamped, self.legs(), |leg, statement| {
                    self.late(leg, statement, base, mark, up_to, after)
                }))
            }
            (TableStep::Forward { base, mark, after, is_initial }, _) => {
                // Who has nothing yet needs to delete nothing.
                let legs = self.legs().into_iter().filter(|leg| !(is_initial && leg.is_tombstones)).collect();
                Some(self.union(false, legs, |leg, statement| {
                    let mut conditions = self.forward(leg, statement, base, mark, after);
                    conditions.extend(self.table.live.clone().filter(|_| is_initial));
                    conditions
                }))
            }
        }
    }

    fn late(
        &self,
        leg: &Leg<'_>,
        statement: &mut Statement,
        base: &Mark,
        mark: &Mark,
        up_to: &Place,
        after: Option<&Place>,
    ) -> Vec<String> {
        let mut conditions = vec![self.compared(leg, statement, &leg.at, "<", up_to)];
        if let Some(stamp) = &leg.stamp {
            conditions.push(format!("{stamp} >= {}", statement.xid(base.snapshot.xmin())));
            conditions.push(self.is_ended(stamp, statement, mark));
            conditions.push(format!("NOT {}", self.is_ended(stamp, statement, base)));
        } else {
            conditions.push(self.may_be_open(statement, base));
            if let Some(oldest) = base.oldest_start {
                conditions.push(format!("{} >= {}", leg.at, statement.cursor(self.table, oldest)));
            }
        }
        if let Some(after) = after {
            let order = if self.table.is_stamped() { leg.stamp.clone() } else { None };
            let order = order.unwrap_or_else(|| leg.at.clone());
            conditions.push(self.beyond(leg, statement, &order, after));
        }
        conditions
    }

    fn forward(
        &self,
        leg: &Leg<'_>,
        statement: &mut Statement,
        base: Option<&Mark>,
        mark: &Mark,
        after: Option<&Place>,
    ) -> Vec<String> {
        let mut conditions = Vec::new();
        if let Some(after) = after {
            conditions.push(self.beyond(leg, statement, &leg.at, after));
        }
        if let Some(before) = self.before {
            conditions.push(format!("{} < {}", leg.at, statement.cursor(self.table, before)));
        }
        if let (true, Some(stamp)) = (self.table.is_stamped(), &leg.stamp) {
            let is_ended = self.is_ended(stamp, statement, mark);
            match base {
                // Rows that were there before the stamp have none.
                None => conditions.push(format!("({stamp} IS NULL OR {is_ended})")),
                Some(base) => {
                    conditions.push(is_ended);
                    conditions.push(format!("NOT {}", self.is_ended(stamp, statement, base)));
                }
            }
        }
        conditions
    }

    /// The table, and the deleted keys.
    fn legs(&self) -> Vec<Leg<'_>> {
        let rows = Leg {
            relation: &self.table.relation,
            at: format!("t.{}", identifier(&self.table.found.cursor.name)),
            stamp: self.table.is_stamped().then(|| format!("t.{STAMP}")),
            key: self.key(),
            is_tombstones: false,
        };
        let tombstones = self.table.tombstones.as_ref().map(|relation| Leg {
            relation,
            at: format!("t.{DELETED_AT}"),
            stamp: Some(format!("t.{STAMP}")),
            key: self.key(),
            is_tombstones: true,
        });
        [Some(rows), tombstones].into_iter().flatten().collect()
    }

    /// Rows of all legs that meet conditions, in one order.
    fn union(
        &self,
        by_stamp: bool,
        legs: Vec<Leg<'_>>,
        conditions: impl Fn(&Leg<'_>, &mut Statement) -> Vec<String>,
    ) -> Statement {
        let mut statement = Statement::default();
        let limit = statement.param(self.limit);
        let selects: Vec<String> = legs
            .iter()
            .map(|leg| {
                let mut conditions = conditions(leg, &mut statement);
                conditions.extend(leg.is_tombstones.then(|| self.is_gone()));
                let conditions =
                    if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
                let order = match (&leg.stamp, by_stamp) {
                    (Some(stamp), true) => stamp,
                    _ => &leg.at,
                };
                format!(
                    "(SELECT {} FROM {} t WHERE {conditions} ORDER BY {order}, {} LIMIT {limit})",
                    self.columns(leg),
                    leg.relation,
                    leg.key.join(", "),
                )
            })
            .collect();
        let order: Vec<String> = (0..self.table.found.key.len()).map(|index| format!("k{index}")).collect();
        let first = if by_stamp { "stamp" } else { "at" };
        statement.sql = match selects.as_slice() {
            [only] => only.clone(),
            both => format!(
                "SELECT * FROM ({}) x ORDER BY {first}, {} LIMIT {limit}",
                both.join(" UNION ALL "),
                order.join(", ")
            ),
        };
        statement
    }

    /// A key that is there again isn't deleted, whatever was noted before.
    fn is_gone(&self) -> String {
        let names = self.table.found.key.iter().map(|column| identifier(&column.name));
        let same: Vec<String> = names.map(|name| format!("r.{name} = t.{name}")).collect();
        format!("NOT EXISTS (SELECT 1 FROM {} r WHERE {})", self.table.relation, same.join(" AND "))
    }

    fn columns(&self, leg: &Leg<'_>) -> String {
        let found = &self.table.found;
        let live = self.table.live.as_ref().filter(|_| !leg.is_tombstones);
        let op = match (leg.is_tombstones, live) {
            (true, _) => "1::int2".to_owned(),
            (false, None) => "0::int2".to_owned(),
            (false, Some(live)) => format!("CASE WHEN {live} THEN 0::int2 ELSE 1::int2 END"),
        };
        let stamp = leg.stamp.clone().unwrap_or_else(|| "NULL::xid8".to_owned());
        let mut columns =
            vec![format!("{op} AS op"), format!("{} AS at", leg.at), format!("{stamp} AS stamp")];
        columns.extend(leg.key.iter().enumerate().map(|(index, key)| format!("{key} AS k{index}")));
        columns.extend(found.columns.iter().enumerate().map(|(index, column)| {
            let is_key = found.key.iter().any(|key| key.name == column.name);
            let value = self.value(column);
            let value = match (is_key, leg.is_tombstones, live) {
                (true, _, _) | (false, false, None) => value,
                (false, true, _) => format!("NULL::{}", self.type_of(column)),
                (false, false, Some(live)) => format!("CASE WHEN {live} THEN {value} END"),
            };
            format!("{value} AS c{index}")
        }));
        columns.join(", ")
    }

    fn key(&self) -> Vec<String> {
        self.table.found.key.iter().map(|column| format!("t.{}", identifier(&column.name))).collect()
    }

    fn is_text(&self, column: &Column) -> bool {
        self.values == Values::Text || !column.binary
    }

    fn value(&self, column: &Column) -> String {
        let name = format!("t.{}", identifier(&column.name));
        if self.is_text(column) { format!("{name}::text") } else { name }
    }

    fn type_of<'a>(&self, column: &'a Column) -> &'a str {
        if self.is_text(column) { "text" } else { &column.type_name }
    }

    /// Behind a place in an order.
    fn beyond(&self, leg: &Leg<'_>, statement: &mut Statement, order: &str, after: &Place) -> String {
        match after.key {
            Some(_) => self.compared(leg, statement, order, ">", after),
            None => format!("{order} >= {}", statement.cursor(self.table, after.at)),
        }
    }

    /// A row comparison, which an index of these columns serves as one range. "Less" takes the place itself, too.
    fn compared(
        &self,
        leg: &Leg<'_>,
        statement: &mut Statement,
        order: &str,
        how: &str,
        place: &Place,
    ) -> String {
        let is_stamp = leg.stamp.as_deref() == Some(order);
        let at = match is_stamp {
            true => statement.xid(u64::try_from(place.at).unwrap_or_default()),
            false => statement.cursor(self.table, place.at),
        };
        let Some(key) = &place.key else { return format!("{order} {how} {at}") };
        let how = if how == "<" { "<=" } else { how };
        let params: Vec<String> = key.iter().map(|value| statement.param(Bytes(value.clone()))).collect();
        format!("({order}, {}) {how} ({at}, {})", leg.key.join(", "), params.join(", "))
    }

    /// Whether the transaction that wrote a row had ended at a mark. The snapshot is read once, not for each row.
    fn is_ended(&self, stamp: &str, statement: &mut Statement, mark: &Mark) -> String {
        let snapshot = statement.param(mark.snapshot.to_string());
        format!("pg_visible_in_snapshot({stamp}, (SELECT {snapshot}::text::pg_snapshot))")
    }

    /// Whether the transaction that wrote a row, known by its last 32 bits, may have been open at a mark: it may be a subtransaction of
    /// one that was, and those aren't listed.
    fn may_be_open(&self, statement: &mut Statement, base: &Mark) -> String {
        const ROUND: i64 = 1 << 32;
        let first = i64::try_from(base.snapshot.xmin() % (1 << 32)).unwrap_or_default();
        let first = statement.param(first);
        format!(
            "(t.xmin::text::bigint - {first}::bigint + {ROUND}) % {ROUND} < {}",
            // Further ahead can't be: PostgreSQL stops before that.
            ROUND / 2
        )
    }
}

impl Statement {
    fn param(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.params.push(Box::new(value));
        format!("${}", self.params.len())
    }

    fn cursor(&mut self, table: &SourceTable, at: i64) -> String {
        self.param(table.found.cursor_kind.parameter(at))
    }

    fn xid(&mut self, xid: u64) -> String {
        self.param(Bytes(xid.to_be_bytes().to_vec()))
    }
}
