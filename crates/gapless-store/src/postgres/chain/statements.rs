//! What is said to the database of chains. Each names its chain.

/// The columns that [`super::info`] reads.
macro_rules! info_columns {
    () => {
        "c.epoch, c.head, c.min_seq, c.finalized, c.gap_after, c.gap_to, b.number, b.hash, c.anew_after"
    };
}

/// The newest canonical block of the chain in `$1`.
macro_rules! newest_block {
    () => {
        "LEFT JOIN LATERAL ( \
             SELECT number, hash FROM chain_block \
             WHERE chain = $1 AND canonical ORDER BY number DESC LIMIT 1 \
         ) b ON true"
    };
}

pub(super) const INFO: &str =
    concat!("SELECT ", info_columns!(), " FROM chain c ", newest_block!(), " WHERE c.chain = $1");

pub(super) const CREATE: &str = "\
    INSERT INTO chain (chain, epoch, head, min_seq, version, created_at) VALUES ($1, $2, 0, 1, 0, $3) \
    ON CONFLICT DO NOTHING";

pub(super) const LOCK: &str = "SELECT version, clearing FROM chain WHERE chain = $1 FOR UPDATE";

pub(super) const TREE: &str = "\
    SELECT number, hash, parent, canonical FROM chain_block WHERE chain = $1 ORDER BY number";

pub(super) const ORPHANS: &str = "\
    SELECT b.number, b.hash, b.parent, b.time, b.orphan \
    FROM unnest($2::bytea[]) AS w (hash) CROSS JOIN LATERAL ( \
        SELECT * FROM chain_block b WHERE b.chain = $1 AND b.hash = w.hash LIMIT 1 \
    ) b";

pub(super) const FIRST_VOID: &str = "\
    SELECT seq FROM chain_entry \
    WHERE chain = $1 AND kind = 'event' AND void_at IS NULL AND block > $2 ORDER BY block, log, seq LIMIT 1";

pub(super) const LAST_LOG: &str = "\
    SELECT log FROM chain_entry \
    WHERE chain = $1 AND kind = 'event' AND void_at IS NULL AND block = $2 ORDER BY block DESC, log DESC, seq DESC LIMIT 1";

pub(super) const CHANGES: &str = "\
    SELECT seq, key, added, value FROM chain_value WHERE chain = $1 AND seq >= $2 ORDER BY seq";

/// Takes events back, and returns them.
pub(super) const VOID: &str = "\
    UPDATE chain_entry SET void_at = $3 WHERE chain = $1 AND seq >= $2 AND kind = 'event' AND void_at IS NULL \
    RETURNING seq, hash, log, topic, payload";

pub(super) const DELETE_VALUES: &str = "DELETE FROM chain_value WHERE chain = $1 AND seq >= $2";

pub(super) const REVOKE_BLOCKS: &str = "\
    UPDATE chain_block SET canonical = false, orphan = '[]' \
    WHERE chain = $1 AND number > $2 AND canonical RETURNING hash";

pub(super) const KEEP_ORPHAN: &str = "UPDATE chain_block SET orphan = $3 WHERE chain = $1 AND hash = $2";

pub(super) const LATEST_VALUES: &str = "\
    SELECT v.topic, v.key, v.value \
    FROM unnest($2::text[], $3::text[]) AS w (topic, key) CROSS JOIN LATERAL ( \
        SELECT * FROM chain_value v WHERE v.chain = $1 AND v.topic = w.topic AND v.key = w.key \
        ORDER BY v.seq DESC LIMIT 1 \
    ) v";

pub(super) const INSERT_BLOCKS: &str = "\
    INSERT INTO chain_block (chain, hash, number, parent, time, canonical) \
    SELECT $1, n.hash, n.number, n.parent, n.time, true \
    FROM unnest($2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[]) AS n (hash, number, parent, time) \
    ON CONFLICT (chain, hash) DO UPDATE SET canonical = true, orphan = NULL";

