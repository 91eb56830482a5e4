-- A chain's id is a number of up to 64 bits, which SQLite's integers don't hold; it is kept as a text.

CREATE TABLE chain (
    chain       TEXT    NOT NULL PRIMARY KEY,
    epoch       INTEGER NOT NULL,
    head        INTEGER NOT NULL,
    min_seq     INTEGER NOT NULL,
    finalized   INTEGER,
    -- The seqs that are left out since the log was rewound: behind the first, up to the second.
    gap_after   INTEGER,
    gap_to      INTEGER,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The blocks that a reorg may still be about.
CREATE TABLE chain_block (
    chain       TEXT    NOT NULL,
    hash        BLOB    NOT NULL,
    number      INTEGER NOT NULL,
    parent      BLOB    NOT NULL,
    time        INTEGER NOT NULL,
    canonical   INTEGER NOT NULL,
    -- The events of a block that is not canonical, as JSON; it may become so again.
    orphan      TEXT,
    PRIMARY KEY (chain, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX chain_block_number ON chain_block (chain, number);

CREATE TABLE chain_entry (
    chain       TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    -- Of an event: where it is. Of a revoke: the last place that still holds.
    block       INTEGER NOT NULL,
    log         INTEGER NOT NULL,
    -- Only of an event.
    hash        BLOB,
    time        INTEGER,
    topic       TEXT,
    payload     TEXT,
    state       TEXT,
    -- The seq of the revoke that took the event back.
    void_at     INTEGER,
    -- Only of a revoke: the first event that it took back.
    first       INTEGER,
    PRIMARY KEY (chain, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX chain_entry_topic ON chain_entry (chain, topic, seq) WHERE topic IS NOT NULL;
CREATE INDEX chain_entry_revoke ON chain_entry (chain, seq) WHERE kind = 'revoke';
CREATE INDEX chain_entry_place ON chain_entry (chain, block, log, seq) WHERE kind = 'event' AND void_at IS NULL;

-- The values that canonical events led to, a row an event and value.
CREATE TABLE chain_value (
    chain       TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    block       INTEGER NOT NULL,
    value       TEXT    NOT NULL,
    -- The amount that was added, where it is a sum.
    added       TEXT,
    PRIMARY KEY (chain, topic, key, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX chain_value_seq ON chain_value (chain, seq);
