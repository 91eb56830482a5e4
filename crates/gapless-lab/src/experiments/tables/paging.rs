//! A reader that polls for pages, with a cursor of one of the usual kinds.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::holding::{Change, Holding};
use super::polling::{self, Poll};

/// How many rows a page has.
const PAGE_ROWS: usize = 200;

pub(super) struct Paging {
    client: Client,
    cursor: Cursor,
    page: Statement,
    count: Statement,
    holding: Holding,
}

/// Where a reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    form: Form,
    rows: i64,
    time: SystemTime,
    id: i64,
}

/// What of it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Offset,
    Id,
    TimeAfter,
    TimeFrom,
    Milliseconds,
    Compound,
    Delayed,
}

impl Paging {
    pub(super) async fn prepare(client: Client, cursor: Cursor) -> anyhow::Result<Self> {
        let page = client.prepare(&cursor.form.page_sql()).await?;
        let count = client.prepare("SELECT count(*) FROM orders").await?;
        Ok(Self { client, cursor, page, count, holding: Holding::new()? })
    }

    /// Reads until it is told to finish, and then until nothing new comes.
    pub(super) async fn read(mut self, finish: watch::Receiver<bool>) -> anyhow::Result<Holding> {
        polling::follow(&mut self, finish).await?;
        Ok(self.holding)
    }
}

impl Poll for Paging {
    async fn poll(&mut self) -> anyhow::Result<bool> {
        let count = match self.cursor.form {
            Form::Offset => self.client.query_one(&self.count, &[]).await?.get(0),
            Form::Id
            | Form::TimeAfter
            | Form::TimeFrom
            | Form::Milliseconds
            | Form::Compound
            | Form::Delayed => i64::MAX,
        };
        let mut is_news = false;
        while self.cursor.rows < count {
            let (before, asked_at) = (self.cursor, Instant::now());
            let page = self.client.query(&self.page, &before.parameters()).await?;
            self.holding.asked(asked_at)?;
            for row in &page {
                let change = Change::Written { id: row.get("id"), version: row.get("version") };
                is_news |= self.holding.take(change, Instant::now());
                self.cursor.pass(row)?;
            }
            if page.len() < PAGE_ROWS {
                break;
            }
            if self.cursor.is_at(&before) {
                self.holding.got_stuck();
                break;
            }
        }
        Ok(is_news)
    }
}

impl Cursor {
    const fn beginning(form: Form) -> Self {
        Self { form, rows: 0, time: SystemTime::UNIX_EPOCH, id: 0 }
    }

    pub(super) const fn offset() -> Self {
        Self::beginning(Form::Offset)
    }

    pub(super) const fn id() -> Self {
        Self::beginning(Form::Id)
    }

    pub(super) const fn time_after() -> Self {
        Self::beginning(Form::TimeAfter)
    }

    pub(super) const fn time_from() -> Self {
        Self::beginning(Form::TimeFrom)
    }

    pub(super) const fn milliseconds() -> Self {
        Self::beginning(Form::Milliseconds)
    }

    pub(super) const fn compound() -> Self {
        Self::beginning(Form::Compound)
    }

    pub(super) const fn delayed() -> Self {
        Self::beginning(Form::Delayed)
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        match self.form {
            Form::Offset => vec![&self.rows],
            Form::Id => vec![&self.id],
            Form::TimeAfter | Form::TimeFrom => vec![&self.time],
            Form::Milliseconds | Form::Compound | Form::Delayed => vec![&self.time, &self.id],
        }
    }

    /// Moves behind a row.
    fn pass(&mut self, row: &Row) -> anyhow::Result<()> {
        let time: SystemTime = row.get("updated_at");
        self.rows += 1;
        self.id = row.get("id");
        self.time = match self.form {
            Form::Milliseconds => to_the_millisecond(time)?,
            Form::Offset | Form::Id | Form::TimeAfter | Form::TimeFrom | Form::Compound | Form::Delayed => {
                time
            }
        };
        Ok(())
    }

    /// Whether the next page after both is the same.
    fn is_at(&self, other: &Self) -> bool {
        match self.form {
            Form::Offset => self.rows == other.rows,
            Form::Id => self.id == other.id,
            Form::TimeAfter | Form::TimeFrom => self.time == other.time,
            Form::Milliseconds | Form::Compound | Form::Delayed => {
                (self.time, self.id) == (other.time, other.id)
            }
        }
    }
}

impl Form {
    fn page_sql(self) -> String {
        let rest = match self {
            Self::Offset => "ORDER BY updated_at, id OFFSET $1",
            Self::Id => "WHERE id > $1 ORDER BY id",
            Self::TimeAfter => "WHERE updated_at > $1 ORDER BY updated_at",
            Self::TimeFrom => "WHERE updated_at >= $1 ORDER BY updated_at",
            Self::Milliseconds | Self::Compound => {
                "WHERE (updated_at, id) > ($1, $2) ORDER BY updated_at, id"
            }
            Self::Delayed => {
                "WHERE (updated_at, id) > ($1, $2) AND updated_at < clock_timestamp() - interval '1 second' \
                 ORDER BY updated_at, id"
            }
        };
        format!("SELECT id, version, updated_at FROM orders {rest} LIMIT {PAGE_ROWS}")
    }
}

fn to_the_millisecond(time: SystemTime) -> anyhow::Result<SystemTime> {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(since_epoch.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_milliseconds_is_never_later() {
        let time = |nanoseconds| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
        for (exact, truncated) in [(1_999_999, 1_000_000), (2_000_000, 2_000_000)] {
            assert_eq!(to_the_millisecond(time(exact)).unwrap(), time(truncated));
        }
    }
}
