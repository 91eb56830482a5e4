//! `table-depth`: what a page costs, the deeper it is.

use std::time::{Instant, SystemTime};

use anyhow::Context as _;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::Conditions;
use crate::database::{Database, Databases};
use crate::exhibit::{Exhibit, Line};
use crate::figure::median;
use crate::finding::{Check, Outcome};

/// How deep the pages are, in percent of the table.
const DEPTHS_PERCENT: [u64; 6] = [0, 1, 10, 25, 50, 99];
/// How often a page is asked for; the median counts.
const ROUNDS: usize = 7;
/// How many times as many blocks the last page may take as the first one, and still cost the same.
const SAME_TIMES: u64 = 3;
/// How many times as many show that a page costs what comes before it.
const GROWN_TIMES: u64 = 20;

/// A way to ask for the page behind a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Offset,
    Or,
    RowComparison,
}

/// The row that a page comes behind.
struct Place {
    rows: i64,
    time: SystemTime,
    id: i64,
}

/// What one page cost.
struct Cost {
    milliseconds: f64,
    blocks: u64,
}

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let rows = conditions.size.pick(200_000, 1_000_000);
    let database = databases.fresh().await?;
    let costs = measure(&database, rows).await?;
    database.discard().await?;

    let mut checks = Vec::new();
    let (mut latencies, mut blocks) = (Vec::new(), Vec::new());
    for (form, costs) in Form::ALL.into_iter().zip(&costs) {
        let name = form.name().to_owned();
        latencies
            .push(Line { name: name.clone(), values: costs.iter().map(|cost| cost.milliseconds).collect() });
        blocks.push(Line { name, values: costs.iter().map(|cost| cost.blocks as f64).collect() });
        checks.push(form.check(costs)?);
    }
    let places: Vec<_> = DEPTHS_PERCENT.iter().map(|percent| rows * percent / 100).collect();
    let lines = |title: &str, lines| Exhibit::Lines {
        title: title.to_owned(),
        across: "rows before the page".to_owned(),
        places: places.clone(),
        lines,
    };
    let exhibits = vec![
        lines(&format!("milliseconds for a page of 200 rows out of {rows}, median of {ROUNDS}"), latencies),
        lines("blocks of 8 KiB that PostgreSQL looks at for it", blocks),
    ];
    Ok(Outcome { checks, exhibits })
}

/// The costs of each form, at each depth.
async fn measure(database: &Database, rows: u64) -> anyhow::Result<Vec<Vec<Cost>>> {
    let client = database.postgres().await?;
    fill(&client, rows).await?;
    let mut places = Vec::new();
    for percent in DEPTHS_PERCENT {
        places.push(Place::find(&client, i64::try_from(rows * percent / 100)?).await?);
    }
    let mut costs = Vec::new();
    for form in Form::ALL {
        let page = client.prepare(form.page_sql()).await?;
        let explained = client.prepare(&format!("EXPLAIN (ANALYZE, BUFFERS) {}", form.page_sql())).await?;
        let mut at_depths = Vec::new();
        for place in &places {
            at_depths.push(form.cost(&client, &page, &explained, place).await?);
        }
        costs.push(at_depths);
    }
    Ok(costs)
}

/// Orders as a table of them may hold: wide rows, which weren't written in the order of their timestamps, and five of which share each of these.
async fn fill(client: &Client, rows: u64) -> anyhow::Result<()> {
    let fill = format!(
        "CREATE TABLE lab_deep (id bigint PRIMARY KEY, status text NOT NULL, note text NOT NULL, updated_at timestamptz NOT NULL);
         INSERT INTO lab_deep SELECT id, 'paid', repeat('x', 100),
             timestamptz '2026-01-01' + (id * 7919 % {rows}) / 5 * interval '1 millisecond'
         FROM generate_series(1::bigint, {rows}) AS id;
         CREATE INDEX lab_deep_cursor ON lab_deep (updated_at, id);"
    );
    client.batch_execute(&fill).await.context("filling a deep table")?;
    client.batch_execute("VACUUM (ANALYZE) lab_deep").await.context("tidying a deep table")
}

impl Form {
    const ALL: [Self; 3] = [Self::Offset, Self::Or, Self::RowComparison];