pub(super) const INSERT_ENTRIES: &str = "\
    INSERT INTO chain_entry (chain, seq, kind, block, log, hash, time, topic, payload, state, first) \
    SELECT $1, n.* FROM unnest( \
        $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[], $8::text[], $9::text[], \
        $10::text[], $11::bigint[] \
    ) AS n (seq, kind, block, log, hash, time, topic, payload, state, first)";

/// The same for many.
pub(super) const COPY_ENTRIES: &str = "\
    COPY chain_entry (chain, seq, kind, block, log, hash, time, topic, payload, state, first) FROM STDIN (FORMAT binary)";

pub(super) const INSERT_VALUES: &str = "\
    INSERT INTO chain_value (chain, topic, key, seq, block, value, added) \
    SELECT $1, n.* FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[]) \
    AS n (topic, key, seq, block, value, added)";

/// The same for many.
pub(super) const COPY_VALUES: &str = "\
    COPY chain_value (chain, topic, key, seq, block, value, added) FROM STDIN (FORMAT binary)";

pub(super) const FORGET_BLOCKS: &str = "DELETE FROM chain_block WHERE chain = $1 AND number < $2";

pub(super) const MOVE_HEAD: &str = "\
    UPDATE chain SET head = $2, finalized = $3, version = version + 1 WHERE chain = $1";

pub(super) const BLOCKS: &str = "\
    SELECT b.number, b.hash, b.parent, b.canonical \
    FROM unnest($2::bytea[]) AS w (hash) CROSS JOIN LATERAL ( \
        SELECT * FROM chain_block b WHERE b.chain = $1 AND b.hash = w.hash LIMIT 1 \
    ) b";

/// Of each topic the events after a seq, and the revokes that take back something of them that the reader may hold; at most so many of
/// each, and of a topic no more than one behind those that come to so many bytes ($6). What a revoke took back that is trimmed, nobody
/// knows, so that everybody may hold it. Each row has the last event that holds up to the height that was asked for ($4), if there is one.
/// There is one row at least when the feed exists.
pub(super) const LOG: &str = concat!(
    "SELECT ",
    info_columns!(),
    ", e.seq, e.kind, e.block, e.log, e.hash, e.time, e.topic, e.payload, e.state, e.first, l.seq FROM chain c ",
    newest_block!(),
    " LEFT JOIN LATERAL ( \
          SELECT x.seq, x.kind, x.block, x.log, x.hash, x.time, x.topic, x.payload, x.state, x.first \
          FROM unnest($2::text[]) AS t (topic) CROSS JOIN LATERAL ( \
              SELECT y.*, sum(coalesce(octet_length(y.payload), 0) + coalesce(octet_length(y.state), 0)) OVER ( \
                  ORDER BY y.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING \
              ) AS bytes_before \
              FROM ( \
                  SELECT * FROM chain_entry e \
                  WHERE e.chain = $1 AND e.topic = t.topic AND e.seq > $3 AND e.seq >= c.min_seq AND e.void_at IS NULL \
                      AND e.block <= $4 \
                  ORDER BY e.seq LIMIT $5 \
              ) y \
          ) x WHERE coalesce(x.bytes_before, 0) < $6::bigint \
          UNION ALL \
          SELECT x.seq, x.kind, x.block, x.log, x.hash, x.time, x.topic, x.payload, x.state, x.first FROM ( \
              SELECT * FROM chain_entry r \
              WHERE r.chain = $1 AND r.kind = 'revoke' AND r.seq > $3 AND r.seq >= c.min_seq AND r.first <= $3 \
                  AND (r.first < c.min_seq OR EXISTS ( \
                      SELECT 1 FROM unnest($2::text[]) AS t (topic) CROSS JOIN LATERAL ( \
                          SELECT 1 FROM chain_entry v \
                          WHERE v.chain = $1 AND v.topic = t.topic AND v.seq >= r.first AND v.seq <= $3 \
                              AND v.void_at = r.seq LIMIT 1 \
                      ) v \
                  )) ORDER BY r.seq LIMIT $5 \
          ) x \
      ) e ON true \
      LEFT JOIN LATERAL ( \
          SELECT seq FROM chain_entry \
          WHERE chain = $1 AND kind = 'event' AND void_at IS NULL AND block <= $4 AND $4 < 9223372036854775807 \
              AND NOT c.clearing \
          ORDER BY block DESC, log DESC, seq DESC LIMIT 1 \
      ) l ON true WHERE c.chain = $1"
);

