//! How the store's connections are set.

/// What the store sets its connections to, as far as it matters to reading.
pub(super) const SESSION: &str = "\
    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
    SET enable_mergejoin = off; SET enable_sort = off; SET jit = off";