    const fn name(self) -> &'static str {
        match self {
            Self::Offset => "OFFSET",
            Self::Or => "OR",
            Self::RowComparison => "row comparison",
        }
    }

    const fn page_sql(self) -> &'static str {
        match self {
            Self::Offset => "SELECT * FROM lab_deep ORDER BY updated_at, id OFFSET $1 LIMIT 201",
            Self::Or => {
                "SELECT * FROM lab_deep WHERE updated_at > $1 OR (updated_at = $1 AND id > $2) \
                 ORDER BY updated_at, id LIMIT 201"
            }
            Self::RowComparison => {
                "SELECT * FROM lab_deep WHERE (updated_at, id) > ($1, $2) ORDER BY updated_at, id LIMIT 201"
            }
        }
    }

    async fn cost(
        self,
        client: &Client,
        page: &Statement,
        explained: &Statement,
        place: &Place,
    ) -> anyhow::Result<Cost> {
        let parameters = self.parameters(place);
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let asked_at = Instant::now();
            client.query(page, &parameters).await?;
            rounds.push(asked_at.elapsed().as_secs_f64() * 1e3);
        }
        let plan = client.query(explained, &parameters).await?;
        let plan: Vec<_> = plan.iter().map(|line| line.get::<_, String>(0)).collect();
        Ok(Cost { milliseconds: rounded(median(&rounds)), blocks: blocks(&plan)? })
    }

    fn parameters(self, place: &Place) -> Vec<&(dyn ToSql + Sync)> {
        match self {
            Self::Offset => vec![&place.rows],
            Self::Or | Self::RowComparison => vec![&place.time, &place.id],
        }
    }

    /// Time depends on the machine; the blocks that a page takes don't.
    fn check(self, costs: &[Cost]) -> anyhow::Result<Check> {
        let (Some(first), Some(last)) = (costs.first(), costs.last()) else {
            anyhow::bail!("no depth was measured");
        };
        let times = last.blocks / first.blocks.max(1);
        let what = format!("{}: blocks for the last page by those for the first", self.name());
        Ok(match self {
            Self::Offset | Self::Or => Check::at_least(&what, GROWN_TIMES, times),
            Self::RowComparison => Check::at_most(&what, SAME_TIMES, times),
        })
    }
}

impl Place {
    async fn find(client: &Client, rows: i64) -> anyhow::Result<Self> {
        let before =
            "SELECT updated_at, id FROM lab_deep ORDER BY updated_at, id OFFSET $1::bigint - 1 LIMIT 1";
        if rows == 0 {
            return Ok(Self { rows, time: SystemTime::UNIX_EPOCH, id: 0 });
        }
        let row = client.query_one(before, &[&rows]).await?;
        Ok(Self { rows, time: row.get(0), id: row.get(1) })
    }
}

/// How many blocks a query looked at, by the lines of its explained plan: the first that tells is that of all of it.
fn blocks(plan: &[String]) -> anyhow::Result<u64> {
    let told = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared "));
    let counts = told.with_context(|| format!("no blocks in {plan:?}"))?.split(' ').filter_map(|count| {
        let (kind, count) = count.split_once('=')?;
        matches!(kind, "hit" | "read").then(|| count.parse::<u64>())
    });
    Ok(counts.sum::<Result<u64, _>>()?)
}

fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_count_wherever_they_come_from() {
        let plan = [
            "Limit  (actual rows=201)",
            "  Buffers: shared hit=7 read=5 dirtied=2",
            "  ->  Scan",
            "Buffers: shared hit=1",
        ];
        assert_eq!(blocks(&plan.map(str::to_owned)).unwrap(), 12);
        assert!(blocks(&[]).is_err());
    }

    #[test]
    fn a_form_that_grows_and_one_that_does_not_are_told_apart() {
        let costs = |blocks: [u64; 2]| blocks.map(|blocks| Cost { milliseconds: 1.0, blocks });
        let holds = |form: Form, blocks| form.check(&costs(blocks)).unwrap().holds();
        assert!(holds(Form::Offset, [10, 1_000]) && !holds(Form::Offset, [10, 30]));
        assert!(holds(Form::RowComparison, [10, 30]) && !holds(Form::RowComparison, [10, 1_000]));
    }
}