/// The last event that holds and is at or before a place.
macro_rules! last_event {
    () => {
        "LEFT JOIN LATERAL ( \
             SELECT seq, block, log FROM chain_entry \
             WHERE chain = $1 AND kind = 'event' AND void_at IS NULL AND (block, log) <= ($2::bigint, $3::bigint) \
                 AND NOT c.clearing \
             ORDER BY block DESC, log DESC, seq DESC LIMIT 1 \
         ) l ON true"
    };
}

pub(super) const SEQ_AT: &str =
    concat!("SELECT c.min_seq, l.seq FROM chain c ", last_event!(), " WHERE c.chain = $1");

/// The values of topics ($4) after a block ($2; the place's log, $3, is beyond all), behind a topic and key ($5, $6), at most so many
/// ($7). Steps from key to key, however often a value has changed. There is one row at least when the feed exists.
pub(super) const VALUES: &str = concat!(
    "SELECT ",
    info_columns!(),
    ", l.seq, l.block, l.log, v.topic, v.key, v.value FROM chain c ",
    newest_block!(),
    " ",
    last_event!(),
    " LEFT JOIN LATERAL ( \
          SELECT x.* FROM unnest($4::text[]) AS t (topic) CROSS JOIN LATERAL ( \
              WITH RECURSIVE named (key) AS ( \
                  SELECT (SELECT min(k.key) FROM chain_value k WHERE k.chain = $1 AND k.topic = t.topic \
                      AND k.key > CASE WHEN t.topic = $5 COLLATE \"C\" THEN $6 ELSE '' END) \
                  UNION ALL \
                  SELECT (SELECT min(k.key) FROM chain_value k WHERE k.chain = $1 AND k.topic = t.topic \
                      AND k.key > named.key) \
                  FROM named WHERE named.key IS NOT NULL \
              ) \
              SELECT t.topic, named.key, x.value FROM named CROSS JOIN LATERAL ( \
                  SELECT value FROM chain_value w \
                  WHERE w.chain = $1 AND w.topic = t.topic AND w.key = named.key AND w.block <= $2 \
                  ORDER BY w.seq DESC LIMIT 1 \
              ) x WHERE named.key IS NOT NULL LIMIT $7 \
          ) x WHERE t.topic >= $5 COLLATE \"C\" AND NOT c.clearing \
      ) v ON true WHERE c.chain = $1"
);

/// Of a value, what came before its newest version is of no use once the log below is gone.
pub(super) const TRIM_VALUES: &str = "\
    DELETE FROM chain_value d USING ( \
        SELECT topic, key, max(seq) AS newest FROM chain_value \
        WHERE chain = $1 AND seq >= $2 AND seq < $3 GROUP BY topic, key \
    ) n WHERE d.chain = $1 AND d.topic = n.topic AND d.key = n.key AND d.seq < n.newest";

pub(super) const TRIM_ENTRIES: &str = "DELETE FROM chain_entry WHERE chain = $1 AND seq >= $2 AND seq < $3";

pub(super) const RAISE_MIN_SEQ: &str = "UPDATE chain SET min_seq = $2 WHERE chain = $1";

/// The seq that a step of a trim ends before, if there is as much; seqs may be left out.
pub(super) const TRIM_END: &str = "\
    SELECT seq FROM chain_entry WHERE chain = $1 AND seq >= $2 ORDER BY seq LIMIT 1 OFFSET $3";

