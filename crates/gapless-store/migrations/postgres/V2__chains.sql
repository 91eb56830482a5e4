-- A chain's id is a number of up to 64 bits, which bigint doesn't hold; it is kept as a text.

CREATE TABLE chain (
    chain       text COLLATE "C" NOT NULL PRIMARY KEY,
    epoch       bigint NOT NULL,
    head        bigint NOT NULL,
    min_seq     bigint NOT NULL,
    finalized   bigint,
    -- The seqs that are left out since the log was rewound: behind the first, up to the second.
    gap_after   bigint,
    gap_to      bigint,
    -- Rises with every ingestion, so that a gateway knows whether what it remembers of the blocks is up to date.
    version     bigint NOT NULL,
    created_at  bigint NOT NULL
);

-- The blocks that a reorg may still be about.
CREATE TABLE chain_block (
    chain       text COLLATE "C" NOT NULL,
    hash        bytea NOT NULL,
    number      bigint NOT NULL,
    parent      bytea NOT NULL,
    time        bigint NOT NULL,
    canonical   boolean NOT NULL,
    -- The events of a block that is not canonical, as JSON; it may become so again.
    orphan      text COLLATE "C",
    PRIMARY KEY (chain, hash)
);

CREATE INDEX chain_block_number ON chain_block (chain, number);

CREATE TABLE chain_entry (
    chain       text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    -- Of an event: where it is. Of a revoke: the last place that still holds.
    block       bigint NOT NULL,
    log         bigint NOT NULL,
    -- Only of an event.
    hash        bytea,
    time        bigint,
    topic       text COLLATE "C",
    payload     text COLLATE "C",
    state       text COLLATE "C",
    -- The seq of the revoke that took the event back.
    void_at     bigint,
    -- Only of a revoke: the first event that it took back.
    first       bigint,
    PRIMARY KEY (chain, seq)
);

CREATE INDEX chain_entry_topic ON chain_entry (chain, topic, seq) WHERE topic IS NOT NULL;
CREATE INDEX chain_entry_revoke ON chain_entry (chain, seq) WHERE kind = 'revoke';
CREATE INDEX chain_entry_place ON chain_entry (chain, block, log, seq) WHERE kind = 'event' AND void_at IS NULL;

-- The values that canonical events led to, a row an event and value.
CREATE TABLE chain_value (
    chain       text COLLATE "C" NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,
    block       bigint NOT NULL,
    value       text COLLATE "C" NOT NULL,
    -- The amount that was added, where it is a sum.
    added       text COLLATE "C",
    PRIMARY KEY (chain, topic, key, seq)
);

CREATE INDEX chain_value_seq ON chain_value (chain, seq);
