//! The source, against a real PostgreSQL.

mod changes;

mod late;
mod paging;

mod shop;