/// The first event and the revoke of what a trim from one seq up to another would tear apart.
pub(super) const TORN_STRETCH: &str = "\
    SELECT min(first), max(seq) FROM chain_entry \
    WHERE chain = $1 AND kind = 'revoke' AND seq >= $3 AND first < $3 AND first >= $2";

/// The first event that a reorg may still take back: it lies above what is finalized and above the oldest block that is kept.
pub(super) const FIRST_REVOCABLE: &str = "\
    SELECT seq FROM chain_entry \
    WHERE chain = $1 AND kind = 'event' AND void_at IS NULL AND block >= ( \
        SELECT greatest(b.number, c.finalized) FROM chain c CROSS JOIN LATERAL ( \
            SELECT number FROM chain_block WHERE chain = $1 AND canonical ORDER BY number LIMIT 1 \
        ) b WHERE c.chain = $1 \
    ) ORDER BY block, log, seq LIMIT 1";

/// The chains behind one, in the order of their ids.
pub(super) const CHAINS: &str = "SELECT chain FROM chain WHERE chain > $1 ORDER BY chain LIMIT $2";

/// The chain that follows another in the order of their ids.
pub(super) const NEXT_CHAIN: &str = "SELECT chain FROM chain WHERE chain > $1 ORDER BY chain LIMIT 1";

pub(super) const RAISE_EPOCH: &str = "\
    UPDATE chain SET epoch = $2, head = $3, gap_after = $4, gap_to = $3, version = version + 1 WHERE chain = $1";

pub(super) const DELETE_ALL_BLOCKS: &str = "DELETE FROM chain_block WHERE chain = $1";

pub(super) const BEGIN_ANEW: &str = "\
    UPDATE chain SET epoch = $2, head = $3, min_seq = $4, anew_after = $5, finalized = NULL, clearing = true, \
        version = version + 1 \
    WHERE chain = $1";

/// Deletes some of the entries that a feed which was given up has left, and tells of each.
pub(super) const CLEAR_ENTRIES: &str = "\
    DELETE FROM chain_entry WHERE chain = $1 AND seq IN ( \
        SELECT e.seq FROM chain c CROSS JOIN chain_entry e \
        WHERE c.chain = $1 AND e.chain = $1 AND e.seq <= c.anew_after ORDER BY e.seq LIMIT $2 \
    ) RETURNING 1";

pub(super) const CLEAR_VALUES: &str = "\
    DELETE FROM chain_value WHERE chain = $1 AND (topic, key, seq) IN ( \
        SELECT v.topic, v.key, v.seq FROM chain c CROSS JOIN chain_value v \
        WHERE c.chain = $1 AND v.chain = $1 AND v.seq <= c.anew_after ORDER BY v.seq LIMIT $2 \
    ) RETURNING 1";

pub(super) const CLEARED: &str = "UPDATE chain SET clearing = false WHERE chain = $1";

/// All of them.
#[cfg(test)]
pub(in crate::postgres) const ALL: &[&str] = &[
    INFO,
    CREATE,
    LOCK,
    TREE,
    ORPHANS,
    FIRST_VOID,
    LAST_LOG,
    CHANGES,
    VOID,
    DELETE_VALUES,
    REVOKE_BLOCKS,
    KEEP_ORPHAN,
    LATEST_VALUES,
    INSERT_BLOCKS,
    INSERT_ENTRIES,
    INSERT_VALUES,
    FORGET_BLOCKS,
    MOVE_HEAD,
    BLOCKS,
    LOG,
    SEQ_AT,
    VALUES,
    TRIM_VALUES,
    TRIM_ENTRIES,
    RAISE_MIN_SEQ,
    TRIM_END,
    TORN_STRETCH,
    FIRST_REVOCABLE,
    CHAINS,
    NEXT_CHAIN,
    RAISE_EPOCH,
    DELETE_ALL_BLOCKS,
    BEGIN_ANEW,
    CLEAR_ENTRIES,
    CLEAR_VALUES,
    CLEARED,
];
