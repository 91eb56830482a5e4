-- Every key begins with the feed, as in PostgreSQL. Seqs and times (in ms) are integers, bodies are JSON texts as they came in.

CREATE TABLE feed (
    feed       TEXT    NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    head       INTEGER NOT NULL,
    min_seq    INTEGER NOT NULL,
    history    TEXT    NOT NULL,
    creator    TEXT    NOT NULL,
    members    INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE entry (
    feed   TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    sender TEXT    NOT NULL,
    key    TEXT,
    ts     INTEGER NOT NULL,
    body   TEXT    NOT NULL,
    PRIMARY KEY (feed, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX entry_key ON entry (feed, sender, key) WHERE key IS NOT NULL;

-- One row an interval; successive intervals of a user don't overlap.
CREATE TABLE member (
    feed               TEXT    NOT NULL,
    user_id            TEXT    NOT NULL,
    joined_seq         INTEGER NOT NULL,
    from_seq           INTEGER NOT NULL,
    to_seq             INTEGER,
    left_by_themselves INTEGER NOT NULL,
    PRIMARY KEY (feed, user_id, joined_seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX member_present ON member (feed, user_id) WHERE to_seq IS NULL;
CREATE INDEX member_of_user ON member (user_id, feed, joined_seq);

-- The keys of trimmed messages, so that a late re-send is recognised. The digest is the SHA-256 of the body.
CREATE TABLE trimmed_key (
    feed   TEXT    NOT NULL,
    sender TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    ts     INTEGER NOT NULL,
    digest BLOB    NOT NULL,
    PRIMARY KEY (feed, sender, key)
) STRICT, WITHOUT ROWID;
