//! The source of truth: feeds and entries in SQLite or PostgreSQL.
