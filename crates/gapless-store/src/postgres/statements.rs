//! What a lane says to the database.
//!
//! Rows come as arrays, and are joined by `LATERAL ... LIMIT 1`: so each of them is looked up in the index, whichever
//! table the planner takes for the smaller one. Rows of `feed` are updated by their place, which a row that is locked keeps.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Statement;

use super::rows::{head_columns, member_columns};

/// Locks feeds, always in id order, so that two transactions never wait for each other.
const LOCK_FEEDS: &str = concat!(
    "SELECT f.feed, ",
    head_columns!(),
    ", f.history, f.creator, f.min_seq FROM feed f WHERE f.feed = ANY($1::text[]) ORDER BY f.feed FOR UPDATE"
);

/// The latest membership of each user in each feed.
const LATEST_MEMBERSHIPS: &str = concat!(
    "SELECT w.feed, w.user_id, ",
    member_columns!(),
    " FROM unnest($1::text[], $2::text[]) AS w (feed, user_id) CROSS JOIN LATERAL ( \
         SELECT * FROM member m WHERE m.feed = w.feed AND m.user_id = w.user_id \
         ORDER BY m.joined_seq DESC LIMIT 1 \
     ) m"
);

/// Those keys that were used before, whether the entry is still there or trimmed. Most feeds never were trimmed, and then
/// nothing is looked up there.
const USED_KEYS: &str = "\
    SELECT w.feed, w.sender, w.key, e.seq, e.ts, e.body, NULL::bytea \
    FROM unnest($1::text[], $2::text[], $3::text[]) AS w (feed, sender, key) CROSS JOIN LATERAL ( \
        SELECT * FROM entry e WHERE e.feed = w.feed AND e.sender = w.sender AND e.key = w.key LIMIT 1 \
    ) e \
    UNION ALL \
    SELECT w.feed, w.sender, w.key, t.seq, t.ts, NULL, t.digest \
    FROM unnest($1::text[], $2::text[], $3::text[]) AS w (feed, sender, key) CROSS JOIN LATERAL ( \
        SELECT * FROM trimmed_key t WHERE t.feed = w.feed AND t.sender = w.sender AND t.key = w.key LIMIT 1 \
    ) t \
    WHERE (SELECT bool_or(f.min_seq > 1) FROM feed f WHERE f.feed = ANY($4::text[]))";

const INSERT_ENTRIES: &str = "\
    INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])";

const WRITE_MEMBERSHIPS: &str = "\
    INSERT INTO member (feed, user_id, joined_seq, from_seq, to_seq, left_by_themselves) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[]) \
    ON CONFLICT (feed, user_id, joined_seq) DO UPDATE \
    SET from_seq = excluded.from_seq, to_seq = excluded.to_seq, left_by_themselves = excluded.left_by_themselves";

const MOVE_HEADS: &str = "\
    UPDATE feed f SET head = n.head, members = n.members \
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS n (feed, head, members) \
    CROSS JOIN LATERAL (SELECT ctid FROM feed l WHERE l.feed = n.feed LIMIT 1) l WHERE f.ctid = l.ctid";

const CREATE_FEED: &str = "\
    INSERT INTO feed (feed, kind, epoch, head, min_seq, history, creator, members, created_at) \
    VALUES ($1, 'conversation', $2, 0, 1, $3, $4, 0, $5) ON CONFLICT DO NOTHING";

const RAISE_EPOCHS: &str = "\
    UPDATE feed f SET epoch = n.epoch FROM unnest($1::text[], $2::bigint[]) AS n (feed, epoch) \
    CROSS JOIN LATERAL (SELECT ctid FROM feed l WHERE l.feed = n.feed LIMIT 1) l WHERE f.ctid = l.ctid";

/// Deletes entries of one feed and keeps what recognises their keys.
const TRIM_ENTRIES: &str = "\
    WITH gone AS ( \
        DELETE FROM entry WHERE feed = $1 AND seq >= $2 AND seq < $3 RETURNING sender, key, seq, ts, body \
    ) \
    INSERT INTO trimmed_key (feed, sender, key, seq, ts, digest) \
    SELECT $1, sender, key, seq, ts, sha256(convert_to(body, 'UTF8')) FROM gone WHERE key IS NOT NULL";

const RAISE_MIN_SEQ: &str = "UPDATE feed SET min_seq = $2 WHERE feed = $1";

macro_rules! statements {
    ($($name:ident: $sql:ident),* $(,)?) => {
        /// The statements of one connection, prepared.
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            #[cfg(test)]
            pub(super) const ALL: &[&str] = &[$($sql),*];

            pub(super) async fn prepare(client: &ClientWrapper) -> Result<Self, tokio_postgres::Error> {
                let ($($name,)*) = tokio::try_join!($(client.prepare($sql),)*)?;
                Ok(Self { $($name,)* })
            }
        }
    };
}

statements! {
    lock_feeds: LOCK_FEEDS,
    latest_memberships: LATEST_MEMBERSHIPS,
    used_keys: USED_KEYS,
    insert_entries: INSERT_ENTRIES,
    write_memberships: WRITE_MEMBERSHIPS,
    move_heads: MOVE_HEADS,
    create_feed: CREATE_FEED,
    raise_epochs: RAISE_EPOCHS,
    trim_entries: TRIM_ENTRIES,
    raise_min_seq: RAISE_MIN_SEQ,
}
