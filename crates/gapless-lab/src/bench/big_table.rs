//! A million rows of ten columns, as an application has them.

use gapless_tables::{TableConfig, install};

use crate::database::Database;

/// What the table goes by.
pub(super) const NAME: &str = "events";

/// The table as an application makes it.
pub(super) const CREATE: &str = "
    CREATE TABLE events (
        id bigint PRIMARY KEY, tenant uuid NOT NULL, status text NOT NULL, amount numeric(18,4), payload jsonb, tags text[],
        note text, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz
    )";

/// Row n was changed n times 0.137 ms after the beginning of 2026.
const FILL: &str = "
    INSERT INTO events
    SELECT n, gen_random_uuid(), (ARRAY['new', 'paid', 'shipped', 'void'])[1 + n % 4], (n % 100000) / 7.0,
        jsonb_build_object('n', n, 's', md5(n::text)), ARRAY['a' || n % 10, 'b'], repeat('x', (n % 100)::int), t.at, t.at, NULL
    FROM generate_series($1::bigint, $2::bigint) n
    CROSS JOIN LATERAL (SELECT timestamptz '2026-01-01 00:00:00+00' + n * interval '137 microseconds' AS at) t";

/// Makes the table, and what reading it in strict mode takes.
pub(super) async fn make(database: &Database, rows: u64) -> anyhow::Result<()> {
    make_plain(database, rows).await?;
    install(&database.url(), TableConfig::new(NAME), true).await?;
    database.postgres().await?.batch_execute("VACUUM ANALYZE events").await?;
    Ok(())
}

/// Makes the table, without anything of ours.
pub(super) async fn make_plain(database: &Database, rows: u64) -> anyhow::Result<()> {
    let sql = database.postgres().await?;
    sql.batch_execute(CREATE).await?;
    insert(database, 1, rows).await?;
    sql.batch_execute("CREATE INDEX ON events (updated_at, id)").await?;
    sql.batch_execute("VACUUM ANALYZE events").await?;
    Ok(())
}

/// Inserts the rows of some numbers, both ends included.
pub(super) async fn insert(database: &Database, first: u64, last: u64) -> anyhow::Result<()> {
    let sql = database.postgres().await?;
    sql.execute(FILL, &[&i64::try_from(first)?, &i64::try_from(last)?]).await?;
    Ok(())
}
