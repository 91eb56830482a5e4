-- Every id is compared byte by byte, as the program does; a collation of the system could change under an index.

CREATE TABLE feed (
    feed        text   COLLATE "C" PRIMARY KEY,
    kind        text   COLLATE "C" NOT NULL,
    epoch       bigint NOT NULL,
    head        bigint NOT NULL,
    -- The oldest seq kept; head + 1 when all is trimmed.
    min_seq     bigint NOT NULL,
    history     text   COLLATE "C" NOT NULL,
    creator     text   COLLATE "C" NOT NULL,
    -- How many members there are now.
    members     bigint NOT NULL,
    created_at  bigint NOT NULL
    -- A row is updated by every commit that appends; the room keeps its versions on one page, away from the index.
) WITH (fillfactor = 50);

CREATE TABLE entry (
    feed    text   COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    kind    text   COLLATE "C" NOT NULL,
    sender  text   COLLATE "C" NOT NULL,
    key     text   COLLATE "C",
    ts      bigint NOT NULL,
    body    text   COLLATE "C" NOT NULL,
    PRIMARY KEY (feed, seq)
);

CREATE UNIQUE INDEX entry_key ON entry (feed, sender, key) WHERE key IS NOT NULL;

-- One row an interval of membership.
CREATE TABLE member (
    feed                text    COLLATE "C" NOT NULL,
    user_id             text    COLLATE "C" NOT NULL,
    joined_seq          bigint  NOT NULL,
    -- What the member sees, both ends inside; no end while the membership lasts.
    from_seq            bigint  NOT NULL,
    to_seq              bigint,
    left_by_themselves  boolean NOT NULL,
    PRIMARY KEY (feed, user_id, joined_seq)
);

CREATE INDEX member_feeds ON member (user_id, feed, joined_seq DESC);
CREATE UNIQUE INDEX member_present ON member (feed, user_id) WHERE to_seq IS NULL;

-- What is kept of trimmed messages, so that a late re-send is still recognised.
CREATE TABLE trimmed_key (
    feed    text   COLLATE "C" NOT NULL,
    sender  text   COLLATE "C" NOT NULL,
    key     text   COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    ts      bigint NOT NULL,
    -- The SHA-256 of the body.
    digest  bytea  NOT NULL,
    PRIMARY KEY (feed, sender, key)
);
