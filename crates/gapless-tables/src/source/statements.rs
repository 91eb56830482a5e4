//! The statements that read a page.

use gapless_core::{Mark, Place, TableStep};
use tokio_postgres::types::ToSql;

use super::raw::Bytes;
use super::table::{DELETED_AT, STAMP, SourceTable};
use super::texts::Native;
use crate::quoting::identifier;
use crate::wire::{Column, Consistency};

/// How the values of a page are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Values {
    /// In PostgreSQL's binary form, where that means the same everywhere.
    Binary,
    /// As texts, but for those that are [written here](Native), which are read in their binary form.
    Text,
}

impl Values {
    /// Whether those of a column are read as texts.
    pub(crate) fn are_texts(self, column: &Column) -> bool {
        !column.binary || (self == Self::Text && Native::of(column).is_none())
    }
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
    /// Rows behind this place are left to the next page.
    pub(crate) fence: Option<Place>,
}

/// So many rows are looked at for a page that takes only some of them.
const LOOKED_AT_MAX: u32 = 100_000;

/// Finds the place where a step ends for now, if there is one: behind the most rows that are looked at for a page, where only some of
/// them are wanted. So each page is read in time, however few those are.
pub(crate) fn fence(table: &SourceTable, step: TableStep<'_>, before: Option<i64>) -> Option<Statement> {
    let reading = Reading { table, values: Values::Text, limit: 1, before, fence: None };
    let legs = reading.legs();
    let leg = legs.first()?;
    let mut statement = Statement::default();
    let conditions = match (step, table.config.consistency) {
        (TableStep::Late { base, up_to, after, .. }, Consistency::Watched) => {
            reading.watched_range(leg, &mut statement, base, up_to, after)
        }
        (TableStep::Forward { after, is_initial: true, .. }, _) if table.live.is_some() => {
            reading.forward_range(leg, &mut statement, after)
        }
        (TableStep::Begin | TableStep::Late { .. } | TableStep::Forward { .. }, _) => return None,
    };
    let conditions = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let (at, relation, key) = (&leg.at, leg.relation, leg.key.join(", "));
    statement.sql = format!(
        "SELECT 0::int2, {at}, NULL::xid8, {key} FROM {relation} t WHERE {conditions} ORDER BY {at}, {key} OFFSET {} LIMIT 1",
        LOOKED_AT_MAX - 1
    );
    Some(statement)
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
            (TableStep::Late { base, mark, up_to, after }, _) if is_stamped => {
                Some(self.late_by_stamp(base, mark, up_to, after))
            }
            (TableStep::Late { base, mark, up_to, after }, _) => Some(
                self.union(self.legs(), |leg, statement| self.late(leg, statement, base, mark, up_to, after)),
            ),
            (TableStep::Forward { base, mark, after, is_initial }, _) => {
                // Who has nothing yet needs to delete nothing.
                let legs = self.legs().into_iter().filter(|leg| !(is_initial && leg.is_tombstones)).collect();
                Some(self.union(legs, |leg, statement| {
                    let mut conditions = self.forward(leg, statement, base, mark, after);
                    conditions.extend(self.table.live.clone().filter(|_| is_initial));
                    conditions
                }))
            }
        }
    }

    /// Rows that come late, by transaction and key: of those that were open at the base, one after the other, and then of all that began
    /// to write later. So what was written since some transaction began that is open for long isn't read again and again.
    fn late_by_stamp(&self, base: &Mark, mark: &Mark, up_to: &Place, after: Option<&Place>) -> Statement {
        let mut statement = Statement::default();
        let limit = statement.param(self.limit);
        let ended: Vec<String> =
            mark.snapshot.ended_since(&base.snapshot).iter().map(ToString::to_string).collect();
        let ended = statement.param(ended);
        let mut selects = Vec::new();
        for leg in self.legs() {
            let Some(stamp) = leg.stamp.clone() else { continue };
            let is_behind = self.compared(&leg, &mut statement, &leg.at, "<", up_to);
            // So that this isn't taken for a good range to read, which it never is; neither is the order of the key alone, which
            // would do for a single transaction.
            let mut conditions = vec![format!("({is_behind}) IS TRUE")];
            conditions.extend(after.map(|after| self.beyond(&leg, &mut statement, &stamp, after)));
            let of_one =
                [conditions.clone(), vec![format!("{stamp} BETWEEN s.xid::xid8 AND s.xid::xid8")]].concat();
            let of_one = self.select(&leg, of_one, &stamp, &limit);
            let (order, ended) = (self.order("stamp"), format!("unnest({ended}::text[]) s (xid)"));
            selects.push(format!(
                "(SELECT l.* FROM {ended} CROSS JOIN LATERAL {of_one} l ORDER BY {order} LIMIT {limit})"
            ));
            conditions.push(format!("{stamp} >= {}", statement.xid(base.snapshot.xmax())));
            conditions.push(format!("{stamp} < {}", statement.xid(mark.snapshot.xmax())));
            conditions.push(self.is_ended(&stamp, &mut statement, mark));
            selects.push(self.select(&leg, conditions, &stamp, &limit));
        }
        statement.sql = self.merged(&selects, "stamp", &limit);
        statement
    }

    /// Rows that come late, where only those of the deleted keys are stamped.
    fn late(
        &self,
        leg: &Leg<'_>,
        statement: &mut Statement,
        base: &Mark,
        mark: &Mark,
        up_to: &Place,
        after: Option<&Place>,
    ) -> Vec<String> {
        let up_to = self.fence.as_ref().unwrap_or(up_to);
        let mut conditions = self.watched_range(leg, statement, base, up_to, after);
        if let Some(stamp) = &leg.stamp {
            conditions.push(self.is_ended(stamp, statement, mark));
            conditions.push(format!("NOT {}", self.is_ended(stamp, statement, base)));
        } else {
            conditions.push(self.may_be_open(statement, base));
        }
        conditions
    }

    /// Where rows may be that come late, by cursor column and key.
    fn watched_range(
        &self,
        leg: &Leg<'_>,
        statement: &mut Statement,
        base: &Mark,
        up_to: &Place,
        after: Option<&Place>,
    ) -> Vec<String> {
        let mut conditions = vec![self.compared(leg, statement, &leg.at, "<", up_to)];
        if let Some(oldest) = base.oldest_start {
            conditions.push(format!("{} >= {}", leg.at, statement.cursor(self.table, oldest)));
        }
        conditions.extend(after.map(|after| self.beyond(leg, statement, &leg.at, after)));
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
        let mut conditions = self.forward_range(leg, statement, after);
        if let Some(fence) = &self.fence {
            conditions.push(self.compared(leg, statement, &leg.at, "<", fence));
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

    /// Where rows are that come next, by cursor column and key.
    fn forward_range(&self, leg: &Leg<'_>, statement: &mut Statement, after: Option<&Place>) -> Vec<String> {
        let mut conditions = Vec::new();
        if let Some(after) = after {
            conditions.push(self.beyond(leg, statement, &leg.at, after));
        }
        if let Some(before) = self.before {
            conditions.push(format!("{} < {}", leg.at, statement.cursor(self.table, before)));
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

    /// Rows of all legs that meet conditions, by cursor column and key.
    fn union(
        &self,
        legs: Vec<Leg<'_>>,
        conditions: impl Fn(&Leg<'_>, &mut Statement) -> Vec<String>,
    ) -> Statement {
        let mut statement = Statement::default();
        let limit = statement.param(self.limit);
        let selects: Vec<String> = legs
            .iter()
            .map(|leg| {
                let conditions = conditions(leg, &mut statement);
                self.select(leg, conditions, &leg.at, &limit)
            })
            .collect();
        statement.sql = self.merged(&selects, "at", &limit);
        statement
    }

    fn select(&self, leg: &Leg<'_>, mut conditions: Vec<String>, order: &str, limit: &str) -> String {
        conditions.extend(leg.is_tombstones.then(|| self.is_gone()));
        let conditions = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        let (columns, relation, key) = (self.columns(leg), leg.relation, leg.key.join(", "));
        format!(
            "(SELECT {columns} FROM {relation} t WHERE {conditions} ORDER BY {order}, {key} LIMIT {limit})"
        )
    }

    fn merged(&self, selects: &[String], first: &str, limit: &str) -> String {
        match selects {
            [only] => only.clone(),
            several => {
                let (rows, order) = (several.join(" UNION ALL "), self.order(first));
                format!("SELECT * FROM ({rows}) x ORDER BY {order} LIMIT {limit}")
            }
        }
    }

    /// The order of selected rows.
    fn order(&self, first: &str) -> String {
        let key = (0..self.table.found.key.len()).map(|index| format!("k{index}"));
        [first.to_owned()].into_iter().chain(key).collect::<Vec<_>>().join(", ")
    }

    /// A key that is there again isn't deleted, whatever was noted before.
    fn is_gone(&self) -> String {
        let names = self.table.found.key.iter().map(|column| identifier(&column.name));
        let same: Vec<String> = names.map(|name| format!("r.{name} = t.{name}")).collect();
        format!("NOT EXISTS (SELECT 1 FROM {} r WHERE {})", self.table.relation, same.join(" AND "))
    }

    fn columns(&self, leg: &Leg<'_>) -> &str {
        let form = match self.values {
            Values::Binary => 0,
            Values::Text => 2,
        };
        let selected = &self.table.selected[form + usize::from(leg.is_tombstones)];
        selected.get_or_init(|| self.column_list(leg))
    }

    fn column_list(&self, leg: &Leg<'_>) -> String {
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

    fn value(&self, column: &Column) -> String {
        let name = format!("t.{}", identifier(&column.name));
        if self.values.are_texts(column) { format!("{name}::text") } else { name }
    }

    fn type_of<'a>(&self, column: &'a Column) -> &'a str {
        if self.values.are_texts(column) { "text" } else { &column.type_name }
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
    /// The parameters as they are sent.
    pub(crate) fn borrowed(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(|param| param.as_ref() as &(dyn ToSql + Sync)).collect()
    }

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
